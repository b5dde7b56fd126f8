"""The tolerant reader: what it accepts, what it drops, what it refuses."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from agents.llm.answers import REPAIR_LIMIT, UnreadableAnswer, read_answer
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
)
from agents.llm.nothing import is_nothing
from agents.llm.relations import relation_in
from agents.llm.values import Numbers, Reference, Share, Text, Texts

TWO = {"bullets": [{"text": "likes tea", "messages": [1]}, {"text": "lives in Oslo", "messages": [2, 3]}]}
STRICT = json.dumps(TWO)


def texts(answer) -> list[str]:
    return [item.text for item in answer.items]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(STRICT, id="strict"),
        pytest.param(json.dumps(TWO["bullets"]), id="bare list"),
        pytest.param(f"```json\n{STRICT}\n```", id="fence"),
        pytest.param(f"```\n{STRICT}\n```", id="fence without language"),
        pytest.param(f"Here is what I found:\n\n{STRICT}\n\nLet me know!", id="prose around"),
        pytest.param(f"<think>They said {{tea}} [1].</think>\n{STRICT}", id="reasoning before"),
        pytest.param(f"They said {{tea}}.\n</think>\n\n{STRICT}", id="reasoning without its opening tag"),
        pytest.param(f'<think>Draft: {{"bullets": []}}</think>```json\n{STRICT}\n```', id="draft in reasoning"),
        pytest.param(f'The form is {{"bullets": []}}. My answer: {STRICT}', id="form quoted first"),
        pytest.param(str(TWO), id="single quotes"),
        pytest.param(f"Sure: {TWO} Anything else?", id="single quotes in prose"),
        pytest.param(STRICT.replace("}]}", "},]}"), id="trailing comma"),
        pytest.param(STRICT[:-2], id="closing brackets missing"),
        pytest.param(json.dumps({"Bullets": TWO["bullets"]}), id="key in upper case"),
        pytest.param("\ufeff" + STRICT, id="byte order mark"),
    ],
)
async def test_reads_the_same_items_however_they_are_wrapped(answer: str) -> None:
    read = await read_answer(answer, BULLETS)
    assert [(item.text, tuple(item.messages)) for item in read.items] == [
        ("likes tea", (1,)),
        ("lives in Oslo", (2, 3)),
    ]
    assert read.dropped == ()


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        "[ ]\n",
        "```json\n[]\n```",
        "<think>Nothing [1].</think>\n[]",
        '{"bullets": []}',
        '{"bullets": null}',
        "```json\n{'bullets': []}\n```",
    ],
)
async def test_an_empty_list_is_an_answer(answer: str) -> None:
    assert (await read_answer(answer, BULLETS)).items == ()


@pytest.mark.parametrize(
    "answer",
    [
        "There is nothing about the user here.",
        "No facts found.",
        "No bullets: [] means none.",
        "没有找到任何信息。",
        "{}",
        '{"facts": []}',
        "[1, 2, 3]",
        '"bullets"',
        "42",
        '<think>{"bullets": []} perhaps',
        "{" * 5_000,
        '{"bullets": [',
        '{"bullets": [{"text": "likes t',
        '{"bullets": ["likes tea", "lives in Oslo"]}',
        "<html><body>502 Bad Gateway</body></html>",
    ],
)
async def test_anything_else_is_refused(answer: str) -> None:
    with pytest.raises(UnreadableAnswer):
        await read_answer(answer, BULLETS)


async def test_a_cut_last_item_is_dropped_and_the_rest_kept() -> None:
    read = await read_answer(STRICT[: STRICT.index("Oslo") + 2], BULLETS)
    assert texts(read) == ["likes tea"]
    assert [drop.reason for drop in read.dropped] == ["truncated_item"]


async def test_a_cut_value_never_becomes_a_decision() -> None:
    read = await read_answer(
        '{"decisions": [{"number": 1, "action": "ABORT"}, {"number": 2, "action": "UPDATE", "value": "New Y',
        DECISIONS,
    )
    assert [item.number for item in read.items] == [1]


async def test_invalid_items_are_dropped_with_the_reason_and_valid_ones_kept() -> None:
    answer = {"bullets": [{"messages": [1]}, {"text": {"a": 1}}, None, 7, {"text": "likes tea", "messages": "1"}]}
    read = await read_answer(json.dumps(answer), BULLETS)
    assert texts(read) == ["likes tea"]
    assert [drop.reason for drop in read.dropped] == ["invalid_item"] * 4
    assert {drop.stage for drop in read.dropped} == {"summary"}


async def test_dropped_items_are_short_and_can_be_encoded() -> None:
    answer = '{"bullets": [{"text": {"a": "\\ud800' + "x" * 1_000 + '"}}, {"text": "ok", "messages": [1]}],}'
    read = await read_answer(answer, BULLETS)
    assert len(read.dropped[0].detail) == 200
    read.dropped[0].detail.encode()


async def test_fields_are_read_leniently() -> None:
    answer = {"facts": [{"topic": " work ", "sub_topic": "x", "memo": 42, "bullets": "1, 2", "retracts": "true"}]}
    (item,) = (await read_answer(json.dumps(answer), SLOTS)).items
    assert (item.topic, item.memo, tuple(item.bullets), item.retracts) == ("work", "42", (1, 2), True)


async def test_nulls_are_fields_left_out() -> None:
    answer = {"tags": [{"tag": "mood", "value": None}, {"tag": "mood", "value": "glad"}]}
    read = await read_answer(json.dumps(answer), TAGS)
    assert [item.value for item in read.items] == ["glad"]


@pytest.mark.parametrize(
    "value",
    [
        "std::vector<int>",
        "a\tb",
        'says "hi"',
        "it's",
        "line one\nline two",
        "2001:db8::1",
        "C++, C#",
        "AT&T",
        "1. FC Köln",
        "{curly} [square]",
        "```code```",
        "<think>x</think>",
    ],
)
async def test_values_survive_as_they_are(value: str) -> None:
    item = {"topic": "work", "sub_topic": "skills", "memo": value, "bullets": [1]}
    strict = json.dumps({"facts": [item]}, ensure_ascii=False)
    for answer in (strict, f"```json\n{strict}\n```" if "```" not in value else strict, f"Well: {strict} Done."):
        read = await read_answer(answer, SLOTS)
        assert [each.memo for each in read.items] == [value]


async def test_prompt_escapes_are_undone_once() -> None:
    assert Text.parse("std::vector&lt;int&gt; &amp;amp; &quot;x&quot;") == 'std::vector<int> &amp; "x"'


async def test_control_characters_and_lone_surrogates_go() -> None:
    assert Text.parse(" a\x00b\x1b[0m\ud800\n") == "ab[0m?"


async def test_large_broken_answers_are_not_repaired() -> None:
    broken = "{'bullets': [{'text': '" + "x" * REPAIR_LIMIT + "', 'messages': [1]}]}"
    with pytest.raises(UnreadableAnswer):
        await read_answer(broken, BULLETS)
    with pytest.raises(UnreadableAnswer):
        await read_answer(" " * 300_000 + STRICT, BULLETS)


async def test_a_long_answer_takes_no_long_time() -> None:
    started = time.perf_counter()
    for long in ("x" * 250_000, "[" * 250_000, "</" * 125_000):
        with pytest.raises(UnreadableAnswer):
            await read_answer(long, BULLETS)
    assert time.perf_counter() - started < 5, "the square of the length would be half a minute"


async def test_the_loop_runs_on_while_an_answer_is_repaired() -> None:
    hard = "{'bullets': [" + "{'text': 'it's \"so\" x', 'messages': [1]}," * 390
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticker = asyncio.create_task(tick())
    try:
        await read_answer(hard, BULLETS)
    except UnreadableAnswer:
        pass
    finally:
        ticker.cancel()
    assert ticks > 2


@pytest.mark.parametrize(
    ("value", "numbers", "unreadable"),
    [
        ([1, 2, 1], (1, 2), ()),
        (3, (3,), ()),
        ("[1, 2]", (1, 2), ()),
        ("#4；5、6", (4, 5, 6), ()),
        ([1.0, "2"], (1, 2), ()),
        (None, (), ()),
        (["one", -1, 1.5, True, {"n": 1}], (), ("one", "-1", "1.5", "True", "{'n': 1}")),
    ],
)
def test_numbers(value: object, numbers: tuple[int, ...], unreadable: tuple[str, ...]) -> None:
    read = Numbers.parse(value)
    assert (tuple(read), read.unreadable) == (numbers, unreadable)


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("* likes tea", "likes tea"),
        ("- likes tea", "likes tea"),
        ("1. likes tea", "likes tea"),
        ("12) likes tea", "likes tea"),
        ("• likes tea", "likes tea"),
        ("•likes tea", "likes tea"),
        ("- * likes tea", "likes tea"),
        ("1、喜欢喝茶", "喜欢喝茶"),
        ("-5 °C is too cold", "-5 °C is too cold"),
        ("3.5 km a day", "3.5 km a day"),
        ("*likes* tea", "*likes* tea"),
        ("2024 was hard", "2024 was hard"),
    ],
)
def test_bullet_signs_are_taken_off(text: str, bare: str) -> None:
    assert Text(text).without_bullet() == bare


@pytest.mark.parametrize(
    "value",
    [
        "", "...", "-", "None", "none.", "N/A", "unknown", "(not mentioned)", "Not mentioned in the conversation.",
        "nothing found", "No facts were found", "no information", "No relevant information found",
        "no information was provided by the user", "There is no new information about the user.",
        "The user did not share any personal information", "无", "暂无", "没有信息", "暂无相关信息。", "未提及",
        "No preferences found", "no keywords",
        "没有相关偏好", "暂无关键词", "用户没有提到职业", "用户未提供任何个人信息", "没有任何工作信息",
    ],
)  # fmt: skip
def test_words_that_there_is_no_value(value: str) -> None:
    assert is_nothing(value)


@pytest.mark.parametrize(
    "value",
    [
        "Norman", "Anne", "Noe", "Nora Nothing", "no allergies", "not married", "no pets", "information security",
        "no data plan", "no preference for window seats", "没有饮食偏好上的限制",
        "No Country for Old Men", "nothing but jazz", "not available on weekends", "empty", "never",
        "unknown caller app developer", "无锡", "无业", "无糖", "无线信息技术", "没有孩子", "没有工作", "未婚",
        "目前没有任何工作信息，正在求职",
    ],
)  # fmt: skip
def test_values_that_look_like_nothing_are_values(value: str) -> None:
    assert not is_nothing(value)


@pytest.mark.parametrize(
    "answer",
    [
        '{"memo": "moved to Lyon"}',
        '```json\n{"memo": "moved to Lyon"}\n```',
        '<think>{"memo": "draft"}</think>Here: {"memo": "moved to Lyon"} Short enough?',
        "{'memo': 'moved to Lyon'}",
        '[{"memo": "moved to Lyon"}]',
    ],
)
async def test_an_answer_that_is_one_item(answer: str) -> None:
    read = await read_answer(answer, SHORT)
    assert [item.memo for item in read.items] == ["moved to Lyon"]


@pytest.mark.parametrize(
    "answer", ["[]", "{}", '{"text": "moved"}', '{"memo": {"a": 1}}', "moved to Lyon", '{"memo": "moved to Ly']
)
async def test_an_answer_that_is_not_that_item(answer: str) -> None:
    with pytest.raises(UnreadableAnswer):
        await read_answer(answer, SHORT)


def test_the_schema_of_one_item_is_its_own() -> None:
    assert SHORT.json_schema() == {
        "type": "object",
        "properties": {"memo": {"type": "string"}},
        "required": ["memo"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "answer_format",
    [BULLETS, SLOTS, TAGS, DECISIONS, GROUPS, FACTS, COMPARED_FACTS, PREFERENCES],
    ids=lambda each: f"{each.stage} {len(each.unasked)}",
)
def test_schemas_are_strict(answer_format) -> None:
    schema = answer_format.json_schema()
    item = schema["properties"][answer_format.key]["items"]
    for each in (schema, item):
        assert each["required"] == list(each["properties"])
        assert each["additionalProperties"] is False
    asked = [name for name in answer_format.item.__struct_fields__ if name not in answer_format.unasked]
    assert list(item["properties"]) == asked
    assert all(set(field) <= {"type", "items", "enum"} for field in item["properties"].values())


def test_known_facts_are_asked_about_only_where_there_are_any() -> None:
    names = ["fact", "category", "confidence", "conflicts_with", "repeats"]
    shown, alone = (each.json_schema()["properties"]["facts"]["items"] for each in (COMPARED_FACTS, FACTS))
    assert list(shown["properties"]) == names
    assert list(alone["properties"]) == names[:3]
    assert shown["properties"]["repeats"] == {"type": ["integer", "null"]}
    assert alone["properties"]["category"]["enum"][-1] == "other"
    assert alone["properties"]["confidence"] == {"type": "number"}


def test_schemas_of_a_relation_and_of_a_description() -> None:
    words = ["duplicate", "update", "conflict", "different"]
    assert RELATION.json_schema()["properties"] == {"relation": {"type": "string", "enum": words}}
    texts = {"type": "array", "items": {"type": "string"}}
    assert DOMAIN.json_schema()["properties"] == {"facts": texts, "domain": texts}


TEA = {"fact": "User likes tea", "category": "preference", "confidence": 0.9}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(json.dumps({"facts": [TEA]}), id="object"),
        pytest.param(json.dumps([TEA]), id="array"),
        pytest.param(json.dumps(TEA), id="one item"),
        pytest.param(f"```json\n{json.dumps([TEA])}\n```", id="fenced array"),
        pytest.param(f"I found one [1]:\n{json.dumps([TEA])}\nThat is all.", id="array in prose"),
        pytest.param(str([TEA]), id="single quotes"),
        pytest.param(json.dumps({"facts": [{**TEA, "conflicts_with": None, "repeats": None}]}), id="nulls"),
        pytest.param(json.dumps({"facts": [TEA, TEA]})[:-40], id="cut off"),
    ],
)
async def test_facts_are_read_in_both_forms(answer: str) -> None:
    (item,) = (await read_answer(answer, COMPARED_FACTS)).items
    assert (item.fact, item.category, item.confidence) == ("User likes tea", "preference", 0.9)
    assert (item.conflicts_with, item.repeats) == ("", "")


async def test_a_repeat_needs_no_text() -> None:
    read = await read_answer('[{"repeats": 2}, {"fact": null, "repeats": "3"}, {"category": "work"}]', COMPARED_FACTS)
    assert [(item.fact, item.repeats.number) for item in read.items] == [("", 2), ("", 3), ("", None)]
    with pytest.raises(UnreadableAnswer):
        await read_answer('[{"repeats": 2}]', FACTS)


async def test_odd_facts_are_dropped_and_the_rest_kept() -> None:
    odd = [{"fact": {"a": 1}}, "User likes figs", None, 3, TEA]
    read = await read_answer(json.dumps({"facts": odd}), FACTS)
    assert [item.fact for item in read.items] == ["User likes tea"]
    assert [drop.reason for drop in read.dropped] == ["invalid_item"] * 4
    assert {drop.stage for drop in read.dropped} == {"facts"}


async def test_a_description_is_one_object_with_both_lists() -> None:
    given = {"facts": ["Tea is hot", {"fact": "Ann drinks it"}], "domain": ["tea", 7, None, ["x"]]}
    (item,) = (await read_answer(f"```json\n{json.dumps(given)}\n```", DOMAIN)).items
    assert item.facts == ("Tea is hot", "Ann drinks it")
    assert (item.domain, item.domain.unreadable) == (("tea", "7"), ("None", "['x']"))


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        "{}",
        '["tea"]',
        '{"facts": ["Tea is hot"]}',
        '{"domain": ["tea"]}',
        '{"facts": ["Tea is hot"], "domain": null}',
        '{"facts": ["Tea is hot"], "domain": {"tea": 1}}',
        '{"facts": 1, "domain": ["tea"]}',
        '{"facts": ["Tea is hot"], "domain": ["te',
        "Tea.",
    ],
)
async def test_a_description_of_another_shape_is_refused(answer: str) -> None:
    with pytest.raises(UnreadableAnswer):
        await read_answer(answer, DOMAIN)


@pytest.mark.parametrize(
    ("answer", "relation"),
    [
        ("update", "update"),
        ("  Update.\n", "update"),
        ('"CONFLICT"', "conflict"),
        ("**duplicate**", "duplicate"),
        ('{"relation": "different"}', "different"),
        ('{"Relation": "different"}', "different"),
        ("{'relation': 'different'}", "different"),
        ('{"answer": "update"}', "update"),
        ('```json\n{"relation": "update"}\n```', "update"),
        ('{"relation": "update", "reason": "not a conflict"}', "update"),
        ("<think>Is it a conflict? Rather an update.</think>update", "update"),
        ("The new statement updates the known one, so: update", "update"),
        ("They are different.", "different"),
        ("The two conflict.", "conflict"),
        ("更新", "update"),
        ("两者互相矛盾", "conflict"),
        ("这两条不同。", "different"),
        ("答案：duplicate（重复）", "duplicate"),
    ],
)
async def test_the_word_of_a_relation_is_found(answer: str, relation: str) -> None:
    (item,) = (await read_answer(answer, RELATION)).items
    assert relation_in(item.relation) == relation


@pytest.mark.parametrize(
    "answer",
    [
        "I cannot tell.",
        "update or conflict",
        "update / conflict / different / duplicate",
        "These do not conflict.",
        "They don’t really conflict",
        "not a duplicate",
        "不冲突",
        "没有矛盾",
        "non-conflicting",
        "updating",
        "indifferent",
        "<think>an update",
        "[]",
        "42",
        '{"relation": null}',
        '{"relation": "upd',
    ],
)
async def test_no_word_or_more_than_one_is_no_relation(answer: str) -> None:
    with pytest.raises(UnreadableAnswer):
        await read_answer(answer, RELATION)


@pytest.mark.parametrize("text", ["not " * 1_500, "update" + " " * 4_000])
async def test_an_answer_that_goes_on_and_on_names_no_relation(text: str) -> None:
    assert relation_in(text) is None


@pytest.mark.parametrize(
    ("value", "share"),
    [
        (0.85, 0.85),
        (1, 1),
        ("0.85", 0.85),
        (" .5 ", 0.5),
        ("85%", 0.85),
        (7, 1),
        (-0.2, 0),
        ("-3", 0),
        pytest.param(10**400, 1, id="huge"),
        (float("inf"), 1),
        (float("nan"), 0.5),
        ("high", 0.5),
        ("", 0.5),
        (True, 0.5),
        ([0.9], 0.5),
        ({}, 0.5),
    ],
)
def test_shares(value: object, share: float) -> None:
    assert Share.parse(value) == pytest.approx(share)


@pytest.mark.parametrize(
    ("value", "text", "number"),
    [
        (2, "2", 2),
        (2.0, "2", 2),
        ("#2", "#2", 2),
        ("[2]", "2", 2),
        ([2, 3], "2", 2),
        ([], "", None),
        (None, "", None),
        (-1, "-1", None),
        (True, "True", None),
        (" User lives in Oslo ", "User lives in Oslo", None),
    ],
)
def test_references(value: object, text: str, number: int | None) -> None:
    read = Reference.parse(value)
    assert (read, read.number) == (text, number)


def test_texts() -> None:
    assert Texts.parse("tea") == ("tea",)
    assert Texts.parse([" tea ", 7, {"keyword": "figs"}]) == ("tea", "7", "figs")
    assert Texts.parse([True, {"a": 1, "b": 2}]).unreadable == ("True", "{'a': 1, 'b': 2}")
    with pytest.raises(ValueError, match="expected a list"):
        Texts.parse({"a": "tea"})
