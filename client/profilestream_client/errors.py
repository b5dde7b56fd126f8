"""What can go wrong: every error of this package that is not a wrong argument is a `ClientError`."""

from __future__ import annotations


class ClientError(Exception):
    """Base of the errors of this package."""


class KafkaUnavailable(ClientError):
    """The broker does not answer, or refuses this client."""


class TopicMissing(ClientError):
    """The broker does not have the topic, or does not show it to this client."""


class InvalidMessage(ClientError):
    """A message that the pipeline could not process, and that was therefore not sent.

    Attributes:
        index: its place among the messages that were to be published, from 0.
        reason: which field is wrong and why.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"message {index}: {reason}")
        self.index = index
        self.reason = reason


class PublishFailed(ClientError):
    """The broker did not take everything.

    Attributes:
        acknowledged: how many messages it has.
        unacknowledged: places of the messages of which it is not known whether the broker has them, from 0. Those
            after the last of them were not sent.
    """

    def __init__(self, reason: str, acknowledged: int, unacknowledged: tuple[int, ...]) -> None:
        super().__init__(f"{acknowledged} messages are acknowledged, but then: {reason}")
        self.acknowledged = acknowledged
        self.unacknowledged = unacknowledged


class PositionLost(ClientError):
    """The topic does not hold the position that a subscription was to go on from.

    Its records were removed, or it is not the topic that the position was taken on.
    """


class StoreUnavailable(ClientError):
    """ClickHouse or Qdrant does not answer; worth trying again."""


class StoreRefused(ClientError):
    """ClickHouse or Qdrant refuses this client or what it asks; not worth trying again."""
