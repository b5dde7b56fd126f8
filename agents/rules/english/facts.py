"""English rules for facts that have no slot in a profile: where one works, what one owns, can and usually does."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re
from typing import Final

from agents.rules import slots
from agents.rules.english import values, words
from agents.rules.english.parts import ADVERBS, END, MANY, NO_MORE, PLACE
from agents.rules.rulebook import Give, Rule

_WHAT: Final = "|".join(sorted(map(re.escape, words.BELONGINGS), key=len, reverse=True))


def _work_rules() -> tuple[Rule, ...]:
    elsewhere = rf"(?!(?:the )?(?:{words.INDUSTRIES}|[A-Z]{{2,3}})\b)"
    return (
        Rule(
            "place of work",
            rf"I {ADVERBS}(?:work|am working|have been working)(?: as [\w\- ]{{2,30}})? in {elsewhere}{PLACE}(?!,? (?:department|team|industry|sector))|my office is in {PLACE.replace('<place>', '<second>')}",
            (Give(slots.WORK_PLACE, "{place}", values.place), Give(slots.WORK_PLACE, "{second}", values.place)),
        ),
        Rule(
            "no longer works there",
            rf"I {ADVERBS}(?:no longer work|do not work(?= .*{NO_MORE})) in {elsewhere}{PLACE}",
            (Give(slots.WORK_PLACE, "{place}", values.place, retracts=True),),
        ),
        Rule(
            "place of the company",
            rf"(?:my|our) company(?:'s (?:office|headquarters))? is (?:based |located )?in {PLACE}",
            (Give(slots.COMPANY_PLACE, "{place}", values.place),),
        ),
        Rule(
            "duties",
            rf"I am {ADVERBS}(?:responsible for|in charge of) (?P<duty>.+)$",
            (Give(slots.DUTIES, "{duty}", values.duty),),
        ),
    )


def _thing_rules() -> tuple[Rule, ...]:
    things = rf"(?:{words.POSSESSIONS})"
    return (
        Rule(
            "belongings",
            rf"my (?:new |current )?(?P<what>{_WHAT}) is (?P<thing>an? (?:[\w\-]+ ){{0,3}}[\w\-]+|(?-i:[A-Z][\w\-]+)(?: [\w\-]+){{0,3}}){END}",
            (Give(("belongings", "{what}"), "{thing}", values.make),),
            names=words.BELONGINGS,
        ),
        Rule(
            "has",
            rf"I {ADVERBS}(?:have|own|have got) (?P<thing>(?:an?|{MANY}) (?:\w+ )?{things}s?){END}",
            (Give(slots.POSSESSIONS, "{thing}", values.counted),),
        ),
        Rule(
            "has not",
            rf"I {ADVERBS}(?:do not (?:have|own)|have no|no longer (?:have|own)|sold my|have sold my) (?:an? |any )?(?P<thing>{things})(?:{NO_MORE})?{END}",
            (Give(slots.POSSESSIONS, "{thing}", retracts=True),),
        ),
        Rule(
            "pet gone",
            rf"(?:I|we) {ADVERBS}(?:no longer (?:have|own)|do not have(?= .*{NO_MORE})|gave away|had to give away) (?:an? |any |my |our )?(?P<pet>{words.PETS})s?\b|(?:my|our) (?P<gone>{words.PETS}) (?:has )?(?:died|passed away|ran away|was put down)\b",
            (Give(slots.PETS, "{pet}", retracts=True), Give(slots.PETS, "{gone}", retracts=True)),
        ),
        Rule(
            "can",
            rf"I {ADVERBS}(?:can|know how to|am able to) (?:also |already )?(?P<ability>{words.ABILITIES}){END}",
            (Give(slots.ABILITIES, "{ability}"),),
        ),
        Rule(
            "cannot",
            rf"I {ADVERBS}(?:cannot|can not|do not know how to|never learned (?:how )?to|never learnt (?:how )?to) (?P<ability>{words.ABILITIES})(?: at all)?{END}",
            (Give(slots.ABILITIES, "{ability}", retracts=True),),
        ),
        Rule(
            "routine",
            rf"I (?P<habit>(?:always|usually|often|rarely|never|seldom|hardly ever) (?:{words.ROUTINES})(?: (?:at|around|before|after) (?:about )?\d{{1,2}}(?::\d\d)? ?(?:am|pm|o'clock)?)?|(?:get up|wake up|go to bed) (?:at|around|before|after) (?:about )?\d{{1,2}}(?::\d\d)? ?(?:am|pm|o'clock)?(?: every (?:day|morning|night))?)(?: (?:every|each) \w+)?{END}",
            (Give(slots.HABITS, "{habit}"),),
        ),
    )


RULES: Final = (*_work_rules(), *_thing_rules())
