"""What each stage's answer looks like: the item structs, and the JSON schema that a server is asked to keep to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar, get_args

import msgspec

from agents.fact_processor import Relation
from agents.llm.relations import relation_in
from agents.llm.values import UNKNOWN, Numbers, Reference, Share, Text, Texts
from schemas.facts import FACT_CATEGORIES, PREFERENCE_CATEGORIES
from schemas.stages import StageName

T = TypeVar("T", bound=msgspec.Struct)

_SCHEMAS: Final[dict[type, dict[str, Any]]] = {
    Text: {"type": "string"},
    Texts: {"type": "array", "items": {"type": "string"}},
    Numbers: {"type": "array", "items": {"type": "integer"}},
    Reference: {"type": ["integer", "null"]},
    Share: {"type": "number"},
}


def _one_of(*words: str) -> Any:
    """Constrain what a model is asked for; what it answers is checked where it is used."""
    return msgspec.Meta(extra_json_schema={"enum": list(words)})


class BulletItem(msgspec.Struct, frozen=True):
    """One bullet of a summary and the numbers of the messages behind it."""

    text: Text
    messages: Numbers = Numbers()


class SlotItem(msgspec.Struct, frozen=True):
    """One value for a slot and the numbers of the bullets behind it."""

    topic: Text
    sub_topic: Text
    memo: Text
    bullets: Numbers = Numbers()
    assertion: Annotated[Text, _one_of("said", "inferred")] = msgspec.field(default_factory=lambda: Text("said"))
    retracts: bool = False


class TagItem(msgspec.Struct, frozen=True):
    """One event tag and its value."""

    tag: Text
    value: Text


class DecisionItem(msgspec.Struct, frozen=True):
    """What becomes of the proposal of that number."""

    number: int
    action: Annotated[Text, _one_of("UPDATE", "APPEND", "ABORT")]
    value: Text = msgspec.field(default_factory=Text)
    reason: Text = msgspec.field(default_factory=Text)


class GroupItem(msgspec.Struct, frozen=True):
    """One slot of a regrouped topic and the numbers of the values in it."""

    sub_topic: Text
    memo: Text
    values: Numbers = Numbers()


class ShortItem(msgspec.Struct, frozen=True):
    """A value in fewer words."""

    memo: Text


class FactItem(msgspec.Struct, frozen=True):
    """One fact, and the numbers of the known ones that it contradicts or repeats; without a text where it repeats."""

    fact: Text = msgspec.field(default_factory=Text)
    category: Annotated[Text, _one_of(*FACT_CATEGORIES)] = msgspec.field(default_factory=lambda: Text("other"))
    confidence: Share = msgspec.field(default_factory=lambda: Share(UNKNOWN))
    conflicts_with: Reference = msgspec.field(default_factory=Reference)
    repeats: Reference = msgspec.field(default_factory=Reference)


class PreferenceItem(msgspec.Struct, frozen=True):
    """One preference, the user's words behind it, and the number of the known one that it is the opposite of."""

    preference: Text
    category: Annotated[Text, _one_of(*PREFERENCE_CATEGORIES)] = msgspec.field(default_factory=lambda: Text("other"))
    strength: Share = msgspec.field(default_factory=lambda: Share(UNKNOWN))
    evidence: Text = msgspec.field(default_factory=Text)
    opposite_of: Reference = msgspec.field(default_factory=Reference)


class RelationItem(msgspec.Struct, frozen=True):
    """How two statements relate."""

    relation: Annotated[Text, _one_of(*get_args(Relation))]


class DomainItem(msgspec.Struct, frozen=True):
    """Short facts and keywords of a conversation."""

    facts: Texts
    domain: Texts


class AnswerFormat(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The form of one stage's answer: a JSON object with one list of items, or one that is the only item.

    Attributes:
        stage: whose answer it is; also the schema's name.
        key: the list's name in the object; empty where the object is the item.
        item: the type of its items.
        marks: an object with any of these properties is an item; empty: one with all that are required.
        unasked: properties of the items that the model is not asked for.
        plain: reads the item from an answer that holds no JSON, or returns None; without it, such an answer is refused.
    """

    stage: StageName
    key: str
    item: type[T]
    marks: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    plain: Callable[[str], T | None] | None = None

    def is_item(self, value: Any) -> bool:
        """Whether a JSON value is meant as an item."""
        if not isinstance(value, dict):
            return False
        if self.marks:
            return any(mark in value for mark in self.marks)
        fields = msgspec.structs.fields(self.item)
        return all(field.encode_name in value for field in fields if field.required)

    def json_schema(self) -> dict[str, Any]:
        """Return the schema in the strict form: every property required, no others allowed."""
        return _json_schema(self)


@cache  # sent with every call: not to be changed by who gets it
def _json_schema(answer_format: AnswerFormat[Any]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([answer_format.item], schema_hook=_SCHEMAS.__getitem__)
    properties = {
        name: {keyword: value for keyword, value in schema.items() if keyword != "default"}
        for name, schema in components[answer_format.item.__name__]["properties"].items()
        if name not in answer_format.unasked
    }
    item = _strict(properties)
    return _strict({answer_format.key: {"type": "array", "items": item}}) if answer_format.key else item


def _strict(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _relation_item(text: str) -> RelationItem | None:
    relation = relation_in(text)
    return None if relation is None else RelationItem(relation=Text(relation))


BULLETS: Final = AnswerFormat(stage="summary", key="bullets", item=BulletItem)
SLOTS: Final = AnswerFormat(stage="extract", key="facts", item=SlotItem)
TAGS: Final = AnswerFormat(stage="tag", key="tags", item=TagItem)
DECISIONS: Final = AnswerFormat(stage="merge", key="decisions", item=DecisionItem)
GROUPS: Final = AnswerFormat(stage="organise", key="groups", item=GroupItem)
SHORT: Final = AnswerFormat(stage="shorten", key="", item=ShortItem)
FACTS: Final = AnswerFormat(
    stage="facts", key="facts", item=FactItem, marks=("fact",), unasked=("conflicts_with", "repeats")
)
COMPARED_FACTS: Final = AnswerFormat(stage="facts", key="facts", item=FactItem, marks=("fact", "repeats"))
PREFERENCES: Final = AnswerFormat(stage="preferences", key="preferences", item=PreferenceItem)
RELATION: Final = AnswerFormat(stage="relation", key="", item=RelationItem, plain=_relation_item)
DOMAIN: Final = AnswerFormat(stage="domain", key="", item=DomainItem)
