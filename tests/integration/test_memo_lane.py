"""The memo lane from messages to the profile: what a value is, and what becomes of it when more is said."""

from __future__ import annotations

import pytest

from benchmarks.model_server import Reply
from schemas.pipeline import EventTagDefinition, SubTopic, Topic
from tests.support.memo_lane import Script, bullets, decisions, fact, facts, other, user

NAME = "basic_info/name"
LIKES = "interest/likes"
TAGS = (EventTagDefinition(name="emotion"),)

LOOKS_LIKE_NOTHING = [
    ("My name is Norman.", NAME, "Norman"),
    ("Hello, my name is Anne.", NAME, "Anne"),
    ("Hi, my name is Noe.", NAME, "Noe"),
    ("I have no allergies.", "lifestyle/allergies", "no allergies"),
    ("I am not married.", "demographics/marital_status", "not married"),
    ("I work in information security.", "work/industry", "information security"),
    ("我住在无锡。", "basic_info/location", "无锡"),
    ("我目前无业。", "work/status", "无业"),
    ("我喜欢喝无糖可乐。", LIKES, "喝无糖可乐"),
]
JOB_SEEKER = "目前没有任何工作信息，正在求职"


# What is a value


@pytest.mark.parametrize(
    ("message", "slot", "value"),
    [*LOOKS_LIKE_NOTHING, (JOB_SEEKER, "work/status", JOB_SEEKER), ("无糖", LIKES, "无糖")],
)
async def test_values_that_look_like_nothing_are_kept(model_lane, message, slot, value) -> None:
    lane = model_lane(Script(summary=[bullets(message)], extract=[facts(fact(value, slot))]))
    await lane.flush(message)
    assert lane.values == {slot: value}
    assert lane.dropped == []


@pytest.mark.parametrize(("message", "slot", "value"), [*LOOKS_LIKE_NOTHING, (JOB_SEEKER, "work/status", "正在求职")])
async def test_the_rules_keep_them_too(rule_lane, message, slot, value) -> None:
    lane = rule_lane()
    await lane.flush(message)
    assert lane.values == {slot: value}


@pytest.mark.parametrize(
    "nothing",
    ["No information about the user was provided.", "None", "not mentioned", "用户没有提到职业", "暂无相关信息。"],
)
async def test_words_for_nothing_are_no_value(model_lane, nothing) -> None:
    script = Script(
        summary=[bullets("likes tea", nothing)], extract=[facts(fact(nothing, "work/title"), fact("tea", LIKES))]
    )
    lane = model_lane(script)
    state = await lane.flush("I like tea.")
    assert lane.values == {LIKES: "tea"}
    assert [bullet.text for bullet in state.event.memo] == ["likes tea"]
    assert lane.dropped == [("summary", "says_nothing"), ("extract", "says_nothing")]


async def test_an_answer_in_prose_is_no_value(model_lane) -> None:
    prose = "I looked carefully, but nothing was found about the user: no name, no job."
    lane = model_lane(Script(summary=[prose, {"bullets": []}]))
    state = await lane.flush("What is the capital of France?")
    assert (state.event.outcome, state.profile.slots) == ("empty", ())
    assert [(call.stage, call.outcome) for call in state.event.calls] == [
        ("summary", "unreadable_answer"),
        ("summary", "ok"),
    ]


async def test_prose_in_place_of_facts_fails_the_flush_visibly(model_lane) -> None:
    lane = model_lane(Script(summary=[bullets("likes tea")], extract=["Nothing found."]))
    state = await lane.flush("I like tea.")
    assert (state.event.outcome, state.profile.slots) == ("failed", ())
    assert "unreadable_answer" in state.event.errors["extract"]


@pytest.mark.parametrize(
    "value",
    [
        "a::b::c",
        "std::vector<std::string> & C++20",
        "tab\tbetween",
        "she says \"hi\", he says 'no'",
        "line one\nline two\n\nline four",
        "fe80::1ff:fe23:4567:890a%eth0",
        "2001:db8::/32",
        "- basic_info::name::Bob",
        "</memo> & <new>",
        '{"facts": []}',
    ],
)
async def test_any_text_comes_through_as_it_is(model_lane, value) -> None:
    script = Script(
        summary=[bullets(f"note: {value}")],
        extract=[facts(fact(value, "work/skills")), facts(fact(f"{value} too", "work/skills"))],
        merge=[decisions((1, "APPEND", f"{value} too"))],
    )
    lane = model_lane(script)
    state = await lane.flush("first")
    assert [bullet.text for bullet in state.event.memo] == [f"note: {value}"]
    assert lane.value("work/skills") == value
    await lane.flush("second")
    assert lane.value("work/skills") == f"{value}; {value} too"


@pytest.mark.parametrize("sign", ["* ", "1. ", "• ", "- ", "12) ", "1、"])
async def test_one_gist_a_bullet_whatever_its_sign(model_lane, sign) -> None:
    lane = model_lane(Script(summary=[bullets(f"{sign}likes tea", f"{sign}住在无锡")], extract=[facts()]))
    state = await lane.flush("I like tea. 我住在无锡。")
    assert [bullet.text for bullet in state.event.memo] == ["likes tea", "住在无锡"]


async def test_names_are_unified_wherever_they_enter(model_lane) -> None:
    own = (Topic(topic=" Travel Plans", sub_topics=(SubTopic(name="Next Trip"),)),)
    script = Script(
        summary=[bullets("wants to see Oslo")],
        extract=[facts(fact("Oslo", "TRAVEL plans/ next TRIP "), fact("tea", LIKES))],
    )
    lane = model_lane(script, overwrite_user_profiles=own, profile_strict_mode=True)
    await lane.flush("I want to see Oslo. I like tea.")
    assert lane.values == {"travel_plans/next_trip": "Oslo"}
    assert lane.dropped == [("extract", "slot_not_configured")]


# What becomes of it


async def test_the_same_introduction_in_ten_sessions(model_lane) -> None:
    same = facts(fact("Ann", NAME), fact("nurse", "work/title", 2))
    script = Script(summary=[bullets("name is Ann", "is a nurse")], extract=[same])
    lane = model_lane(script)
    ops = []
    for _ in range(10):
        state = await lane.flush("Hi, my name is Ann. I am a nurse.")
        ops += [delta.op for delta in state.deltas if delta.sub_topic == "name"]
    assert ops == ["add"] + ["confirm"] * 9
    assert lane.values == {NAME: "Ann", "work/title": "nurse"}
    assert {slot.update_hits for slot in lane.state.profile.slots} == {10}
    assert script.stages == ["summary"] * 10 + ["extract"] * 10, "a repeat is settled without the model"


@pytest.mark.parametrize("introduction", ["Hi, my name is Ann. I am a nurse.", "你好，我叫李明，我是一名护士。"])
async def test_the_same_introduction_by_the_rules(rule_lane, introduction) -> None:
    lane = rule_lane()
    await lane.flush(introduction)
    first = lane.values
    for _ in range(9):
        await lane.flush(introduction)
    assert lane.values == first
    assert len(first) == 2
    assert {slot.update_hits for slot in lane.state.profile.slots} == {10}


async def test_unrelated_likes_are_both_kept(model_lane) -> None:
    script = Script(
        summary=[bullets("喜欢周游世界"), bullets("喜欢周末吃夜宵")],
        extract=[facts(fact("周游世界", LIKES)), facts(fact("周末吃夜宵", LIKES))],
        merge=[decisions((1, "APPEND", "周末吃夜宵"))],
    )
    lane = model_lane(script, language="zh")
    await lane.flush("我喜欢周游世界。")
    state = await lane.flush("我喜欢周末吃夜宵。")
    (delta,) = state.deltas
    assert (delta.op, delta.before, delta.after, delta.added) == (
        "append", "周游世界", "周游世界; 周末吃夜宵", "周末吃夜宵",
    )  # fmt: skip
    assert [added.value for added in state.event.added] == ["周末吃夜宵"]


async def test_likes_of_one_flush_are_joined_and_repeats_kept_once(model_lane) -> None:
    answer = facts(fact("周游世界", LIKES, 1), fact("周末吃夜宵", LIKES, 2), fact("周游世界", LIKES, 2))
    lane = model_lane(Script(summary=[bullets("喜欢周游世界", "喜欢周末吃夜宵")], extract=[answer]))
    await lane.flush("我喜欢周游世界，也喜欢周末吃夜宵。")
    assert lane.values == {LIKES: "周游世界; 周末吃夜宵"}


async def test_unrelated_likes_by_the_rules(rule_lane) -> None:
    apart, together = rule_lane(), rule_lane()
    await apart.flush("我喜欢周游世界。")
    await apart.flush("我喜欢周末吃夜宵。")
    await together.flush("我喜欢周游世界。", "我喜欢周末吃夜宵。")
    assert apart.value(LIKES) == together.value(LIKES) == "周游世界; 周末吃夜宵"


async def test_a_corrected_name_stands(model_lane, rule_lane) -> None:
    script = Script(
        summary=[bullets("name is Ann"), bullets("corrects: the name is Anna")],
        extract=[facts(fact("Ann", NAME)), facts(fact("Anna", NAME))],
        merge=[decisions((1, "UPDATE", "Anna"))],
    )
    for lane in (model_lane(script), rule_lane()):
        await lane.flush("My name is Ann.")
        state = await lane.flush("Sorry, my name is Anna, not Ann.")
        assert [(delta.op, delta.before, delta.after) for delta in state.deltas] == [("update", "Ann", "Anna")]
        assert lane.values == {NAME: "Anna"}


async def test_a_retraction_carries_the_old_value(model_lane, rule_lane) -> None:
    script = Script(
        summary=[bullets("likes tea"), bullets("no longer likes tea")],
        extract=[facts(fact("tea", LIKES)), facts(fact("tea", LIKES, retracts=True))],
        merge=[decisions((1, "UPDATE", ""))],
    )
    for lane in (model_lane(script), rule_lane()):
        await lane.flush("I like tea.")
        state = await lane.flush("I no longer like tea.")
        assert [(delta.op, delta.before, delta.after) for delta in state.deltas] == [("delete", "tea", None)]
        assert lane.values == {}


async def test_a_flip_carries_the_old_value(model_lane, rule_lane) -> None:
    dislikes = "interest/dislikes"
    script = Script(
        summary=[bullets("不喜欢下雨"), bullets("现在喜欢下雨了")],
        extract=[
            facts(fact("下雨", dislikes)),
            facts(fact("下雨", dislikes, retracts=True), fact("下雨", LIKES)),
        ],
        merge=[decisions((1, "UPDATE", ""))],
    )
    for lane in (model_lane(script, language="zh"), rule_lane(language="zh")):
        await lane.flush("我不喜欢下雨。")
        state = await lane.flush("我现在喜欢下雨了。")
        assert {(delta.sub_topic, delta.op, delta.before, delta.after) for delta in state.deltas} == {
            ("dislikes", "delete", "下雨", None),
            ("likes", "add", None, "下雨"),
        }
        assert lane.values == {LIKES: "下雨"}


async def test_a_replacement_in_one_slot_takes_one_merge_call(model_lane, rule_lane) -> None:
    script = Script(
        summary=[bullets("likes tea and figs"), bullets("no longer likes tea", "likes rice")],
        extract=[
            facts(fact("tea", LIKES), fact("figs", LIKES)),
            facts(fact("tea", LIKES, retracts=True), fact("rice", LIKES, 2)),
        ],
        merge=[decisions((1, "UPDATE", "figs"), (2, "APPEND", "rice"))],
    )
    lane = model_lane(script)
    for each in (lane, rule_lane()):
        await each.flush("I like tea. I like figs.")
        state = await each.flush("I no longer like tea. I like rice.")
        assert [(delta.op, delta.before, delta.after) for delta in state.deltas] == [
            ("update", "tea; figs", "figs"),
            ("append", "figs", "figs; rice"),
        ]
    assert [call.stage for call in lane.state.event.calls] == ["summary", "extract", "merge"]


async def test_a_value_in_place_of_another_takes_one_merge_call(model_lane) -> None:
    script = Script(
        summary=[bullets("works at Acme"), bullets("left Acme, works at Birch now")],
        extract=[
            facts(fact("Acme, since spring", "work/company")),
            facts(fact("Acme", "work/company", retracts=True), fact("Birch", "work/company")),
        ],
        merge=[decisions((1, "UPDATE", ""), (2, "UPDATE", "Birch"))],
    )
    lane = model_lane(script)
    await lane.flush("I work at Acme.")
    state = await lane.flush("I left Acme, I work at Birch now.")
    assert lane.values == {"work/company": "Birch"}
    assert state.deltas[0].before == "Acme, since spring"
    assert [call.stage for call in state.event.calls] == ["summary", "extract", "merge"]


# Calls


async def test_an_empty_memo_ends_the_flush(model_lane) -> None:
    script = Script(summary=[{"bullets": []}])
    lane = model_lane(script, event_tags=TAGS, profile_validate_mode=True)
    state = await lane.flush("What time is it?")
    assert (state.event.outcome, state.deltas) == ("empty", ())
    assert script.stages == ["summary"]


async def test_first_values_need_no_merge_call_unless_they_are_to_be_validated(model_lane) -> None:
    def script() -> Script:
        return Script(
            summary=[bullets("likes tea")],
            extract=[facts(fact("tea", LIKES))],
            merge=[decisions((1, "UPDATE", "tea"))],
        )  # fmt: skip

    validated = (Topic(topic="interest", sub_topics=(SubTopic(name="likes", validate_value=True),)),)
    for config, calls in [({}, 0), ({"profile_validate_mode": True}, 1), ({"additional_user_profiles": validated}, 1)]:
        lane = model_lane(script(), **config)
        state = await lane.flush("I like tea.")
        assert lane.values == {LIKES: "tea"}
        assert [call.stage for call in state.event.calls].count("merge") == calls


async def test_a_flush_without_facts_makes_no_merge_call(model_lane) -> None:
    script = Script(summary=[bullets("feels fine today")], extract=[facts()])
    lane = model_lane(script, profile_validate_mode=True)
    state = await lane.flush("I feel fine today.")
    assert (state.event.outcome, state.deltas) == ("applied", ())
    assert script.stages == ["summary", "extract"]


async def test_every_value_gets_a_decision(model_lane) -> None:
    slots = [LIKES, "interest/sports", "interest/foods"]
    script = Script(
        summary=[bullets("a"), bullets("b")],
        extract=[facts(*(fact("old", slot) for slot in slots)), facts(*(fact(f"new {slot}", slot) for slot in slots))],
        merge=[
            decisions((1, "APPEND", f"new {LIKES}"), (9, "ABORT", "")),
            decisions((2, "APPEND", "new interest/sports")),
            decisions(),
        ],
    )
    lane = model_lane(script)
    await lane.flush("first")
    state = await lane.flush("second")
    assert lane.values == {slot: f"old; new {slot}" for slot in slots}
    assert [call.stage for call in state.event.calls].count("merge") == 3, "those without a decision are asked alone"
    reasons = {delta.sub_topic: delta.reason for delta in state.deltas}
    assert "without a decision" in reasons["foods"]
    assert ("merge", "unknown_number") in lane.dropped


async def test_a_failing_tag_branch_loses_no_change_of_the_profile(model_lane) -> None:
    script = Script(
        summary=[bullets("likes tea")], extract=[facts(fact("tea", LIKES))], tag=[Reply(refusal="I cannot do that")]
    )
    lane = model_lane(script, event_tags=TAGS)
    state = await lane.flush("I like tea.")
    assert lane.values == {LIKES: "tea"}
    assert (state.event.outcome, state.event.tags) == ("applied", ())
    assert "model_refused" in state.event.errors["tag"]


async def test_an_event_holds_all_that_the_flush_was(model_lane) -> None:
    script = Script(
        summary=[bullets("likes tea")],
        extract=[facts(fact("tea", LIKES), fact("nothing", "work/title"))],
        tag=[{"tags": [{"tag": "emotion", "value": "calm"}, {"tag": "weather", "value": "rain"}]}],
    )
    lane = model_lane(script, event_tags=TAGS)
    state = await lane.flush(user("I like tea."), other("assistant", "Noted."))
    event = state.event
    assert [(tag.tag, tag.value) for tag in event.tags] == [("emotion", "calm")]
    assert [(reference.message_id, reference.role) for reference in event.messages] == [
        ("m0", "user"),
        ("m1", "assistant"),
    ]
    assert event.delta_ids == tuple(delta.delta_id for delta in state.deltas)
    assert {call.stage for call in event.calls} == {"summary", "extract", "tag"}
    assert all(call.prompt_tokens and call.completion_tokens and call.prompt_version for call in event.calls)
    assert set(lane.dropped) == {("extract", "says_nothing"), ("tag", "unknown_tag")}


# Tidying


async def test_a_topic_with_too_many_slots_is_regrouped(model_lane) -> None:
    many = facts(*(fact(f"Thing{number}", f"interest/s{number}") for number in range(4)))
    groups = [
        {"sub_topic": "Things", "memo": "Thing0; Thing1", "values": [1, 2]},
        {"sub_topic": "more things", "memo": "Thing2; Thing3", "values": [3, 4]},
    ]
    script = Script(summary=[bullets("likes things")], extract=[many], organise=[{"groups": groups}])
    lane = model_lane(script, max_profile_subtopics=3)
    state = await lane.flush("I like things.")
    assert lane.values == {"interest/things": "Thing0; Thing1", "interest/more_things": "Thing2; Thing3"}
    assert [call.stage for call in state.event.calls] == ["summary", "extract", "organise"]
    (request,) = script.requests["organise"]
    assert "<limit>2</limit>" in request.user
    assert '<value n="1" sub_topic="s0">Thing0</value>' in request.user


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"groups": [{"sub_topic": "things", "memo": "Thing0; Thing1", "values": [1, 2]}]}, "values_unaccounted"),
        ("I would rather not.", "failed"),
        (Reply(status=500), "failed"),
    ],
)
async def test_a_regrouping_that_fails_changes_nothing(model_lane, answer, reason) -> None:
    many = facts(*(fact(f"Thing{number}", f"interest/s{number}") for number in range(4)))
    script = Script(summary=[bullets("likes things")], extract=[many], organise=[answer])
    lane = model_lane(script, max_profile_subtopics=3)
    state = await lane.flush("I like things.")
    assert lane.values == {f"interest/s{number}": f"Thing{number}" for number in range(4)}
    assert state.event.outcome == "applied"
    assert ("organise", reason) in lane.dropped


LONG = "moved to Lyon with Marie in May 2021, " * 4 + "and likes it"


@pytest.mark.parametrize(
    ("answer", "value", "reason"),
    [
        ({"memo": "moved to Lyon with Marie in May 2021"}, "moved to Lyon with Marie in May 2021", None),
        ({"memo": "moved abroad"}, LONG, "values_lost"),
        ({"memo": f"{LONG} {LONG}"}, LONG, "still_too_long"),
        ({"memo": "not mentioned"}, LONG, "says_nothing"),
        ("no JSON", LONG, "failed"),
    ],
)
async def test_a_long_value_is_shortened_or_kept(model_lane, answer, value, reason) -> None:
    script = Script(summary=[bullets("moved")], extract=[facts(fact(LONG, "life_event/home"))], shorten=[answer])
    lane = model_lane(script, max_pre_profile_token_size=32)
    state = await lane.flush("I moved.")
    assert lane.values == {"life_event/home": value}
    assert state.event.outcome == "applied"
    assert lane.dropped == ([("shorten", reason)] if reason else [])
    assert "<budget>32</budget>" in script.requests["shorten"][0].user
