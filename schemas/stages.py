"""What the processing stages hand on: `Memo` from the summary, `Candidates` from each branch after it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from schemas.facts import FactCategory, PreferenceCategory
from schemas.flushes import Branch, FlushRef
from schemas.messages import AwareDatetime, Role

StageName = Literal[
    "window",
    "summary",
    "extract",
    "tag",
    "domain",
    "facts",
    "preferences",
    "facts_half",
    "preferences_half",
    "relation",
    "merge",
    "organise",
    "shorten",
    "archive",
    "index",
]
"""Where something happened. The two halves of lane ``facts`` are named apart where the other one has not failed."""

Status = Literal["ok", "empty", "failed"]
Assertion = Literal["said", "inferred"]

EXPLICIT_STRENGTH: Final = 0.7
"""Strength of a preference from which on it counts as stated, not as inferred."""


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model that was answered or given up.

    Attributes:
        stage: the stage that asked.
        model: the model's name as configured.
        outcome: ``ok``, or a short code of what went wrong.
        prompt_tokens: as the server counted them; 0 where it did not say.
        completion_tokens: likewise.
        attempts: requests sent, the last included.
        duration_ms: from the first request to the last answer.
        prompt_version: content hash of the prompt template.
    """

    stage: StageName
    model: str
    outcome: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 1
    duration_ms: float = 0.0
    prompt_version: str = ""


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """Something a processor gave that could not be used.

    Attributes:
        stage: where.
        reason: a short code, for counting (``unknown_message_number``, ``no_evidence``, ...).
        detail: the item itself, cut to 200 characters.
    """

    stage: StageName
    reason: str
    detail: str = ""


class MessageRef(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the flush without its text."""

    message_id: str
    role: Role
    occurred_at: AwareDatetime


class MemoBullet(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the conversation says about the user, and the ids of the user's messages that say so."""

    text: str
    evidence: tuple[str, ...]


class Memo(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a flush: exactly one for each batch of lane ``memo``, also when the summary failed.

    Attributes:
        status: ``ok`` has bullets; ``empty`` has none, and ends the flush with no further model call;
            ``failed`` has the batch in the dead letters.
        messages: the messages of the batch in order, without their text.
        error: why it failed.
    """

    flush: FlushRef
    status: Status
    messages: tuple[MessageRef, ...]
    bullets: tuple[MemoBullet, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    error: str | None = None
    duration_ms: float = 0.0


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A value that may enter a profile slot.

    Attributes:
        topic: unified name (`schemas.profiles.unify`).
        sub_topic: likewise.
        memo: the value, in the language it was said in.
        evidence: ids of the user's messages in this flush that say so; never empty.
        assertion: ``said`` by the user, or ``inferred``.
        retracts: true when the user takes the value back ("I no longer like tea").
    """

    topic: str
    sub_topic: str
    memo: str
    evidence: tuple[str, ...]
    assertion: Assertion = "said"
    retracts: bool = False


class EventTag(msgspec.Struct, frozen=True, kw_only=True):
    """A configured event tag and the value that this conversation gives it."""

    tag: str
    value: str


class FactCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the user states about themselves, before it is set against what is known.

    Attributes:
        text: the fact in the third person, in the language it was said in.
        confidence: from 0 to 1.
        evidence: ids of the user's messages in this flush that say so; never empty.
        conflicts_with: id of the known fact that cannot be true beside it, as far as the processor saw one.
        repeats: id of the known fact that is said again; `text` then is the known text.
    """

    text: str
    category: FactCategory
    confidence: float
    evidence: tuple[str, ...]
    conflicts_with: str | None = None
    repeats: str | None = None


class PreferenceCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """How the user likes things to be, before it is set against what is known.

    Attributes:
        text: the preference, in the language it was said in.
        strength: from 0 to 1: from 0.9 a strong explicit statement, from 0.7 an explicit one, from 0.5 inferred from
            behaviour, from 0.3 a weak sign.
        quote: the user's words behind it.
        evidence: ids of the user's messages in this flush that show it; never empty.
        opposes: id of the known preference that it is the opposite of, as far as the processor saw one.
    """

    text: str
    category: PreferenceCategory
    strength: float
    evidence: tuple[str, ...]
    quote: str = ""
    opposes: str | None = None

    @property
    def assertion(self) -> Assertion:
        """Whether it was said, or inferred from behaviour."""
        return "said" if self.strength >= EXPLICIT_STRENGTH else "inferred"


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation is about, for recommendation.

    Attributes:
        facts: short statements on entities, preferences, relations and actions; not all of them are about the user.
        domain: keywords, the most fitting first; with a tag catalogue, names of its tags.
    """

    facts: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()


class TagHit(msgspec.Struct, frozen=True, kw_only=True):
    """A tag of the catalogue that fits a conversation, and ids of the user's messages in it."""

    name: str
    evidence: tuple[str, ...]


class Candidates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of one branch to one flush: exactly one for each branch, also when the branch failed.

    Attributes:
        memo: what the branch was given; the ``extract`` branch hands it on for the event.
        candidates: of the branch ``extract``.
        tags: of the branch ``tag``.
        domain: of the branch ``domain``.
        hits: likewise, the tags of the catalogue among them, each once.
        facts: of the branch ``facts``.
        preferences: likewise.
        messages: likewise, what the branch was given, without its text.
        session_id: likewise, the session of the message.
        error: why it failed.
    """

    flush: FlushRef
    branch: Branch
    status: Status
    memo: Memo | None = None
    candidates: tuple[Candidate, ...] = ()
    tags: tuple[EventTag, ...] = ()
    domain: Domain | None = None
    hits: tuple[TagHit, ...] = ()
    facts: tuple[FactCandidate, ...] = ()
    preferences: tuple[PreferenceCandidate, ...] = ()
    messages: tuple[MessageRef, ...] = ()
    session_id: str | None = None
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    error: str | None = None
    duration_ms: float = 0.0
