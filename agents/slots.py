"""The slots of a profile: those shipped for each language, and what a configuration makes of them."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

import msgspec
import yaml

from agents.processor import SlotName
from schemas.pipeline import Language, PipelineConfig, SubTopic, Topic
from schemas.profiles import unify

_FILES: Final[dict[Language, str]] = {"en": "slots_en.yaml", "zh": "slots_zh.yaml"}


@cache
def default_slots(language: Language) -> tuple[Topic, ...]:
    """Return the slots that are shipped for a language."""
    text = resources.files("agents").joinpath(_FILES[language]).read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), tuple[Topic, ...])


def configured_slots(config: PipelineConfig) -> tuple[Topic, ...]:
    """Return the slots that a configuration asks for, each topic and each of its sub-topics once, by unified names.

    They are those of `overwrite_user_profiles` where it is given, else the shipped ones followed by
    `additional_user_profiles`. A topic that is named twice is merged; of a slot that is named twice the later
    definition counts, in the earlier place.
    """
    base = config.overwrite_user_profiles
    if base is None:
        base = default_slots(config.language) + config.additional_user_profiles
    topics: dict[str, Topic] = {}
    for topic in base:
        name = unify(topic.topic)
        topics[name] = _extended(topics.get(name, Topic(topic=name)), topic)
    return tuple(topics.values())


def slot_definitions(config: PipelineConfig) -> dict[SlotName, SubTopic]:
    """Return what the configuration says of each slot, by unified topic and sub-topic."""
    return {
        (topic.topic, sub_topic.name): sub_topic for topic in configured_slots(config) for sub_topic in topic.sub_topics
    }


def written_out(config: PipelineConfig) -> PipelineConfig:
    """Return a configuration that means the same and names all its slots itself, the shipped ones included.

    Its content hash therefore follows the shipped slots too, and is the same for two configurations that come to the
    same slots by different ways.
    """
    return msgspec.structs.replace(
        config, additional_user_profiles=(), overwrite_user_profiles=configured_slots(config)
    )


def _extended(known: Topic, added: Topic) -> Topic:
    sub_topics = {each.name: each for each in known.sub_topics}
    for each in added.sub_topics:
        name = unify(each.name)
        sub_topics[name] = msgspec.structs.replace(each, name=name)
    return Topic(
        topic=known.topic,
        description=added.description or known.description,
        sub_topics=tuple(sub_topics.values()),
    )
