"""`record_again`: from a dead letter to the record that is sent again.

What a stage could not read goes back to that stage, under a heading that says how often the flush was sent again and
which branches are to answer: sent twice, it is applied once. A chat message goes back as it came, and says when it was
written first: that is when it was said, unless it says so itself.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from msgspec.structs import replace

from agents.moved import MOVED_HEADER
from schemas.codec import InvalidRecord, decode, encode
from schemas.dead_letters import REDRIVE_HEADER, TIMESTAMP_HEADER
from schemas.flushes import Branch, FlushBatch, FlushRef, Signals
from schemas.ids import event_id
from schemas.stages import Candidates, Memo, StageName
from streams.letters import Content, Letter
from streams.topics import Topics


class CannotRedrive(Exception):
    """Sending this letter's record again would be of no use; the message is a sentence that says why."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """The record that is sent again.

    Attributes:
        topic: where to.
        partition: that of the letter.
        key: of the user.
        value: the record.
        headers: its own, and those that name the letter and, of a chat message, its first timestamp.
        timestamp: in milliseconds since the epoch; None for the present time.
        ends: id of the event that will end the flush, None where the record has none of its own.
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int | None = None
    ends: str | None = None


_BATCH_BRANCHES: Final[dict[StageName, tuple[Branch, ...]]] = {
    # The branch of the keywords reads the batch too: it has answered already.
    "summary": ("extract", "tag"),
    "domain": ("domain",),
    "facts": ("facts",),
    "facts_half": ("facts",),
    "preferences_half": ("facts",),
}
_MEMO_BRANCHES: Final[dict[StageName, tuple[Branch, ...]]] = {"extract": ("extract",), "tag": ("tag",)}

_OF_THE_FIRST_TIME: Final = frozenset({MOVED_HEADER, REDRIVE_HEADER})
"""Headers of a record that this program wrote when it sent it on before."""


def record_again(letter: Letter, content: Content, topics: Topics) -> Again:
    """Return what to send to have a letter's record processed again.

    Args:
        letter: the letter.
        content: the record in it.
        topics: names of the topics.

    Raises:
        CannotRedrive: when there is no use in that.
    """
    stage, place = letter.why.stage, f"{letter.why.topic}[{letter.why.partition}]@{letter.why.offset}"
    if content.missing is not None:
        raise CannotRedrive(f"the record is not in the letter, because {content.missing}: it was at {place}")
    own = [(name, value) for name, value in content.headers if name not in _OF_THE_FIRST_TIME]
    again = Again(
        topic=topics.messages,
        partition=letter.why.partition,
        key=content.key,
        value=content.value,
        headers=[*own, (REDRIVE_HEADER, letter.letter_id.encode())],
    )
    try:
        return _addressed(stage, again, content, topics)
    except InvalidRecord as error:
        raise CannotRedrive(f"stage {stage} of this release cannot read the record: {error}") from error


def _addressed(stage: StageName, again: Again, content: Content, topics: Topics) -> Again:
    if stage == "window":
        first = (TIMESTAMP_HEADER, str(max(0, content.timestamp)).encode())
        return dataclasses.replace(again, timestamp=content.timestamp, headers=[*again.headers, first])
    if stage in _BATCH_BRANCHES:
        batch = decode(content.value, FlushBatch)
        ref = _next(batch.ref, stage, _BATCH_BRANCHES[stage])
        return _flush(again, topics.flushes, replace(batch, ref=ref, signals=_signals(stage, batch)), ref)
    if stage in _MEMO_BRANCHES:
        memo = decode(content.value, Memo)
        ref = _next(memo.flush, stage, _MEMO_BRANCHES[stage])
        return _flush(again, topics.memos, replace(memo, flush=ref), ref)
    if stage == "merge":
        answer = decode(content.value, Candidates)
        if answer.branch == "forget":
            raise CannotRedrive(
                "the request to forget a user is not repeated: `profilestream forget USER` makes a new one"
            )
        if answer.status == "failed":
            raise CannotRedrive(
                f"there is nothing in it to merge, because branch {answer.branch} failed: that has a letter of its own"
            )
        ref = _next(answer.flush, stage, (answer.branch,))
        return _flush(again, topics.candidates, replace(answer, flush=ref), ref)
    raise CannotRedrive(
        f"stage {stage} reads what other stages wrote, and could not read this record: it can only be discarded"
    )


def _next(ref: FlushRef, stage: StageName, branches: tuple[Branch, ...]) -> FlushRef:
    # A stage that fails again and again does not make it longer.
    letters_of = ref.letters_of if ref.letters_of[-1:] == (stage,) else (*ref.letters_of, stage)
    return replace(ref, redrive=ref.redrive + 1, only=branches, letters_of=letters_of)


def _signals(stage: StageName, batch: FlushBatch) -> Signals | None:
    """Return what a batch is read for: where one half has failed, only for that."""
    signals = batch.signals
    if signals is None or stage not in {"facts_half", "preferences_half"}:
        return signals
    return replace(signals, preferences=()) if stage == "facts_half" else replace(signals, facts=())


def _flush(again: Again, topic: str, record: object, ref: FlushRef) -> Again:
    return dataclasses.replace(again, topic=topic, value=encode(record), ends=event_id(ref.flush_id, ref.attempt))
