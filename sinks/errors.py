"""What a sink may raise: the two cases that its caller treats differently."""

from __future__ import annotations


class SinkUnavailable(Exception):
    """The store does not answer, or says that it cannot now: the same rows are worth sending again.

    Attributes:
        retry_after: seconds that the store asked to wait, or None.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EmbedderUnavailable(SinkUnavailable):
    """The embedding server does not answer, or says that it cannot now; nothing of ours starts one."""


class SinkRejected(Exception):
    """The store understood the request and refuses it: sending it again will not help."""
