"""The tolerant reader: what it accepts, what it drops, what it refuses."""

from __future__ import annotations

import asyncio
import json

import pytest

from agents.llm.answers import REPAIR_LIMIT, UnreadableAnswer, read_answer
from agents.llm.formats import BULLETS, DECISIONS, FACTS, GROUPS, SHORT, TAGS
from agents.llm.nothing import is_nothing
from agents.llm.values import Numbers, Text

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


@pytest.mark.parametrize("answer", ["[]", '{"bullets": []}', '{"bullets": null}', "```json\n{'bullets': []}\n```"])
async def test_an_empty_list_is_an_answer(answer: str) -> None:
    assert (await read_answer(answer, BULLETS)).items == ()


@pytest.mark.parametrize(
    "answer",
    [
        "There is nothing about the user here.",
        "No facts found.",
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
    (item,) = (await read_answer(json.dumps(answer), FACTS)).items
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
        read = await read_answer(answer, FACTS)
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


async def test_the_loop_runs_on_while_an_answer_is_repaired() -> None:
    hard = "[" * 3_000 + "{'bullets': [" + "{'text': 'x', 'messages': [1]}," * 300
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
        "用户没有提到职业", "用户未提供任何个人信息", "没有任何工作信息",
    ],
)  # fmt: skip
def test_words_that_there_is_no_value(value: str) -> None:
    assert is_nothing(value)


@pytest.mark.parametrize(
    "value",
    [
        "Norman", "Anne", "Noe", "Nora Nothing", "no allergies", "not married", "no pets", "information security",
        "no data plan", "No Country for Old Men", "nothing but jazz", "not available on weekends", "empty", "never",
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


@pytest.mark.parametrize("answer_format", [BULLETS, FACTS, TAGS, DECISIONS, GROUPS], ids=lambda each: each.stage)
def test_schemas_are_strict(answer_format) -> None:
    schema = answer_format.json_schema()
    item = schema["properties"][answer_format.key]["items"]
    for each in (schema, item):
        assert each["required"] == list(each["properties"])
        assert each["additionalProperties"] is False
    assert list(item["properties"]) == list(answer_format.item.__struct_fields__)
    assert all(set(field) <= {"type", "items", "enum"} for field in item["properties"].values())
