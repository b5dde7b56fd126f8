"""`Traffic`: what is sent under load, decided by a seed down to the last byte."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final, NamedTuple

from benchmarks.load.spread import Spread
from benchmarks.load.texts import Language, assistant_text, user_text
from schemas.codec import encode
from schemas.messages import ChatMessage

_OWN: Final = 0.5
"""Share of the messages that users write; assistants answer."""

_LATE_SECONDS: Final = (3_600.0, 7 * 86_400.0)
"""By how much a late message is late, at least and at the most."""

_REPEAT_WITHIN: Final = 200
"""A message that is sent twice comes again within so many messages."""

_TURNS_OF_SESSION: Final = 20
_PREFIX: Final = "load-"


DEFAULT_LENGTH: Final = Spread(120.0)


class Message(NamedTuple):
    """A record of the chat topic.

    Attributes:
        number: which message it is, from 0; one that is sent twice has the same number twice.
    """

    number: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What is sent.

    Attributes:
        seed: the same traffic has the same messages.
        messages: records on the chat topic, those included that are sent a second time.
        users: of one tenant.
        zipf: skew: user number n writes in proportion to 1 / n**zipf; 0: all write the same.
        chinese: share of the users who write Chinese; the others write English.
        telling: share of the users' own messages that tell something about them.
        length: characters of a message.
        late: share of messages that were written an hour to a week before they are sent.
        duplicates: share of messages that are sent twice.
    """

    seed: int = 1
    messages: int = 20_000
    users: int = 500
    zipf: float = 0.0
    chinese: float = 0.3
    telling: float = 0.5
    length: Spread = DEFAULT_LENGTH
    late: float = 0.0
    duplicates: float = 0.0

    def records(self, start: datetime) -> Iterator[Message]:
        """Yield the messages in the order in which they are sent.

        Args:
            start: when sending begins: late messages were written before it.
        """
        chance = random.Random(self.seed)
        languages: list[Language] = ["zh" if chance.random() < self.chinese else "en" for _ in range(self.users)]
        weights = list(accumulate(1 / rank**self.zipf for rank in range(1, self.users + 1)))
        turns = [0] * self.users
        again: list[tuple[int, Message]] = []
        number = 0
        for position in range(self.messages):
            if again and again[0][0] <= position:
                yield heapq.heappop(again)[1]
                continue
            user = chance.choices(range(self.users), cum_weights=weights)[0]
            turns[user] += 1
            message = self._message(number, user, turns[user], languages[user], start, chance)
            if self.duplicates and chance.random() < self.duplicates:
                heapq.heappush(again, (position + chance.randint(1, _REPEAT_WITHIN), message))
            yield message
            number += 1

    def _message(
        self, number: int, user: int, turn: int, language: Language, start: datetime, chance: random.Random
    ) -> Message:
        own = chance.random() < _OWN
        length = self.length.draw(chance)
        if own:
            content = user_text(language, length, chance.random() < self.telling, chance)
        else:
            content = assistant_text(language, length, chance)
        late = bool(self.late) and chance.random() < self.late
        message = ChatMessage(
            user_id=f"{_PREFIX}{user}",
            role="user" if own else "assistant",
            content=content,
            session_id=f"session {turn // _TURNS_OF_SESSION}",
            message_id=f"{_PREFIX}{number}",
            occurred_at=start - timedelta(seconds=chance.uniform(*_LATE_SECONDS)) if late else None,
        )
        return Message(number, message.key, encode(message))


def number_of(message_id: str) -> int | None:
    """Return which message has this id, or None when it is no message of any traffic."""
    number = message_id.removeprefix(_PREFIX)
    return int(number) if number != message_id and number.isdecimal() else None
