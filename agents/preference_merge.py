"""`PreferenceMerge`: what a message shows of how its author likes things to be, against what is known of it now.

A preference that is observed again grows stronger or weaker: its strength is the mean of what was observed, in which a
new observation counts one and a half times. The opposite of a standing preference is never a second one beside it: said
outright it replaces it, since what a user says last holds; inferred from behaviour it weakens it, and replaces it once
little is left.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from agents.asked import Asked
from agents.delta_writer import DeltaWriter
from agents.nearest import Nearest
from agents.policy import MergePolicy
from agents.wording import comparable
from schemas.deltas import Operation, PreferenceDetail
from schemas.facts import MAX_QUOTES, Preference
from schemas.ids import preference_id
from schemas.stages import Candidates, PreferenceCandidate

_NEW_WEIGHT: Final = 1.5
"""How many earlier observations a new one is worth."""

_LEAST_STANDING: Final = 0.3
"""A preference that its opposite has weakened below this is replaced."""


class PreferenceMerge:
    """Saves the preferences of one flush.

    Args:
        found: the answer of the branch.
        writer: takes the changes.
        asked: puts questions to the processor.
        nearest: finds known preferences by meaning.
        policy: similarity and limits.
    """

    def __init__(
        self, found: Candidates, writer: DeltaWriter, asked: Asked, nearest: Nearest, policy: MergePolicy
    ) -> None:
        self._flush = found.flush
        self._occurred = {message.message_id: message.occurred_at for message in found.messages}
        self._writer = writer
        self._asked = asked
        self._nearest = nearest
        self._limits = policy.facts

    async def save(self, number: int, new: PreferenceCandidate) -> None:
        """Save a preference; `number` is its place among those of the flush."""
        known = self._writer.profile.preferences
        repeated = next((each for each in known if comparable(each.text) == comparable(new.text)), None)
        if repeated is not None:
            self._observe(new, repeated)
            return
        opposed = next((each for each in known if each.preference_id == new.opposes), None)
        if opposed is not None:
            self._oppose(new, opposed)
            return
        for near in await self._near(new, [each for each in known if each.category == new.category]):
            match await self._asked.relation("preference", near.text, new.text):
                case "different":
                    continue
                case "update" | "conflict":
                    self._oppose(new, near)
                case _:
                    self._observe(new, near)
            return
        self._create(number, new)

    async def _near(self, new: PreferenceCandidate, known: list[Preference]) -> list[Preference]:
        near = await self._nearest.find(
            new.text,
            [each.text for each in known],
            limit=self._limits.nearest,
            floor=self._limits.preference_similarity,
        )
        return [known[each.place] for each in near]

    def _create(self, number: int, new: PreferenceCandidate) -> None:
        while len(known := self._writer.profile.preferences) >= self._limits.max_preferences:
            weakest = min(known, key=lambda each: (each.strength, each.last_confirmed))
            self._write(
                "delete",
                new,
                weakest,
                text=None,
                strength=weakest.strength,
                quotes=weakest.quotes,
                observed=weakest.times_observed,
                reason=f"the weakest of {self._limits.max_preferences} preferences gives way",
            )
        self._write(
            "add",
            new,
            None,
            text=new.text,
            strength=new.strength,
            quotes=_quotes((), new.quote),
            observed=1,
            reason="first observed",
            number=number,
        )

    def _observe(self, new: PreferenceCandidate, known: Preference) -> None:
        strength = _mean(known, new.strength)
        said = "observed again" if comparable(known.text) == comparable(new.text) else f"observed again as: {new.text}"
        self._write(
            "confirm",
            new,
            known,
            text=known.text,
            strength=strength,
            quotes=_quotes(known.quotes, new.quote),
            observed=known.times_observed + 1,
            reason=said,
        )

    def _oppose(self, new: PreferenceCandidate, known: Preference) -> None:
        if self._flush.redrive and self._said_at(new) < known.last_confirmed:
            self._write(
                "overtaken",
                new,
                known,
                text=known.text,
                strength=known.strength,
                quotes=known.quotes,
                observed=known.times_observed,
                reason="came late, before its opposite was confirmed",
            )
            return
        weakened = _mean(known, -new.strength)
        if new.assertion == "inferred" and weakened >= _LEAST_STANDING:
            self._write(
                "confirm",
                new,
                known,
                text=known.text,
                strength=weakened,
                quotes=known.quotes,
                observed=known.times_observed + 1,
                reason=f"weakened by its opposite: {new.text}",
            )
            return
        self._write(
            "update",
            new,
            known,
            text=new.text,
            strength=new.strength,
            quotes=_quotes((), new.quote),
            observed=1,
            reason=f"the opposite holds now; before: {known.text}",
        )

    def _write(
        self,
        op: Operation,
        new: PreferenceCandidate,
        known: Preference | None,
        *,
        text: str | None,
        strength: float,
        quotes: tuple[str, ...],
        observed: int,
        reason: str,
        number: int = 0,
    ) -> None:
        self._writer.write(
            "preference",
            op,
            known.category if known else new.category,
            "",
            before=known.text if known else None,
            after=text,
            added=new.text if op in {"add", "update", "overtaken"} else None,
            reason=reason,
            evidence=new.evidence,
            hits=observed,
            said_at=self._said_at(new),
            assertion=new.assertion,
            item_id=known.preference_id if known else preference_id(self._flush.flush_id, number),
            preference=PreferenceDetail(
                strength=strength, strength_before=known.strength if known else None, quotes=quotes
            ),
        )

    def _said_at(self, new: PreferenceCandidate) -> datetime:
        return max(self._occurred[message_id] for message_id in new.evidence)


def _mean(known: Preference, observed: float) -> float:
    """Return the strength after an observation."""
    seen = known.times_observed
    return min(1.0, round((known.strength * seen + observed * _NEW_WEIGHT) / (seen + _NEW_WEIGHT), 6))


def _quotes(known: tuple[str, ...], new: str) -> tuple[str, ...]:
    """Return the quotes with a new one at the end, each once, the newest `MAX_QUOTES`."""
    if new and new not in known:
        known = (*known, new)
    return known[-MAX_QUOTES:]
