"""What the rule processor makes of whole batches: who counts, what is cited, and how profiles change."""

from __future__ import annotations

import asyncio

import pytest

from agents.rules import reading
from agents.rules.processor import RuleProcessor
from schemas.messages import Role
from schemas.pipeline import EventTagDefinition, PipelineConfig
from tests.unit.rules.cases_en import STATEMENTS as ENGLISH
from tests.unit.rules.cases_zh import STATEMENTS as CHINESE
from tests.unit.rules.conftest import Reader, batch, message

NAME = ("basic_info", "name")
LOCATION = ("basic_info", "location")
LIKES = ("interest", "likes")
DISLIKES = ("interest", "dislikes")
PETS = ("relationship", "pets")
ALLERGIES = ("lifestyle", "allergies")


@pytest.mark.parametrize("role", ["assistant", "system", "tool"])
@pytest.mark.parametrize("content", ["My name is Xiao Zhi and I live in Taipei.", "我叫小智，我是台湾人，我喜欢喝茶。"])
def test_only_the_user_is_read(reader: Reader, role: Role, content: str) -> None:
    assert reader.memo([message(content, role=role)]).bullets == ()


def test_context_is_not_read(reader: Reader) -> None:
    memo = reader.memo([message("Good morning.")], context=[message("My name is Anna.", message_id="old")])
    assert memo.bullets == ()


def test_a_bullet_is_the_sentence_itself_and_cites_its_message(reader: Reader) -> None:
    memo = reader.memo(
        [
            message("Good morning! My name is Anna. Nice day.", message_id="a"),
            message("Hello Anna, I am Bot.", role="assistant", message_id="b"),
            message("我住在杭州，你呢？", message_id="c"),
        ]
    )
    assert [(bullet.text, bullet.evidence) for bullet in memo.bullets] == [
        ("My name is Anna.", ("a",)),
        ("我住在杭州", ("c",)),
    ]


def test_every_candidate_cites_messages_of_its_memo(reader: Reader) -> None:
    contents = [*ENGLISH, *CHINESE]
    memo = reader.memo([message(content, message_id=str(number)) for number, content in enumerate(contents)])
    cited = {evidence for bullet in memo.bullets for evidence in bullet.evidence}
    candidates = asyncio.run(reader.processor.extract(memo, ())).candidates
    assert len(candidates) > 40
    for candidate in candidates:
        assert candidate.evidence
        assert set(candidate.evidence) <= cited
        assert candidate.assertion == "said" or candidate.retracts


def test_a_sentence_is_read_once_for_the_summary_and_its_slots(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "I live in Oslo."
    read: list[str] = []
    findings = reading.findings
    monkeypatch.setattr(reading, "findings", lambda text: [read.append(text), findings(text)][1])
    memo = reader.memo([message(sentence)])
    assert [each.memo for each in asyncio.run(reader.processor.extract(memo, ())).candidates] == ["Oslo"]
    assert read == [sentence]
    reader.memo([message(sentence, message_id="another")])
    assert read == [sentence] * 2


def test_items_of_one_slot_are_joined_with_the_evidence_of_all(reader: Reader) -> None:
    (likes,) = reader.candidates("I like tea.", "Good morning.", "I love jazz.", "I like tea.")
    assert (likes.memo, likes.evidence) == ("tea; jazz", ("m1", "m4", "m3"))


def test_the_same_input_always_gives_the_same_output() -> None:
    contents = [*ENGLISH, *CHINESE]
    first, second = Reader(), Reader()
    assert first.candidates(*contents) == second.candidates(*contents)
    assert first.processor.version == second.processor.version
    assert len(first.processor.version) == 12
    assert first.processor.name == "rules"


def test_the_language_setting_does_not_change_the_slots() -> None:
    chinese = Reader(PipelineConfig(language="zh"))
    assert chinese.candidates("我叫许岩") == Reader().candidates("我叫许岩")
    assert chinese.candidates("我叫许岩")[0].topic == "basic_info"


def test_topics_carry_the_usual_names(reader: Reader) -> None:
    reader.hear(
        "My name is Anna. I'm a nurse. I'm divorced. I like tea. I have asthma. My son is called Max. I got promoted."
    )
    assert set(reader.profile) == {
        NAME,
        ("work", "title"),
        ("demographics", "marital_status"),
        LIKES,
        ("lifestyle", "health_conditions"),
        ("relationship", "son"),
        ("life_event", "career"),
    }


def test_a_message_of_both_languages_keeps_each_value_as_said(reader: Reader) -> None:
    reader.hear("My name is 许岩. 我住在Berlin。I like 火锅.")
    assert reader.profile == {NAME: "许岩", LOCATION: "Berlin", LIKES: "火锅"}


class TestChanges:
    def test_a_corrected_name_replaces_the_old_one(self, reader: Reader) -> None:
        reader.hear("My name is John.")
        reader.hear("Actually my name is Jon, not John.")
        assert reader.changes[-1] == (NAME, "John", "Jon")

    def test_a_chinese_correction_replaces_the_old_name(self, reader: Reader) -> None:
        reader.hear("我叫林小梅。")
        reader.hear("我不叫林小梅，我叫林晓梅。")
        assert reader.changes[-1] == (NAME, "林小梅", "林晓梅")

    def test_the_last_of_two_places_in_one_batch_stands(self, reader: Reader) -> None:
        reader.hear("I live in Hamburg.", "I moved to Bremen yesterday.")
        assert reader.profile[LOCATION] == "Bremen"

    def test_ten_introductions_are_one_value(self, reader: Reader) -> None:
        for _ in range(10):
            reader.hear("My name is Anna and I like tea.")
        assert reader.profile == {NAME: "Anna", LIKES: "tea"}
        assert len(reader.changes) == 2

    def test_unrelated_likes_are_both_kept(self, reader: Reader) -> None:
        reader.hear("我喜欢周游世界")
        reader.hear("我喜欢周末吃夜宵")
        assert reader.profile[LIKES] == "周游世界; 周末吃夜宵"

    @pytest.mark.parametrize(
        ("before", "taken_back", "likes", "dislikes"),
        [
            ("I like tea and jazz.", "I no longer like tea.", "jazz", None),
            ("I like tea and jazz.", "I don't like tea any more.", "jazz", "tea"),
            ("I like drinking tea.", "I don't like tea anymore.", None, "tea"),
            ("I hate olives.", "I like olives now.", "olives", None),
            ("I hate olives.", "I like olives.", "olives", None),
            ("I like tea.", "I don't like tea.", None, "tea"),
            ("我喜欢茶和咖啡。", "我不再喜欢茶了", "咖啡", None),
            ("我喜欢喝茶。", "我不喜欢茶了", None, "茶"),
            ("我讨厌茶。", "我现在喜欢茶了", "茶", None),
            ("我不喜欢茶。", "我喜欢茶。", "茶", None),
        ],
    )
    def test_flips_move_an_item(
        self, reader: Reader, before: str, taken_back: str, likes: str | None, dislikes: str | None
    ) -> None:
        reader.hear(before)
        reader.hear(taken_back)
        assert (reader.profile.get(LIKES), reader.profile.get(DISLIKES)) == (likes, dislikes)

    def test_a_change_of_mind_within_one_batch_leaves_its_end(self, reader: Reader) -> None:
        reader.hear("I like tea and jazz.", "I no longer like tea.")
        assert reader.profile == {LIKES: "jazz"}

    def test_taken_back_and_liked_again_is_liked(self, reader: Reader) -> None:
        reader.hear("I like tea.")
        reader.hear("I no longer like tea.", "I like tea again.")
        assert reader.profile == {LIKES: "tea"}

    def test_what_was_never_said_is_not_taken_back(self, reader: Reader) -> None:
        reader.hear("I like jazz.")
        reader.hear("I no longer like tea.")
        assert reader.profile == {LIKES: "jazz"}

    def test_a_pet_gets_its_name(self, reader: Reader) -> None:
        reader.hear("I have a cat.")
        reader.hear("My cat is called Mochi.")
        assert reader.profile[PETS] == "Mochi (cat)"

    def test_no_allergies_is_a_value_until_there_is_one(self, reader: Reader) -> None:
        reader.hear("我没有过敏。")
        assert reader.profile[ALLERGIES] == "没有过敏"
        reader.hear("I'm allergic to peanuts.")
        assert reader.profile[ALLERGIES] == "peanuts"

    def test_leaving_a_company_empties_the_slot(self, reader: Reader) -> None:
        reader.hear("我在腾讯上班。")
        reader.hear("我从腾讯离职了。")
        assert (("work", "company"), "腾讯", None) in reader.changes

    def test_a_new_company_needs_no_empty_slot_in_between(self, reader: Reader) -> None:
        reader.hear("I work at Siemens.")
        reader.hear("I no longer work at Siemens. I work at Bosch now.")
        assert reader.changes[1:] == [(("work", "company"), "Siemens", "Bosch")]


def test_a_very_long_message_is_read_like_a_short_one(reader: Reader) -> None:
    reader.hear("Nothing much happened. " * 1_000 + "My name is Anna.")
    assert reader.profile == {NAME: "Anna"}


class TestTags:
    CONFIG = PipelineConfig(
        event_tags=(
            EventTagDefinition(name="emotion"),
            EventTagDefinition(name="future", description="goals and plans"),
            EventTagDefinition(name="weather"),
        )
    )

    def _tags(self, content: str, config: PipelineConfig = CONFIG) -> dict[str, str]:
        reader = Reader(config)
        tagging = asyncio.run(reader.processor.tag(reader.memo([message(content)])))
        return {tag.tag: tag.value for tag in tagging.tags}

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            ("I'm so tired today.", {"emotion": "tired"}),
            ("我今天很难过。", {"emotion": "难过"}),
            ("My goal is to run a marathon.", {"future": "run a marathon"}),
            ("我打算明年去冰岛旅行。", {"future": "明年去冰岛旅行"}),
            ("She is so tired.", {}),
            ("Are you tired?", {}),
            ("It is raining.", {}),
        ],
    )
    def test_moods_and_goals_are_tagged(self, content: str, expected: dict[str, str]) -> None:
        assert self._tags(content) == expected

    def test_chinese_tag_names_are_understood(self) -> None:
        config = PipelineConfig(event_tags=(EventTagDefinition(name="情绪"),))
        assert self._tags("我今天很难过。", config) == {"情绪": "难过"}

    def test_moods_make_no_bullets_unless_a_tag_asks_for_them(self, reader: Reader) -> None:
        assert reader.memo([message("I'm so tired today.")]).bullets == ()
        assert len(Reader(self.CONFIG).memo([message("I'm so tired today.")]).bullets) == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        " ",
        "\x00",
        "I" * 5000,
        "我" * 5000,
        "I like " * 800,
        "我喜欢、" * 800,
        "((((((((((" * 200,
        '"' * 999,
        "《" * 999,
        "\ud83d",
        "<a>" * 900,
    ],
    ids=range(12),
)
def test_odd_text_is_survived_quickly(content: str) -> None:
    processor = RuleProcessor(PipelineConfig())

    async def run() -> None:
        async with asyncio.timeout(5):
            await processor.summarise(batch([message(content)]), ())

    asyncio.run(run())


def test_values_of_a_slot_that_holds_one_come_in_the_order_they_were_said(reader: Reader) -> None:
    texts = ("I live in Lyon.", "I live in Oslo.", "I live in Lyon.")
    assert [candidate.memo for candidate in reader.candidates(*texts)] == ["Oslo", "Lyon"]
    assert [candidate.memo for candidate in reader.candidates(*texts[:2])] == ["Lyon", "Oslo"]


def test_what_is_taken_back_because_its_opposite_was_said_is_inferred(reader: Reader) -> None:
    memo = reader.memo([message("I hate tea.", message_id="m1")])
    *contrary, said = asyncio.run(reader.processor.extract(memo, ())).candidates
    taken_back = next(candidate for candidate in contrary if candidate.sub_topic == "likes")
    assert all(candidate.retracts and candidate.assertion == "inferred" for candidate in contrary)
    assert (taken_back.sub_topic, taken_back.memo, taken_back.retracts) == ("likes", "tea", True)
    assert (taken_back.assertion, said.assertion, said.sub_topic) == ("inferred", "said", "dislikes")
