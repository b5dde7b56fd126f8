"""`PipelineConfig`: what a profile may hold and how flushes are read; the file that its users write."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec

from schemas.flushes import FactSignal, PreferenceSignal

Language = Literal["en", "zh"]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


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


class SignalWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Words that hint at a fact or preference, in addition to the shipped ones.

    Attributes:
        signal: what they hint at.
        words: words or phrases, of any language; matched without case, and as whole words where letters are Latin.
        ignore: phrases that hold such a word, or a shipped one, and hint at nothing ("I have to").
    """

    signal: FactSignal | PreferenceSignal
    words: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


class FactsConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How facts and preferences are picked up as they are said.

    Attributes:
        enabled: read messages with a signal in them at once.
        signals: words in addition to the shipped ones.
        similarity: from which similarity in meaning on a new fact is compared with a known one: 0 is unrelated, 0.75
            about the same matter, 1 the same, whatever the embedder's own numbers are.
        preference_similarity: likewise for preferences of the same category.
        nearest: how many known facts a new one is looked up among, the nearest first.
        shown: most known facts that a model is shown.
        max_facts: facts of one user at the most; the least important gives way.
        max_preferences: likewise for preferences, the weakest.
    """

    enabled: bool = True
    signals: tuple[SignalWords, ...] = ()
    similarity: Share = 0.75
    preference_similarity: Share = 0.7
    nearest: Annotated[int, msgspec.Meta(ge=1)] = 3
    shown: Annotated[int, msgspec.Meta(ge=0)] = 20
    max_facts: Annotated[int, msgspec.Meta(ge=1)] = 200
    max_preferences: Annotated[int, msgspec.Meta(ge=1)] = 50


class DomainConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Whether conversations get short facts and keywords for recommendation, also without a tag catalogue."""

    enabled: bool = False


class CatalogueTag(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tag that users are counted for, such as ``coffee`` or ``travel``, and what it means."""

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
        facts: facts and preferences as they are said.
        domain: short facts and keywords for recommendation.
        tag_catalogue: tags that the keywords are chosen from; with any, `domain` is on.
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
    facts: FactsConfig = FactsConfig()
    domain: DomainConfig = DomainConfig()
    tag_catalogue: tuple[CatalogueTag, ...] = ()
    best_llm_model: str = ""
    summary_llm_model: str = ""

    @property
    def reads_domain(self) -> bool:
        """Whether conversations get short facts and keywords."""
        return self.domain.enabled or bool(self.tag_catalogue)

    def content_hash(self) -> str:
        """Return 12 hexadecimal digits that change whenever the configuration does."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]
