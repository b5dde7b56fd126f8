"""The prompts of each stage: a static part that a configuration fixes, and the payload, escaped as data.

Templates are in ``templates/``: the static part of each language in a folder of its own, the payload shared.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal

import jinja2
import jinja2.meta
import msgspec

from agents.llm.client import Prompt
from agents.llm.formats import (
    BULLETS,
    COMPARED_FACTS,
    DECISIONS,
    DOMAIN,
    FACTS,
    GROUPS,
    PREFERENCES,
    RELATION,
    SHORT,
    SLOTS,
    TAGS,
    AnswerFormat,
)
from agents.processor import Proposal, SlotName, StoredValue
from agents.slots import configured_slots
from schemas.facts import Fact, Preference
from schemas.flushes import FACT_TURNS, PREFERENCE_TURNS, BatchMessage, FlushBatch, FlushRef
from schemas.pipeline import Language, PipelineConfig, SubTopic, Topic
from schemas.profiles import unify
from schemas.stages import Memo

_LOADER: Final = jinja2.PackageLoader("agents.llm", "templates")
_COMPARED: Final = "facts_compared"
_FORMATS: Final[dict[str, AnswerFormat[Any]]] = {
    **{each.stage: each for each in (BULLETS, SLOTS, TAGS, DECISIONS, GROUPS, SHORT)},
    **{each.stage: each for each in (FACTS, PREFERENCES, RELATION, DOMAIN)},
    _COMPARED: COMPARED_FACTS,
}
"""The prompts by name: each has the name of its stage, but stage ``facts`` has a second one for what is known."""

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


def own(batch: FlushBatch) -> list[BatchMessage]:
    """Return the batch's messages in which the user says anything."""
    return [message for message in batch.messages if message.role == "user" and message.content.strip()]


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
            "catalogue": config.tag_catalogue,
        }
        self._reminder = environment.get_template(f"{config.language}/reminder.jinja").render().strip()
        self._sub_topics = {topic.topic: topic.sub_topics for topic in slots}
        self._system: dict[str, str] = {}
        self._payload: dict[str, jinja2.Template] = {}
        self._versions: dict[str, str] = {}
        for name, answer_format in _FORMATS.items():
            static = environment.get_template(f"{config.language}/{answer_format.stage}.system.jinja")
            system = static.render(values, compared=name == _COMPARED).strip()
            payload = f"{answer_format.stage}.user.jinja"
            self._system[name] = system
            self._payload[name] = environment.get_template(payload)
            self._versions[name] = _digest(
                system,
                _source(environment, payload),
                msgspec.json.encode(answer_format.json_schema()).decode(),
            )
        self.version = _digest(*self._versions.values(), self._reminder)

    def static(self, name: str) -> str:
        """Return the static part of a prompt; its name is that of its stage, or ``facts_compared``."""
        return self._system[name]

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

    def facts(self, batch: FlushBatch, known: Sequence[Fact], *, compared: bool) -> Prompt:
        """Ask for the facts in the user's messages.

        Args:
            batch: of lane ``facts``.
            known: facts that hold; numbered from 1.
            compared: whether the prompt speaks of known facts and earlier turns; without it neither is shown.
        """
        return self._prompt(
            _COMPARED if compared else FACTS.stage,
            today=self._day(batch.ref),
            known=known if compared else (),
            context=batch.context[-FACT_TURNS:] if compared else (),
            messages=own(batch),
        )

    def preferences(self, batch: FlushBatch, known: Sequence[Preference]) -> Prompt:
        """Ask for the preferences in the user's messages; the known ones are numbered from 1."""
        context = batch.context[-PREFERENCE_TURNS:]
        return self._prompt("preferences", known=known, context=context, messages=own(batch))

    def relation(self, kind: Literal["fact", "preference"], known: str, new: str) -> Prompt:
        """Ask how a new statement relates to a known one."""
        return self._prompt("relation", kind=kind, known=known, new=new)

    def domain(self, batch: FlushBatch) -> Prompt:
        """Ask for short facts and keywords of what the user and the assistant say."""
        messages = [message for message in batch.messages if message.role in {"user", "assistant"}]
        return self._prompt("domain", today=self._day(batch.ref), messages=messages)

    def _day(self, flush: FlushRef) -> str:
        day = flush.last_occurred_at
        return f"{day:%Y-%m-%d} {_WEEKDAYS[self._language][day.weekday()]}"

    def _prompt(self, name: str, **payload: Any) -> Prompt:
        return Prompt(
            system=self._system[name],
            user=self._payload[name].render(payload).strip(),
            reminder=self._reminder,
            version=self._versions[name],
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


def _source(environment: jinja2.Environment, name: str) -> str:
    """Return the source of a template and of those that it includes."""
    source = _LOADER.get_source(environment, name)[0]
    included = jinja2.meta.find_referenced_templates(environment.parse(source))
    return "\x1f".join((source, *(_source(environment, each) for each in included if each)))


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

    environment.globals.clear()  # no template uses them, and every prompt would copy them one by one
    environment.filters.update(text=escape_text, attribute=escape_attribute, moment=moment)
    return environment


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:12]
