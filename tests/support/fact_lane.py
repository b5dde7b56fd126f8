"""`FactLane`: what one user says through the merge of lane ``facts``, and `Relations`: a processor's scripted word."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from agents.fact_merge import merge_facts
from agents.fact_processor import Related, Relation
from agents.nearest import Nearest
from agents.policy import MergePolicy
from schemas.deltas import ProfileDelta
from schemas.facts import Fact, Preference, without_subject
from schemas.pipeline import FactsConfig
from schemas.profiles import Profile, ProfileState, apply_deltas
from schemas.stages import Candidates, FactCandidate, MessageRef, ModelCall, PreferenceCandidate
from tests.support.records import CLOSED, SAID, flush_ref

RELATION_CALL = ModelCall(stage="relation", model="m", outcome="ok", prompt_tokens=9)


class Relations:
    """Answers what it is told to, in this order, the last one again and again.

    Attributes:
        asked: every pair that was put to it.
    """

    name = "judge"
    version = "j1"

    def __init__(self, *relations: Relation | Exception | None) -> None:
        self._left = list(relations)
        self.asked: list[tuple[str, str, str]] = []

    async def relate(self, kind: str, known: str, new: str) -> Related:
        self.asked.append((kind, known, new))
        relation = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        if isinstance(relation, Exception):
            raise relation
        return Related(relation=relation, calls=(RELATION_CALL,))

    async def extract_facts(self, batch: object, known: object) -> None:
        raise AssertionError("the merge extracts nothing")

    async def extract_preferences(self, batch: object, known: object) -> None:
        raise AssertionError("the merge extracts nothing")


class Meanings:
    """An embedder whose vectors the test gives: statements of one group are alike, others have nothing in common.

    Attributes:
        embedded: every text, as often as it was embedded.
    """

    def __init__(self, *groups: dict[str, float]) -> None:
        self._groups = [{without_subject(text): cosine for text, cosine in group.items()} for group in groups]
        self._axes: dict[str, int] = {}
        self.embedded: list[str] = []

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text: near to its group's axis by the cosine that was given."""
        self.embedded += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * 256
        for number, group in enumerate(self._groups):
            if text in group:
                cosine = group[text]
                vector[2 * number], vector[2 * number + 1] = cosine, (1 - cosine * cosine) ** 0.5
                return vector
        axis = self._axes.setdefault(text, 2 * len(self._groups) + len(self._axes))
        vector[axis] = 1.0
        return vector


class FactLane:
    """Merges what one user says, message after message, and keeps the profile.

    Attributes:
        state: the record after the last flush.
        history: every delta.
    """

    def __init__(self, relations: Relations | None = None, meanings: Meanings | None = None, **limits: object) -> None:
        self.relations = relations or Relations("different")
        self.nearest = Nearest(meanings or Meanings())
        self.policy = MergePolicy(pipeline_version="v", facts=FactsConfig(**limits))  # type: ignore[arg-type]
        self.state = ProfileState(profile=Profile(tenant_id="default", user_id="ada"))
        self.history: list[ProfileDelta] = []
        self._offset = 0

    async def say(
        self,
        *found: FactCandidate | PreferenceCandidate,
        at: datetime | None = None,
        session: str | None = None,
        redrive: int = 0,
    ) -> tuple[ProfileDelta, ...]:
        """Merge what was found in one message and return the deltas."""
        self._offset += 1
        said_at = at or SAID + timedelta(days=self._offset)
        ref = flush_ref(
            self._offset, self._offset, lane="facts", trigger="signal", first_occurred_at=said_at,
            last_occurred_at=said_at, redrive=redrive,
        )  # fmt: skip
        answer = Candidates(
            flush=ref,
            branch="facts",
            status="ok" if found else "empty",
            facts=tuple(each for each in found if isinstance(each, FactCandidate)),
            preferences=tuple(each for each in found if isinstance(each, PreferenceCandidate)),
            messages=(MessageRef(message_id="m", role="user", occurred_at=said_at),),
            session_id=session,
        )
        before = self.state.profile
        self.state = await merge_facts(
            self.state,
            answer,
            processor=self.relations,  # type: ignore[arg-type]
            nearest=self.nearest,
            policy=self.policy,
            now=CLOSED,
        )
        assert apply_deltas(before, self.state.deltas) == self.state.profile
        self.history += self.state.deltas
        return self.state.deltas

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts that hold."""
        return self.state.profile.facts

    @property
    def preferences(self) -> tuple[Preference, ...]:
        """The standing preferences."""
        return self.state.profile.preferences


def fact(text: str, confidence: float = 0.9, **changes) -> FactCandidate:
    """Return a fact that a message states."""
    return FactCandidate(
        **({"text": text, "category": "location", "confidence": confidence, "evidence": ("m",)} | changes)
    )


def preference(text: str, strength: float = 0.8, **changes) -> PreferenceCandidate:
    """Return a preference that a message shows."""
    values = {"text": text, "category": "communication_style", "strength": strength, "evidence": ("m",)}
    return PreferenceCandidate(**(values | {"quote": f"“{text}”"} | changes))
