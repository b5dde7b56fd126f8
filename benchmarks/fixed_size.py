"""`FixedSize`: messages that all have the same size, of users who all write equally many."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import replace

from benchmarks.load.texts import assistant_text, user_text
from schemas.codec import encode
from schemas.messages import ChatMessage
from streams.kafka import producer
from streams.partitioning import partition_for
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics

_OWN: Final = 0.5
"""Share of the messages that users write; assistants answer."""

_TEXTS: Final = 2_000
"""Different texts of users, and of assistants."""

_IN_FLIGHT: Final = 10_000


class Sent(NamedTuple):
    """A record of the chat topic."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSize:
    """What is sent: the same, to the last byte, for the same seed.

    Attributes:
        messages: of all users together.
        users: each writes a message, then each the next one, every time in another order.
        size: bytes of a message as it is on the topic, in JSON.
        telling: share of the users' own messages that tell something about them, and so carry a signal.
    """

    messages: int
    users: int
    size: int = 200
    telling: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        if self.size - _overhead(self._message(self.messages, self.users, own=False)) < 1:
            raise ValueError(f"{self.size} bytes are too few for a message with a text")

    def records(self) -> Iterator[Sent]:
        """Yield the messages in the order in which they are sent."""
        chance = random.Random(self.seed)
        told, talk, answers = (self._texts(kind, chance) for kind in ("told", "talk", "answer"))
        users: list[int] = []
        for number in range(self.messages):
            if not users:
                users = list(range(self.users))
                chance.shuffle(users)
            own = chance.random() < _OWN
            texts = (told if chance.random() < self.telling else talk) if own else answers
            message = self._message(number, users.pop(), own=own)
            message = replace(message, content=chance.choice(texts)[: self.size - _overhead(message)])
            yield Sent(message.key, encode(message))

    def closings(self) -> Iterator[Sent]:
        """Yield, for each user, the event that closes their window."""
        for user in range(self.users):
            event = ChatMessage(type="flush", user_id=user_name(user))
            yield Sent(event.key, encode(event))

    def _texts(self, kind: str, chance: random.Random) -> list[str]:
        length = 2.0 * self.size  # cut to what fits
        if kind == "answer":
            return [assistant_text("en", length, chance) for _ in range(_TEXTS)]
        return [user_text("en", length, kind == "told", chance) for _ in range(_TEXTS)]

    @staticmethod
    def _message(number: int, user: int, *, own: bool) -> ChatMessage:
        return ChatMessage(
            user_id=user_name(user), role="user" if own else "assistant", content="x", message_id=f"m-{number}"
        )


def user_name(number: int) -> str:
    """Return the id of a user."""
    return f"user-{number}"


def _overhead(message: ChatMessage) -> int:
    """Return how many bytes a message of one letter has beside its text."""
    return len(encode(message)) - len(message.content)


async def publish(
    kafka: KafkaSettings, records: Iterable[Sent], progress: Callable[[int], None] = lambda _count: None
) -> int:
    """Send records to the chat topic, and return how many there were once the broker has all of them.

    Args:
        kafka: the cluster.
        records: what to send.
        progress: told now and then how many it has.

    Raises:
        KafkaUnavailable: when the broker does not answer.
        KafkaError: when it does not take them.
    """
    partitions = await ensure_topics(kafka)
    topic = Topics.of(kafka).messages
    count = 0
    async with producer(kafka) as client:
        open_sends = []
        for key, value in records:
            open_sends.append(await client.send(topic, value, key, partition_for(key, partitions)))
            count += 1
            if len(open_sends) >= _IN_FLIGHT:
                for sent in open_sends:
                    await sent
                open_sends.clear()
                progress(count)
        for sent in open_sends:
            await sent
    progress(count)
    return count
