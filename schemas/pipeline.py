"""`PipelineConfig`: what a profile may hold and how flushes are read; the file that its users write."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec

Language = Literal["en", "zh"]


class SubTopic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A slot of the profile.

    Attributes:
        name: its name; unified when it is used.
        description: what belongs into it.
        update_description: how a new value is to be merged with the present one.
        validate_value: let the model decide about the first value too, instead of adding it as it comes.
    """

    name: str
    description: str = ""
    update_description: str = ""
    validate_value: bool = False


class Topic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A group of slots."""

    topic: str
    description: str = ""
    sub_topics: tuple[SubTopic, ...] = ()


class EventTagDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tag that events may carry, such as ``emotion`` or ``goal``."""

    name: str
    description: str = ""


class PipelineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How conversations are turned into profiles.

    Attributes:
        language: language of the prompts and of the shipped slots; values keep the language they were said in.
        profile_strict_mode: keep only slots that are configured.
        profile_validate_mode: let the model decide about every value, also where the slot is empty.
        additional_user_profiles: topics added to the shipped ones.
        overwrite_user_profiles: topics instead of the shipped ones.
        event_theme_requirement: what the summary should pay attention to, in words.
        event_tags: tags for events; without any, no tag call is made.
        max_chat_blob_buffer_process_token_size: most tokens of one flush, and of one part of a message that is larger.
        max_profile_subtopics: a topic with more slots than this is regrouped.
        max_pre_profile_token_size: a slot with more tokens than this is shortened.
        best_llm_model: model of the stages, instead of the one that the settings name.
        summary_llm_model: model of the summary, likewise.
    """

    language: Language = "en"
    profile_strict_mode: bool = False
    profile_validate_mode: bool = False
    additional_user_profiles: tuple[Topic, ...] = ()
    overwrite_user_profiles: tuple[Topic, ...] | None = None
    event_theme_requirement: str = ""
    event_tags: tuple[EventTagDefinition, ...] = ()
    max_chat_blob_buffer_process_token_size: Annotated[int, msgspec.Meta(ge=64)] = 16_384
    max_profile_subtopics: Annotated[int, msgspec.Meta(ge=2)] = 15
    max_pre_profile_token_size: Annotated[int, msgspec.Meta(ge=16)] = 128
    best_llm_model: str = ""
    summary_llm_model: str = ""

    def content_hash(self) -> str:
        """Return 12 hexadecimal digits that change whenever the configuration does."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]
