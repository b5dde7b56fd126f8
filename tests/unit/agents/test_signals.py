"""Every word is found, what only looks like one is not, and neither much text nor odd text takes long."""

import re
import time

import msgspec
import pytest

from agents.rules.facts import wishes
from agents.signals import MAX_CHARACTERS, SignalDetector, shipped_words
from benchmarks.signals import ALL, ANY, Labelled, labelled, sample, scores, speeds
from schemas.flushes import Signals
from schemas.pipeline import Language, SignalWords
from tests.unit.rules import cases_en, cases_facts, cases_zh
from tests.unit.rules.conftest import message

CHINESE = {
    "identity": "我是 我叫 我姓 我的名字",
    "location": "我在 我住 我工作在 我们公司在 坐标",
    "relationship": "我老板 我同事 我老婆 我老公 我女朋友 我男朋友 我爸 我妈 我儿子 我女儿",
    "work": "我们公司 我负责 我的工作 我是做 我的职位",
    "possession": "我的车 我的房 我的电脑 我的手机",
    "state": "我有 我没有 我会 我不会",
    "explicit": "我喜欢 我偏好 我习惯 我倾向于",
    "dislike": "我不喜欢 我讨厌 我不想 别给我 不要",
    "style_request": "简短点 详细点 直接说 说重点 不用解释 解释一下",
    "time": "早上 晚上 周末 工作日 以后 每次 总是",
    "frequency": "经常 很少 从不 一直 偶尔",
}
ENGLISH = {
    "identity": ["I'm", "I am", "my name is", "call me", "I was born", "I go by"],
    "location": ["I live in", "I moved to", "I'm from", "I'm based in", "we live", "my hometown"],
    "relationship": ["my wife", "my boss", "our kids", "my best friend", "I have two sisters", "my mother-in-law"],
    "work": ["I work at", "I work as", "my job", "our company", "I'm a nurse", "I'm in charge", "I graduated"],
    "possession": ["my car", "my phone", "I own a", "I drive a", "I have a dog"],
    "state": ["I have", "I can't", "I don't have", "I'm allergic", "I speak", "I can play", "I've got"],
    "explicit": ["I like", "I love", "I prefer", "I'd rather", "I'm into", "my favourite", "I tend to"],
    "dislike": ["I hate", "I don't like", "I can't stand", "don't use", "stop sending", "no emojis", "I'm not a fan"],
    "style_request": ["keep it short", "just tell me", "be more concise", "get to the point", "answer in English"],
    "time": ["in the mornings", "on weekends", "every morning", "from now on", "before work", "on Fridays"],
    "frequency": ["I always", "I rarely", "I never", "sometimes I", "once a week", "I usually", "every day"],
}
ONE_BY_ONE = [
    *((signal, word) for signal, words in CHINESE.items() for word in words.split()),
    *((signal, word) for signal, words in ENGLISH.items() for word in words),
]


@pytest.fixture(scope="module")
def detector() -> SignalDetector:
    return SignalDetector()


def kinds(signals: Signals) -> tuple[str, ...]:
    return (*signals.facts, *signals.preferences)


@pytest.mark.parametrize(("signal", "word"), ONE_BY_ONE, ids=[word for _, word in ONE_BY_ONE])
def test_word_is_found_wherever_it_stands(detector: SignalDetector, signal: str, word: str) -> None:
    for text in (word, f"{word}.", f"({word})", f"嗯，{word}。", f"OK, {word} !", word.upper(), word.replace("'", "’")):
        assert signal in kinds(detector.detect(text)), text


@pytest.mark.parametrize("language", ["zh", "en"])
def test_every_shipped_word_is_found(detector: SignalDetector, language: Language) -> None:
    words = [word for group in shipped_words(language) for word in group.words]
    assert len(words) > 5000
    assert [word for word in words if not detector.detect(word)] == []


@pytest.mark.parametrize(
    ("text", "facts", "preferences"),
    [
        (
            "我在杭州工作，老板姓张，平时喜欢简短的回复",
            ("location", "relationship"),
            ("explicit", "style_request"),
        ),
        ("我在苏州上班，以后用英文回答", ("location",), ("style_request", "time")),
        ("以后用英文回答，我在苏州上班", ("location",), ("style_request", "time")),
        ("我不喜欢香菜", (), ("dislike",)),
        ("我今年三十四岁，上个月搬到了厦门", ("identity", "location"), ()),
        ("I'm Tom, I live in Leeds with my wife.", ("identity", "location", "relationship"), ()),
        ("With my wife I live in Leeds. I'm Tom, I'm Tom!", ("identity", "location", "relationship"), ()),
        ("I hate olives, so keep it short.", (), ("dislike", "style_request")),
        ("I'm allergic to nuts", ("state",), ()),
        ("On weekends I usually read", (), ("time", "frequency")),
        ("我叫Tom, I work at 阿里，别给我打电话", ("identity", "work"), ("dislike",)),
        ("每天I work at home，周末不上班", ("work",), ("time", "frequency")),
        ("I've started to like olives", (), ("explicit",)),
        ("I no longer like tea", (), ("dislike",)),
        ("I don't hate mornings any more", (), ("dislike",)),
        ("I've gone off coffee", (), ("dislike",)),
        ("I eat pork again", (), ("explicit",)),
        ("I left Berlin last year", ("location", "work"), ()),
        ("I joined Harbour Analytics as a data scientist", ("work",), ()),
        ("I started a new job as a surgeon", ("work",), ()),
        ("I have four children now", ("relationship",), ()),
        ("We broke up", ("relationship",), ()),
        ("我现在喜欢加班了", (), ("explicit",)),
        ("我又爱上了喝茶", (), ("explicit",)),
        ("我不再喜欢喝茶了", (), ("dislike",)),
        ("我不讨厌香菜了", (), ("dislike",)),
        ("我现在不吃辣了", (), ("dislike",)),
        ("用表情", (), ("style_request",)),
        ("我上周离职了", ("work",), ()),
        ("", (), ()),
        ("   \n", (), ()),
        ("Could you sort this list? 谢谢！", (), ()),
    ],
)
def test_signals_of_a_message_in_their_order(
    detector: SignalDetector, text: str, facts: tuple[str, ...], preferences: tuple[str, ...]
) -> None:
    found = detector.detect(text)
    assert (found.facts, found.preferences) == (facts, preferences)
    assert bool(found) == bool(facts or preferences)


TASTE = re.compile("Likes |Dislikes |No longer |Favorite |Eats |喜欢|不喜欢|不再|最喜欢|不吃|不喝")
TASTES = [
    content
    for cases in (cases_facts.CHINESE, cases_facts.ENGLISH, dict.fromkeys((*cases_zh.STATEMENTS, *cases_en.STATEMENTS)))
    for content in cases
    if any(
        text.startswith(
            (
                "Likes ",
                "Dislikes ",
                "No longer ",
                "Favorite ",
                "Eats ",
                "喜欢",
                "不喜欢",
                "不再",
                "最喜欢",
                "不吃",
                "不喝",
            )
        )
        for text in (wish.text for wish in wishes.extract([message(content)], (), habits=False))
    )
]


def test_every_taste_that_the_rules_read_is_signalled_as_a_preference(detector: SignalDetector) -> None:
    assert len(TASTES) > 50
    assert [content for content in TASTES if not detector.detect(content).preferences] == []


@pytest.mark.parametrize(
    "text",
    [
        *("要不要加个缓存？", "想不想听个笑话", "我是不是说错了", "我有没有说过", "我会不会太敏感", "我是说第二个"),
        *("早上好", "晚上好，在吗", "今天晚上吃什么", "今晚有空", "昨天早上下雨了", "祝你周末愉快", "不要紧"),
        *("我有个问题", "我有点没明白", "我在想怎么改", "我会试试的", "我叫什么", "我在哪儿下载", "我的意思是第一个"),
        *("五分钟以后提醒", "他总是加班", "程序一直报错", "解释一下什么是区块链", "他说我是骗子", "你平时喜欢什么"),
        *("I have to go", "I have a question", "I'm going to try", "I am not sure", "I’m sorry", "good morning"),
        *(
            "Am I wrong?",
            "do I have to pay",
            "Where should I live",
            "what do I like",
            "I can't open it",
            "I'd like to know",
        ),
        *("My question is simple", "I have no idea", "he said I am late", "Don't worry", "Never mind", "call me later"),
        *(
            "I left my keys",
            "I left it open",
            "we joined the two tables",
            "I joined in",
            "他现在住在北京",
            "老用表情干嘛",
        ),
        *("immune", "Kim am", "dreamy wifely", "semicall me", "I cant", "my_wife = 1", "alpha my2 beta"),
    ],
)
def test_what_only_looks_like_a_word(detector: SignalDetector, text: str) -> None:
    assert detector.detect(text) == Signals()


@pytest.mark.parametrize(
    "foreign",
    [
        *("“{}”", '"{}"', "「{}」", "『{}』", "‘{}’", "'{}'", "`{}`", "```\n{}\n```", "```py\n{}"),
        *("> {}\n", "  > {}", "前一行\n> {}\n后一行", "“他说：{}。”", "https://a.org/{}/", "看 www.a.org/?q={}&x=1"),
    ],
)
@pytest.mark.parametrize("own", ["我住在长沙", "I live in York"])
def test_what_is_passed_on_is_not_the_authors(detector: SignalDetector, foreign: str, own: str) -> None:
    word = own.replace(" ", "-") if "a.org" in foreign else own
    assert detector.detect(foreign.format(word)) == Signals()
    assert detector.detect(f"{own}。{foreign.format(word)}").facts == ("location",)


@pytest.mark.parametrize(
    "text",
    [
        *("“我住在长沙", "I live in York, it's mine, 5' wide", 'a 5" screen, I live in York', "a > b, I live in York"),
        *("it’s so: I live in York, that’s all", "看https://a.org我住在长沙", "`x`我住在长沙`y`", "的士站 我住在长沙"),
    ],
)
def test_what_only_looks_passed_on_counts(detector: SignalDetector, text: str) -> None:
    assert "location" in detector.detect(text).facts


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("这家店周末开门吗", "周末我都在看店"),
        ("地铁总是这么挤？", "总是忘带伞"),
        ("Is the shop open on weekends?", "I'm open on weekends."),
    ],
)
def test_time_and_frequency_in_questions(detector: SignalDetector, question: str, statement: str) -> None:
    assert detector.detect(question) == Signals()
    assert detector.detect(f"{question}\n{statement}").preferences
    assert detector.detect("Can you keep it short in the mornings?").preferences == ("style_request",)
    assert detector.detect("Is it healthy that I work out in the mornings?").preferences == ("time",)


def test_a_longer_word_is_no_phrase_to_ignore(detector: SignalDetector) -> None:
    assert detector.detect("I have to leave") == Signals()
    assert detector.detect("I have two kids").facts == ("relationship",)
    assert detector.detect("给我一个例子") == Signals()
    assert detector.detect("给我妈推荐一款手机").facts == ("relationship",)


class TestExtension:
    def test_words_are_added(self) -> None:
        detector = SignalDetector(
            [SignalWords(signal="work", words=("搬砖", "My Gig")), SignalWords(signal="dislike", words=("搬砖",))]
        )
        assert detector.detect("天天搬砖").facts == ("work",)
        assert "dislike" in detector.detect("又在搬砖").preferences
        assert detector.detect("nice, MY GIG").facts == ("work",)
        assert detector.detect("enemy gig") == Signals()
        assert detector.detect("我住在长沙，I hate olives") == SignalDetector().detect("我住在长沙，I hate olives")

    def test_ignored_phrases_take_shipped_words(self) -> None:
        detector = SignalDetector([SignalWords(signal="identity", ignore=("我是歌手", "I'm Spartacus", "总是"))])
        assert detector.detect("我是歌手好看，I’m Spartacus") == Signals()
        assert detector.detect("我是厨师").facts == SignalDetector().detect("我是厨师").facts != ()
        assert detector.detect("总是") == Signals()

    def test_added_words_have_precedence(self) -> None:
        assert SignalDetector().detect("早上好") == Signals()
        assert SignalDetector([SignalWords(signal="time", words=("早上好",))]).detect("早上好").preferences == ("time",)

    def test_both_lists_of_a_group(self) -> None:
        detector = SignalDetector([SignalWords(signal="possession", words=("无人机",), ignore=("无人机场", ""))])
        assert detector.detect("大疆无人机").facts == ("possession",)
        assert detector.detect("无人机场很大") == Signals()


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("甲乙", "identity"),
        ("甲乙丙", "location"),  # the longer of two that begin together
        ("乙丙", "work"),
        ("丁乙丙", "state"),  # the longer of two that end together
        ("甲乙丙丁戊", "location relationship"),  # they overlap, neither lies in the other
        ("丁甲乙丙戊", "possession"),  # within it: two that begin together, two that end together
        ("丁甲乙丙", "location"),
        ("甲乙。乙丙", "identity work"),
    ],
)
def test_a_word_within_a_longer_one_is_part_of_it(text: str, facts: str) -> None:
    words = {
        "identity": ["甲乙"],
        "location": ["甲乙丙"],
        "work": ["乙丙"],
        "state": ["丁乙丙"],
        "relationship": ["丙丁戊"],
        "possession": ["丁甲乙丙戊"],
    }
    detector = SignalDetector([msgspec.convert({"signal": each, "words": words[each]}, SignalWords) for each in words])
    assert detector.detect(text).facts == tuple(facts.split())


@pytest.mark.parametrize("mark", ['"', "「", "'", ">", "http", "www."])
def test_a_mark_of_what_is_foreign_may_be_a_configured_word(mark: str) -> None:
    assert SignalDetector([SignalWords(signal="work", words=(mark,))]).detect(f"a {mark} b").facts == ("work",)
    assert SignalDetector().detect(f"a {mark} b") == Signals()


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("早上好吗？周末我去爬山。晚上吃什么？", True),  # the one in the middle
        ("早上好吗？周末去哪里？晚上吃什么？", False),
        ("早上好吗？周末给我推荐哪里呢？晚上吃什么？", True),
        ("周末早上晚上有什么好玩的吗？", False),
        ("周末早上晚上我有什么好玩的吗？", True),
        ("早上吃 3.5 克吗？", False),
        ("早上吃这个. 晚上可以吗？", True),  # the first sentence ends with the full stop
        ("好吗？周末", True),
    ],
)
def test_each_sentence_is_judged_by_itself(detector: SignalDetector, text: str, counts: bool) -> None:
    assert ("time" in detector.detect(text).preferences) is counts


def test_text_is_read_up_to_the_limit(detector: SignalDetector) -> None:
    filling = "好" * (MAX_CHARACTERS - 4)
    assert detector.detect(f"{filling}我叫李雷").facts == ("identity",)
    assert detector.detect(f"{filling}好好好好我叫李雷") == Signals()


ODD = {
    "words": "我是",
    "kinds": "我不喜欢我有时候总是早上",
    "masks": "要不要",
    "english words": "i am ",
    "opened quotes": "“我是a",
    "nested quotes": "「",
    "apostrophes": "'i am ",
    "apostrophes inside": "a'",
    "curly apostrophes": "‘’a i am",
    "double quotes": '"i am\n',
    "backticks": "`我是",
    "fences": "```我是``",
    "quoted lines": "> 我是\n",
    "blank": "   ",
    "addresses": "https://a我/",
    "letters": "h",
    "questions": "早上？",
    "times": "周末",
    "stops": ". always i ",
    "dots": "……..",
}


@pytest.mark.parametrize("unit", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("end", ["", "我是", "周末？"])
def test_no_text_takes_long(detector: SignalDetector, unit: str, end: str) -> None:
    def seconds(characters: int) -> float:
        text = unit * (2 * characters // len(unit))
        text = text[: characters - len(end)] + end
        started = time.process_time()
        detector.detect(text)
        return time.process_time() - started

    # Four times the text takes four times as long; where it grew with the square, sixteen times. Each pair is measured
    # in one go: what else the machine does slows either.
    pairs = ((seconds(MAX_CHARACTERS // 4), seconds(MAX_CHARACTERS)) for _ in range(20))
    assert any(whole < 8 * quarter + 0.005 for quarter, whole in pairs)


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize(("kind", "count"), [("none", 0), ("one", 1), ("many", 5)])
def test_speed(detector: SignalDetector, language: Language, kind: str, count: int) -> None:
    text = sample(language, kind)
    assert len(text) == 100
    assert len(kinds(detector.detect(text))) >= count
    assert speeds([text], detector.detect, rounds=10, messages=600)[0].best >= 30_000


@pytest.mark.parametrize("language", ["zh", "en"])
def test_quality_on_the_labelled_sentences(detector: SignalDetector, language: Language) -> None:
    sentences = labelled(language)
    assert len(sentences) >= 220
    assert len({sentence.text for sentence in sentences}) == len(sentences)
    assert 0.4 < sum(bool(sentence.signals) for sentence in sentences) / len(sentences) < 0.6
    for held_out in (False, True):
        table = scores([each for each in sentences if each.held_out is held_out], detector.detect)
        assert table[ANY].precision >= 0.9
        assert table[ANY].recall >= 0.9


def test_scores() -> None:
    sentences = [
        Labelled(text="a", facts=("work", "state"), preferences=("time",)),
        Labelled(text="b", facts=(), preferences=()),
        Labelled(text="c", facts=("work",), preferences=()),
    ]
    answers = {"a": Signals(facts=("work",)), "b": Signals(preferences=("time",)), "c": Signals()}
    table = scores(sentences, answers.__getitem__)
    assert (table[ANY].right, table[ANY].wrong, table[ANY].missed) == (1, 1, 1)
    assert (table[ALL].right, table[ALL].wrong, table[ALL].missed) == (1, 1, 3)
    assert (table["work"].precision, table["work"].recall) == (1.0, 0.5)
    assert table["work"].f1 == pytest.approx(2 / 3)
    assert (table["time"].precision, table["time"].recall, table["time"].f1) == (0.0, 0.0, 0.0)


LISTED = [
    "我是",
    "我叫",
    "我姓",
    "我的名字",
    "我在",
    "我住",
    "我工作在",
    "我们公司在",
    "坐标",
    "我老板",
    "我同事",
    "我老婆",
    "我老公",
    "我女朋友",
    "我男朋友",
    "我爸",
    "我妈",
    "我儿子",
    "我女儿",
    "我们公司",
    "我负责",
    "我的工作",
    "我是做",
    "我的职位",
    "我的车",
    "我的房",
    "我的电脑",
    "我的手机",
    "我有",
    "我没有",
    "我会",
    "我不会",
    "我喜欢",
    "我偏好",
    "我习惯",
    "我倾向于",
    "我不喜欢",
    "我讨厌",
    "我不想",
    "别给我",
    "不要",
    "简短点",
    "详细点",
    "直接说",
    "说重点",
    "不用解释",
    "解释一下",
    "早上",
    "晚上",
    "周末",
    "工作日",
    "以后",
    "每次",
    "总是",
    "经常",
    "很少",
    "从不",
    "一直",
    "偶尔",
]


@pytest.mark.parametrize("before", ["", "因为", "所以", "但是", "其实", "你好，"])
def test_a_word_counts_after_a_conjunction_too(before: str) -> None:
    detector = SignalDetector()
    assert [word for word in LISTED if not detector.detect(f"{before}{word}牛肉")] == []


@pytest.mark.parametrize("text", ["我不要辣", "我不要香菜", "我们不要香菜"])
def test_what_the_author_does_not_want_is_a_dislike(text: str) -> None:
    assert "dislike" in SignalDetector().detect(text).preferences
