"""Chinese rules for facts that have no slot in a profile: where one works, what one owns, can and usually does."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

from typing import Final

from agents.rules import slots
from agents.rules.chinese import values, words
from agents.rules.chinese.parts import ADVERBS, END, HAN
from agents.rules.rulebook import Give, Rule

_WHERE: Final = rf"(?:{words.PLACES})(?:(?!的|公司|做|当|市场|这边|那边|工作|上班){HAN}){{0,6}}?"
_WHAT: Final = "|".join(sorted(words.BELONGINGS, key=lambda word: (-len(word), word)))
_PETS: Final = rf"(?P<pet>{words.PETS})"


def _work_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "place of work",
            rf"我{ADVERBS}(?:人)?在(?P<place>{_WHERE})(?:这边|那边)?(?:的公司)?(?:工作|上班|打拼|打工|办公)|我{ADVERBS}(?:工作|上班)在(?P<second>{_WHERE})$|我的?(?:工作地点|办公地点|上班地点)(?:是|在)(?P<third>{_WHERE})$",
            (
                Give(slots.WORK_PLACE, "{place}", values.place),
                Give(slots.WORK_PLACE, "{second}", values.place),
                Give(slots.WORK_PLACE, "{third}", values.place),
            ),
        ),
        Rule(
            "place of the company",
            rf"我们?(?:的)?公司(?:的?(?:总部|地址|办公室))?(?:就)?(?:是在|在|位于)(?P<place>{_WHERE})$",
            (Give(slots.COMPANY_PLACE, "{place}", values.place),),
        ),
        Rule(
            "duties",
            rf"我{ADVERBS}(?:主要|平时|在公司里?|专门)*负责(?:的(?:是|工作是))?(?P<duty>[^你他她]{{2,20}})$",
            (Give(slots.DUTIES, "{duty}", values.phrase),),
        ),
        Rule(
            "any job title",
            r"我的?(?:职位|岗位|职务|头衔|职称)(?:就)?(?:是|为)(?:一?[名个位])?(?P<title>[\u4e00-\u9fffA-Za-z]{2,12})$",
            (Give(slots.TITLE, "{title}", values.title),),
        ),
        Rule(
            "line of work",
            rf"我{ADVERBS}是(?:做|搞|干)(?P<line>{HAN}{{2,8}}?)(?:这一?行|行业|工作|生意)?的$",
            (Give(slots.LINE_OF_WORK, "{line}", values.item),),
        ),
    )


def _thing_rules() -> tuple[Rule, ...]:
    has = rf"我(?:家|们家)?{ADVERBS}"
    count = r"(?:一?[个张本辆套台把架份])?"
    return (
        Rule(
            "belongings",
            rf"我的(?P<what>{_WHAT})(?:就)?是(?P<thing>[^你他她]{{2,16}})$",
            (Give(("belongings", "{what}"), "{thing}", values.make),),
            names=words.BELONGINGS,
        ),
        Rule(
            "has",
            rf"{has}(?:有|买了|考了|拿到了?){count}(?P<thing>{words.POSSESSIONS})(?:了)?$",
            (Give(slots.POSSESSIONS, "{thing}"),),
        ),
        Rule(
            "has not",
            rf"{has}(?:没有|没){count}(?P<thing>{words.POSSESSIONS})(?:了)?$|{has}把(?P<sold>{words.POSSESSIONS})卖(?:掉)?了$",
            (
                Give(slots.POSSESSIONS, "{thing}", retracts=True),
                Give(slots.POSSESSIONS, "{sold}", retracts=True),
            ),
        ),
        Rule(
            "pet gone",
            rf"{has}(?:不养|没养|没有|不再养)(?:{HAN}{{0,2}}?){_PETS}了$|我们?家?的?{_PETS.replace('<pet>', '<gone>')}(?:去世|走丢|丢|送人|过世|没)了$",
            (Give(slots.PETS, "{pet}", retracts=True), Give(slots.PETS, "{gone}", retracts=True)),
        ),
        Rule(
            "can",
            rf"我{ADVERBS}会(?:一点|点|一些)?(?P<ability>{words.ABILITIES}){END}",
            (Give(slots.ABILITIES, "{ability}"),),
        ),
        Rule(
            "cannot",
            rf"我{ADVERBS}(?:完全|根本|一点)*(?:不|不太|不怎么|没学)会(?P<ability>{words.ABILITIES}){END}",
            (Give(slots.ABILITIES, "{ability}", retracts=True),),
        ),
        Rule(
            "routine",
            rf"我{ADVERBS}(?P<habit>(?:每天|每晚|每周末?|每个?月|经常|常常|总是|从不|从来不|很少|偶尔|习惯(?:了)?)(?:都|会|要|是|早上|晚上|中午|下午|在家|自己|一个人|[早晚]?上?[一二三四五六七八九十\d]{{1,2}}点半?(?:多|左右|以后|之后)?(?:才|就)?)*(?:{words.ROUTINES}))(?:的|了)?$",
            (Give(slots.HABITS, "{habit}"),),
        ),
    )


RULES: Final = (*_work_rules(), *_thing_rules())
