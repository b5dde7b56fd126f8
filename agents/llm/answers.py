"""A model's answer read into items: strictly first, then as leniently as is still safe.

Servers without structured output answer with JSON in a code fence, in prose, behind a block of reasoning, with
single quotes, or cut off. Items that do not validate are dropped with the reason, the rest is kept.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Final, Generic, TypeVar

import json_repair
import msgspec

from agents.llm.formats import AnswerFormat
from agents.llm.values import Numbers, Reference, Share, Text, Texts
from schemas.stages import Dropped

T = TypeVar("T", bound=msgspec.Struct)

REPAIR_LIMIT: Final = 16_384
"""Largest answer in bytes that is repaired; repair is slow."""

_DEPTH_LIMIT: Final = 32
"""Brackets within one another in an answer that is repaired, which takes longer with each; answers have four."""

_SIZE_LIMIT: Final = 262_144
_SEARCH_LIMIT: Final = 64
_DETAIL_LIMIT: Final = 200

_REASONING: Final = re.compile(r"\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_REASONING_START: Final = re.compile(r"<(?:think|thinking|reasoning)>", re.IGNORECASE)
_REASONING_END: Final = re.compile(r".*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_FENCE: Final = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
_EMPTY: Final = re.compile(r"\s*(?:```[a-zA-Z]*\s*)?\[\s*\]\s*(?:```\s*)?")
_BRACKET: Final = re.compile(r"[\[\](){}]")
_UNFINISHED: Final = re.compile(r"[{\[]|[\"'“”]\s*:")


class UnreadableAnswer(ValueError):
    """An answer holds nothing of the form that was asked for."""


class Answer(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The valid items of an answer, in its order, and what was dropped from it."""

    items: tuple[T, ...] = ()
    dropped: tuple[Dropped, ...] = ()


async def read_answer(text: str, answer_format: AnswerFormat[T]) -> Answer[T]:
    """Read an answer; anything but strict JSON is searched and repaired in a thread.

    The caller must not pass an answer that was cut off by a token limit: what is missing cannot be repaired.

    Raises:
        UnreadableAnswer: when there are no items of that form in it, or not one of them validates.
    """
    if len(text) > _SIZE_LIMIT:
        raise UnreadableAnswer(f"{len(text)} characters are more than an answer may have")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        found = None
    else:
        found = [] if value == [] and answer_format.key else _items(value, answer_format)
    if found is not None:
        return _validated(found, answer_format)
    return await asyncio.to_thread(_read_leniently, text, answer_format)


def dropped(answer_format: AnswerFormat[Any], reason: str, item: object) -> Dropped:
    """Return the record of a dropped item."""
    try:
        text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)
    except RecursionError:
        text = "brackets within brackets"
    detail = text[:_DETAIL_LIMIT].encode("utf-8", "replace").decode()
    return Dropped(stage=answer_format.stage, reason=reason, detail=detail)


def _read_leniently(text: str, answer_format: AnswerFormat[T]) -> Answer[T]:
    reasoning = _REASONING.match(text)
    bare = text[reasoning.end() :] if reasoning else text
    if not _REASONING_START.search(bare):
        # Tried at the beginning only: searching it everywhere takes the square of the answer's length.
        end = _REASONING_END.match(bare)
        bare = bare[end.end() :] if end else bare
    elif _REASONING_START.match(bare.lstrip()):
        raise UnreadableAnswer("the answer ends within its reasoning")
    # The last one counts: drafts and quoted instructions come before the answer.
    found: list[Any] | None = None
    for value in _json_values(bare):
        # Not single items of a list: where it is broken further on, they would be a part of the answer.
        items = _items(value, answer_format, single=not answer_format.key)
        found = found if items is None else items
    if found is not None:
        return _validated(found, answer_format)
    if answer_format.plain is not None:
        item = answer_format.plain(bare)
        if item is None:
            raise UnreadableAnswer(f"nothing of the form of `{answer_format.stage}` in the answer")
        return Answer(items=(item,))
    if answer_format.key and _EMPTY.fullmatch(bare):
        return Answer()
    return _read_repaired(bare, answer_format)


def _read_repaired(text: str, answer_format: AnswerFormat[T]) -> Answer[T]:
    fences = _FENCE.findall(text)
    body = fences[-1] if fences else text
    starts = [position for sign in "{[" if (position := body.find(sign)) >= 0]
    if not starts or len(body.encode("utf-8", "replace")) > REPAIR_LIMIT:
        raise UnreadableAnswer("no JSON in the answer")
    body = body[min(starts) :]
    if _depth(body) > _DEPTH_LIMIT:
        raise UnreadableAnswer("brackets within brackets in the answer")
    try:
        found = _items(json_repair.repair_json(body, return_objects=True, skip_json_loads=True), answer_format)
    except (ValueError, RecursionError) as error:
        raise UnreadableAnswer("the JSON in the answer cannot be repaired") from error
    if found is None:
        raise UnreadableAnswer(f"nothing of the form of `{answer_format.stage}` in the answer")
    tail = body[max(body.rfind("}"), body.rfind("]")) + 1 :]
    if not _UNFINISHED.search(tail):
        return _validated(found, answer_format)
    # The answer stops within its last item: a value that was cut short is a wrong value.
    answer = _validated(found[:-1], answer_format)
    if not answer.items:
        raise UnreadableAnswer("the answer stops within its first item")
    cut = dropped(answer_format, "truncated_item", found[-1])
    return Answer(items=answer.items, dropped=(*answer.dropped, cut))


def _depth(text: str) -> int:
    """Return how many brackets are open at once, those in quoted text included."""
    steps = (1 if bracket[0] in "[({" else -1 for bracket in _BRACKET.finditer(text))
    return max(accumulate(steps, lambda depth, step: max(depth + step, 0)), default=0)


def _json_values(text: str) -> Iterator[Any]:
    """Yield the JSON objects and arrays in a text, outermost ones only, in order."""
    decoder = json.JSONDecoder()
    position = 0
    for _ in range(_SEARCH_LIMIT):
        starts = [found for sign in "{[" if (found := text.find(sign, position)) >= 0]
        if not starts:
            return
        position = min(starts)
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
        else:
            yield value


def _items(value: Any, answer_format: AnswerFormat[Any], *, single: bool = True) -> list[Any] | None:
    """Return the items in a JSON value: the list under its key, a bare list, or, if allowed, a single item."""
    if isinstance(value, dict):
        for key, part in value.items():
            if answer_format.key and isinstance(key, str) and key.strip().lower() == answer_format.key:
                if part is None or isinstance(part, list):
                    return part or []
                return [part] if isinstance(part, dict) else None
        return [value] if single and answer_format.is_item(value) else None
    if isinstance(value, list) and any(map(answer_format.is_item, value)):
        return value
    return None


def _validated(items: Iterable[Any], answer_format: AnswerFormat[T]) -> Answer[T]:
    kept: list[T] = []
    rejected: list[Dropped] = []
    for item in items:
        # A null is a field that was left out.
        given = {key: part for key, part in item.items() if part is not None} if isinstance(item, dict) else item
        try:
            kept.append(msgspec.convert(given, answer_format.item, strict=False, dec_hook=_lenient))
        except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
            rejected.append(dropped(answer_format, "invalid_item", item))
    if rejected and not kept:
        raise UnreadableAnswer(f"no item of `{answer_format.key or answer_format.stage}` is as it should be")
    return Answer(items=tuple(kept), dropped=tuple(rejected))


def _lenient(kind: type, value: Any) -> Any:
    if issubclass(kind, Text | Texts | Numbers | Reference | Share):
        return kind.parse(value)
    raise NotImplementedError(kind)
