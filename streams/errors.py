"""The ways in which processing a record can fail, as `streams.lanes` and `streams.batches` tell them apart."""

from __future__ import annotations


class RecordFailed(Exception):
    """This record cannot be processed, now or later: it is parked in the dead letters.

    Attributes:
        reason: a short code, for counting.
        detail: one sentence for people.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class RecordDelayed(RecordFailed):
    """This record cannot be processed now: it is tried again, a limited number of times.

    Attributes:
        retry_after: seconds that the service asked to wait, or None.
    """

    def __init__(self, reason: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(reason, detail)
        self.retry_after = retry_after


class DependencyDown(Exception):
    """Something every record needs (the broker, a store) does not answer: tried again without a limit.

    Attributes:
        retry_after: seconds that the service asked to wait, or None.
    """

    def __init__(self, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after
