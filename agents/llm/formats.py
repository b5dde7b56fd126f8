"""What each stage's answer looks like: the item structs, and the JSON schema that a server is asked to keep to."""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from agents.llm.values import Numbers, Text
from schemas.stages import StageName

T = TypeVar("T", bound=msgspec.Struct)

_SCHEMAS: Final[dict[type, dict[str, Any]]] = {
    Text: {"type": "string"},
    Numbers: {"type": "array", "items": {"type": "integer"}},
}


def _one_of(*words: str) -> Any:
    """Constrain what a model is asked for; what it answers is checked where it is used."""
    return msgspec.Meta(extra_json_schema={"enum": list(words)})


class BulletItem(msgspec.Struct, frozen=True):
    """One bullet of a summary and the numbers of the messages behind it."""

    text: Text
    messages: Numbers = Numbers()


class FactItem(msgspec.Struct, frozen=True):
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


class AnswerFormat(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The form of one stage's answer: a JSON object with one list of items, or one that is the only item.

    Attributes:
        stage: whose answer it is; also the schema's name.
        key: the list's name in the object; empty where the object is the item.
        item: the type of its items.
    """

    stage: StageName
    key: str
    item: type[T]

    def json_schema(self) -> dict[str, Any]:
        """Return the schema in the strict form: every property required, no others allowed."""
        _, components = msgspec.json.schema_components([self.item], schema_hook=_SCHEMAS.__getitem__)
        properties = {
            name: {keyword: value for keyword, value in schema.items() if keyword != "default"}
            for name, schema in components[self.item.__name__]["properties"].items()
        }
        item = _strict(properties)
        return _strict({self.key: {"type": "array", "items": item}}) if self.key else item


def _strict(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


BULLETS: Final = AnswerFormat(stage="summary", key="bullets", item=BulletItem)
FACTS: Final = AnswerFormat(stage="extract", key="facts", item=FactItem)
TAGS: Final = AnswerFormat(stage="tag", key="tags", item=TagItem)
DECISIONS: Final = AnswerFormat(stage="merge", key="decisions", item=DecisionItem)
GROUPS: Final = AnswerFormat(stage="organise", key="groups", item=GroupItem)
SHORT: Final = AnswerFormat(stage="shorten", key="", item=ShortItem)
