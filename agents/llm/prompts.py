"""The prompts of each stage: a static part that a configuration fixes, and the payload, escaped as data.

Templates are in ``templates/``: the static part of each language in a folder of its own, the payload shared.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final

import jinja2
import msgspec

from agents.llm.client import Prompt
from agents.llm.formats import BULLETS, DECISIONS, FACTS, GROUPS, SHORT, TAGS, AnswerFormat
from agents.processor import Proposal, SlotName, StoredValue
from agents.slots import configured_slots
from schemas.flushes import BatchMessage, FlushBatch, FlushRef
from schemas.pipeline import Language, PipelineConfig, SubTopic, Topic
from schemas.profiles import unify
from schemas.stages import Memo

_LOADER: Final = jinja2.PackageLoader("agents.llm", "templates")
_FORMATS: Final[tuple[AnswerFormat[Any], ...]] = (BULLETS, FACTS, TAGS, DECISIONS, GROUPS, SHORT)
_SPACES: Final = re.compile(r"\s+")
_WEEKDAYS: Final[dict[Language, tuple[str, ...]]] = {
    "en": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "zh": ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日"),
}


def escape_text(text: str) -> str:
    """Escape text so that it cannot open or close a tag."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """Escape text for use between the double quotes of an attribute."""
    return _SPACES.sub(" ", escape_text(text)).replace('"', "&quot;")


def numbered(batch: FlushBatch) -> Iterator[tuple[int | None, BatchMessage]]:
    """Yield the batch's messages with the numbers they are cited by: the user's from 1, all others None."""
    number = 0
    for message in batch.messages:
        if message.role == "user":
            number += 1
            yield number, message
        else:
            yield None, message


class Prompts:
    """Builds the prompts for one configuration.

    Attributes:
        version: content hash of everything that shapes them: templates, shipped slots, answer formats.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._language = config.language
        environment = _environment(config.language)
        slots = [_shown(topic) for topic in configured_slots(config)]
        values = {
            "theme": config.event_theme_requirement.strip(),
            "strict": config.profile_strict_mode,
            "slots": slots,
            "topics": [topic.topic for topic in slots],
            "tags": config.event_tags,
        }
        self._reminder = environment.get_template(f"{config.language}/reminder.jinja").render().strip()
        self._sub_topics = {topic.topic: topic.sub_topics for topic in slots}
        self._system: dict[str, str] = {}
        self._payload: dict[str, jinja2.Template] = {}
        self._versions: dict[str, str] = {}
        for answer_format in _FORMATS:
            stage = answer_format.stage
            system = environment.get_template(f"{config.language}/{stage}.system.jinja").render(values).strip()
            payload = f"{stage}.user.jinja"
            self._system[stage] = system
            self._payload[stage] = environment.get_template(payload)
            self._versions[stage] = _digest(
                system,
                _LOADER.get_source(environment, payload)[0],
                msgspec.json.encode(answer_format.json_schema()).decode(),
            )
        self.version = _digest(*self._versions.values(), self._reminder)

    def static(self, stage: str) -> str:
        """Return the static part of a stage's prompt."""
        return self._system[stage]

    def summary(self, batch: FlushBatch, known: Sequence[SlotName]) -> Prompt:
        """Ask for the notes of a batch."""
        return self._prompt(
            "summary",
            today=self._day(batch.ref),
            known=_slots_line(known),
            context=batch.context,
            messages=list(numbered(batch)),
        )

    def extract(self, memo: Memo, known: Sequence[SlotName]) -> Prompt:
        """Ask for the profile values of a memo, whose bullets are numbered from 1."""
        return self._prompt("extract", today=self._day(memo.flush), known=_slots_line(known), bullets=memo.bullets)

    def tag(self, memo: Memo) -> Prompt:
        """Ask for the event tags of a memo."""
        return self._prompt("tag", today=self._day(memo.flush), bullets=memo.bullets)

    def merge(self, proposals: Sequence[Proposal], memo: Memo) -> Prompt:
        """Ask for a decision on each proposal."""
        return self._prompt("merge", today=self._day(memo.flush), proposals=proposals)

    def organise(self, topic: str, values: Sequence[StoredValue], limit: int) -> Prompt:
        """Ask for a topic's values in at most `limit` groups."""
        slots = self._sub_topics.get(topic, ())
        return self._prompt("organise", topic=topic, slots=slots, values=values, limit=limit)

    def shorten(self, topic: str, value: StoredValue, budget: int) -> Prompt:
        """Ask for a value in at most `budget` tokens."""
        return self._prompt("shorten", topic=topic, value=value, budget=budget)

    def _day(self, flush: FlushRef) -> str:
        day = flush.last_occurred_at
        return f"{day:%Y-%m-%d} {_WEEKDAYS[self._language][day.weekday()]}"

    def _prompt(self, stage: str, **payload: Any) -> Prompt:
        return Prompt(
            system=self._system[stage],
            user=self._payload[stage].render(payload).strip(),
            reminder=self._reminder,
            version=self._versions[stage],
        )


def _shown(topic: Topic) -> Topic:
    """Return a topic with its names in the form that answers are matched by."""
    return Topic(
        topic=unify(topic.topic),
        description=topic.description,
        sub_topics=tuple(SubTopic(name=unify(each.name), description=each.description) for each in topic.sub_topics),
    )


def _slots_line(slots: Sequence[SlotName]) -> str:
    return ", ".join(f"{topic}/{sub_topic}" for topic, sub_topic in sorted(slots))


@cache
def _environment(language: Language) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=_LOADER,
        autoescape=False,  # noqa: S701 - not HTML: every value of a payload goes through a filter below
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )

    def moment(when: datetime) -> str:
        return f"{when:%Y-%m-%d %H:%M} {_WEEKDAYS[language][when.weekday()]}"

    environment.filters.update(text=escape_text, attribute=escape_attribute, moment=moment)
    return environment


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:12]
