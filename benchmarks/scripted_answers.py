"""`ScriptedModel`: answers prompts in the form that a model would, but by the rules: the same prompt, the same answer.

It sees what a model sees, the text of the prompt, and nothing else. Its summary notes every sentence in which the user
speaks in the first person, so that it is seldom empty; values, tags, decisions, facts, preferences and keywords are
those of the rules. Like them it leaves topics and long values as they are.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from agents.processor import Proposal
from agents.rules.processor import RuleProcessor
from agents.rules.text import statements
from benchmarks.model_server import Request
from schemas.facts import Fact, Preference
from schemas.flushes import BatchMessage, FlushBatch, FlushRef
from schemas.pipeline import PipelineConfig
from schemas.stages import Candidate, Memo, MemoBullet

_NOW: Final = datetime(2000, 1, 1, tzinfo=UTC)
_REF: Final = FlushRef(
    flush_id="scripted",
    tenant_id="default",
    user_id="scripted",
    lane="memo",
    log_id="scripted",
    partition=0,
    first_offset=0,
    last_offset=0,
    trigger="flush",
    opened_at=_NOW,
    closed_at=_NOW,
    first_occurred_at=_NOW,
    last_occurred_at=_NOW,
    message_count=0,
    token_count=0,
)

_MESSAGE: Final = re.compile(r'<user n="(\d+)"[^>]*>(.*?)</user>', re.DOTALL)
_FIRST_PERSON: Final = re.compile(r"\b(?:I|my|me|mine|we|our)\b|我", re.IGNORECASE)
_NOTE: Final = re.compile(r'<note n="(\d+)">(.*?)</note>', re.DOTALL)
_PROPOSAL: Final = re.compile(
    r'<proposal n="(?P<number>\d+)" slot="(?P<slot>[^"]*)">.*?<present>(?P<present>.*?)</present>\s*'
    r"<(?P<kind>new|taken_back)>(?P<memo>.*?)</(?P=kind)>",
    re.DOTALL,
)
_TURN: Final = re.compile(r'<(user|assistant) time="[^"]*">(.*?)</\1>', re.DOTALL)
_EARLIER: Final = re.compile(r"<(user|assistant)_earlier>(.*?)</\1_earlier>", re.DOTALL)
_KNOWN: Final = re.compile(r'<(?:fact|preference) n="(\d+)">(.*?)</', re.DOTALL)
_PAIR: Final = re.compile(r'<known kind="(\w+)">(.*?)</known>\s*<new kind="\w+">(.*?)</new>', re.DOTALL)
_ESCAPES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&"))


class ScriptedModel:
    """A script for `benchmarks.model_server.ModelServer`.

    Args:
        config: the configuration that the prompts are made with.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._rules = RuleProcessor(config)
        self._stages: dict[str, Callable[[str], Awaitable[dict[str, Any]]]] = {
            "summary": self._summary,
            "extract": self._extract,
            "tag": self._tag,
            "merge": self._merge,
            "organise": _no_groups,
            "shorten": _no_shorter_value,
            "facts": self._facts,
            "preferences": self._preferences,
            "relation": self._relation,
            "domain": self._domain,
        }

    async def __call__(self, request: Request) -> dict[str, Any]:
        """Return the answer to a request."""
        return await self._stages[request.stage or ""](request.user)

    async def _summary(self, prompt: str) -> dict[str, Any]:
        bullets = [
            {"text": sentence, "messages": [int(number)]}
            for number, content in _MESSAGE.findall(prompt)
            for sentence in statements(_unescape(content))
            if _FIRST_PERSON.search(sentence)
        ]
        return {"bullets": bullets}

    async def _extract(self, prompt: str) -> dict[str, Any]:
        extraction = await self._rules.extract(_memo(prompt), ())
        facts = [
            {
                "topic": each.topic,
                "sub_topic": each.sub_topic,
                "memo": each.memo,
                "bullets": _numbers(each.evidence),
                "assertion": each.assertion,
                "retracts": each.retracts,
            }
            for each in extraction.candidates
        ]
        return {"facts": facts}

    async def _tag(self, prompt: str) -> dict[str, Any]:
        tagging = await self._rules.tag(_memo(prompt))
        return {"tags": [{"tag": each.tag, "value": each.value} for each in tagging.tags]}

    async def _merge(self, prompt: str) -> dict[str, Any]:
        answer = await self._rules.merge(list(_proposals(prompt)), _memo(""))
        decisions = [
            {"number": each.number, "action": each.action, "value": each.value, "reason": each.reason}
            for each in answer.decisions
        ]
        return {"decisions": decisions}

    async def _facts(self, prompt: str) -> dict[str, Any]:
        found = await self._rules.extract_facts(_batch(prompt), list(_known_facts(prompt)))
        facts = [
            {
                "fact": "" if each.repeats else each.text,
                "category": each.category,
                "confidence": each.confidence,
                "conflicts_with": _number(each.conflicts_with),
                "repeats": _number(each.repeats),
            }
            for each in found.facts
        ]
        return {"facts": facts}

    async def _preferences(self, prompt: str) -> dict[str, Any]:
        found = await self._rules.extract_preferences(_batch(prompt), list(_known_preferences(prompt)))
        preferences = [
            {
                "preference": each.text,
                "category": each.category,
                "strength": each.strength,
                "evidence": each.quote,
                "opposite_of": _number(each.opposes),
            }
            for each in found.preferences
        ]
        return {"preferences": preferences}

    async def _relation(self, prompt: str) -> dict[str, Any]:
        match = _PAIR.search(prompt)
        assert match is not None
        kind = cast(Literal["fact", "preference"], match[1])
        related = await self._rules.relate(kind, _unescape(match[2]), _unescape(match[3]))
        return {"relation": related.relation}

    async def _domain(self, prompt: str) -> dict[str, Any]:
        found = await self._rules.describe(_batch(prompt))
        return {"facts": list(found.domain.facts), "domain": list(found.domain.domain)}


async def _no_groups(_prompt: str) -> dict[str, Any]:
    return {"groups": []}


async def _no_shorter_value(_prompt: str) -> dict[str, Any]:
    return {"memo": ""}


def _memo(prompt: str) -> Memo:
    bullets = tuple(MemoBullet(text=_unescape(text), evidence=(number,)) for number, text in _NOTE.findall(prompt))
    return Memo(flush=_REF, status="ok", messages=(), bullets=bullets)


def _proposals(prompt: str) -> Iterator[Proposal]:
    for match in _PROPOSAL.finditer(prompt):
        topic, _, sub_topic = _unescape(match["slot"]).partition("/")
        candidate = Candidate(
            topic=topic,
            sub_topic=sub_topic,
            memo=_unescape(match["memo"]),
            evidence=("1",),
            retracts=match["kind"] == "taken_back",
        )
        present = _unescape(match["present"]) or None
        yield Proposal(number=int(match["number"]), candidate=candidate, present=present)


def _batch(prompt: str) -> FlushBatch:
    return FlushBatch(
        ref=_REF,
        messages=tuple(_messages(_TURN.findall(prompt))),
        context=tuple(_messages(_EARLIER.findall(prompt))),
    )


def _messages(turns: list[tuple[str, str]]) -> Iterator[BatchMessage]:
    for offset, (role, content) in enumerate(turns):
        yield BatchMessage(
            message_id=str(offset),
            offset=offset,
            role=cast(Literal["user", "assistant"], role),
            content=_unescape(content),
            occurred_at=_NOW,
        )


def _known_facts(prompt: str) -> Iterator[Fact]:
    for number, text in _KNOWN.findall(prompt):
        yield Fact(
            fact_id=number,
            text=_unescape(text),
            category="other",
            confidence=1.0,
            importance=1.0,
            source_session=None,
            first_seen=_NOW,
            last_confirmed=_NOW,
            times_mentioned=1,
            evidence=(),
            recorded_at=_NOW,
            version=1,
        )


def _known_preferences(prompt: str) -> Iterator[Preference]:
    for number, text in _KNOWN.findall(prompt):
        yield Preference(
            preference_id=number,
            text=_unescape(text),
            category="other",
            strength=1.0,
            quotes=(),
            first_seen=_NOW,
            last_confirmed=_NOW,
            times_observed=1,
            evidence=(),
            recorded_at=_NOW,
            version=1,
        )


def _number(item_id: str | None) -> int | None:
    return None if item_id is None else int(item_id)


def _numbers(evidence: tuple[str, ...]) -> list[int]:
    return [int(number) for number in evidence]


def _unescape(text: str) -> str:
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    return text
