"""English rules about who the user is: name, age, home, work, education."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

from typing import Final

from agents.rules import slots
from agents.rules.english import values, words
from agents.rules.english.parts import (
    ADVERBS,
    AT,
    DATE,
    END,
    NAME,
    NO_MORE,
    NOW,
    ORGANISATION,
    PLACE,
    TITLE,
    WHEN_EXACTLY,
    WORD,
)
from agents.rules.rulebook import Give, Rule

_FROM: Final = PLACE.replace("(?P<place>", "(?:")


def _person_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "name",
            rf"my (?:full |first |real |given |actual )?name is (?:actually |really |now )?{NAME}",
            (Give(slots.NAME, "{name}", values.named),),
        ),
        Rule(
            "name, small letters",
            rf"my (?:full |first |real )?name is (?P<name>(?-i:[a-z][a-z'\-]+)){END}",
            (Give(slots.NAME, "{name}", values.named),),
        ),
        Rule(
            "name in a greeting",
            rf"(?:I am|this is) (?!(?:{words.DEMONYMS})\b){NAME}(?:{END}| from\b| by the way\b| and\b)",
            (Give(slots.NAME, "{name}", values.named),),
            greeting_only=True,
        ),
        Rule(
            "nickname",
            rf"(?:you can |you may |please |just |everyone |everybody |people |my friends |friends |most people |they (?:all )?)*calls? me (?:just )?{NAME}(?:{END}| for short| instead)"
            rf"|I go by {NAME.replace('<name>', '<other>')}",
            (Give(slots.NICKNAME, "{name}", values.named), Give(slots.NICKNAME, "{other}", values.named)),
        ),
        Rule(
            "age",
            rf"I (?:am|(?:just |have just |recently )*turned|will be) {ADVERBS}(?P<age>[1-9]\d?|1[01]\d)(?: years? old|{END}| (?:today|last week|this week|last month|this month|this year)\b)|I (?:just |have just |recently )*turned (?P<turned>[1-9]\d?|1[01]\d){WHEN_EXACTLY}{END}|I am an? (?P<other>[1-9]\d?)[- ]year[- ]old\b|my age is (?P<third>\d{{1,3}}){END}",
            (
                Give(slots.AGE, "{age}"),
                Give(slots.AGE, "{turned}"),
                Give(slots.AGE, "{other}"),
                Give(slots.AGE, "{third}"),
            ),
        ),
        Rule(
            "age in decades",
            r"I am in my (?P<age>(?:early |mid[- ]|late )?(?:twenties|thirties|forties|fifties|sixties|seventies|20s|30s|40s|50s|60s|70s))\b",
            (Give(slots.AGE, "{age}"),),
        ),
        Rule(
            "birthday",
            rf"(?:my birthday is|my date of birth is|I was born)(?: on| in)? {DATE}",
            (Give(slots.BIRTHDAY, "{date}"),),
        ),
        Rule(
            "gender",
            rf"I am an? (?:\d+[- ]year[- ]old )?(?P<gender>woman|man|girl|guy|lady|female|male|boy){END}|I am (?P<other>female|male|non-binary|nonbinary){END}",
            (Give(slots.GENDER, "{gender}"), Give(slots.GENDER, "{other}")),
        ),
        Rule(
            "location",
            rf"(?:I|we) (?:have )?{ADVERBS}(?:live in|am living in|lived in(?= .* (?:all my life|since))|am based in|reside in|moved (?:back |over |here |down |up )?(?:from {_FROM} )?to|have moved (?:back )?(?:from {_FROM} )?to|relocated (?:from {_FROM} )?to|settled (?:down )?in) {PLACE}",
            (Give(slots.LOCATION, "{place}", values.place),),
        ),
        Rule(
            "location, small place",
            rf"I {ADVERBS}(?:live|am living) in (?P<place>an? (?:\w+ )?(?:town|village|suburb|city)(?: (?:near|in|outside|north of|south of) {WORD}(?: {WORD})?)?){END}",
            (Give(slots.LOCATION, "{place}"),),
        ),
        Rule(
            "location left",
            rf"I {ADVERBS}(?:no longer live in|do not live in(?= .*{NO_MORE})) {PLACE}",
            (Give(slots.LOCATION, "{place}", values.place, retracts=True),),
        ),
        Rule(
            "left",
            rf"I (?:have )?{ADVERBS}left {PLACE}{WHEN_EXACTLY}{END}|(?:I|we) (?:have )?{ADVERBS}moved (?:away |out )?from {PLACE.replace('<place>', '<from>')}",
            (
                Give(slots.LOCATION, "{place}", values.place, retracts=True, if_known=True),
                Give(slots.LOCATION, "{from}", values.place, retracts=True, if_known=True),
                Give(slots.COMPANY, "{place}", values.place, retracts=True, if_known=True),
            ),
        ),
        Rule(
            "hometown",
            rf"I (?:am|come) {ADVERBS}(?:originally )?from {PLACE}{END}|I (?:was born|grew up|was raised|was born and raised) in {PLACE.replace('<place>', '<other>')}|my home ?town is {PLACE.replace('<place>', '<third>')}",
            (
                Give(slots.HOMETOWN, "{place}", values.place),
                Give(slots.HOMETOWN, "{other}", values.place),
                Give(slots.HOMETOWN, "{third}", values.place),
            ),
        ),
        Rule(
            "nationality",
            rf"I am {ADVERBS}(?:an? )?(?P<nationality>(?-i:{words.DEMONYMS}))(?:{END}| and\b| but\b| citizen\b)",
            (Give(slots.NATIONALITY, "{nationality}"),),
        ),
        Rule(
            "languages",
            rf"I {ADVERBS}(?:speak|can speak|am fluent in|know how to speak) (?:fluent |native |a little |some )?(?P<languages>(?:{words.LANGUAGES})(?:(?:,? and |, |,? as well as )(?:a little |some )?(?:{words.LANGUAGES}))*)\b",
            (Give(slots.LANGUAGES, "{languages}", values.items),),
        ),
        Rule(
            "native language",
            rf"my (?:native language|mother tongue|first language) is (?P<language>{words.LANGUAGES})\b",
            (Give(slots.LANGUAGES, "{language}"),),
        ),
        Rule(
            "marital status",
            rf"I (?:am|got|have been) {ADVERBS}(?P<status>married(?! to (?:my|the) (?:work|job))|divorced|widowed|(?<=am )single(?= again\b| now\b|{END})|engaged(?= to\b|{END}))(?! (?:men|people|lives?)\b)",
            (Give(slots.MARITAL_STATUS, "{status}"),),
        ),
        Rule(
            "not married",
            r"I (?:am|have) (?P<status>not married|never been married|never married)\b",
            (Give(slots.MARITAL_STATUS, "{status}"),),
        ),
        Rule(
            "in a couple",
            rf"I {ADVERBS}(?:have|have got|got|found) an? (?:new |lovely |wonderful )?(?P<who>girlfriend|boyfriend)\b(?:{NOW}{END}| (?:called|named|and)\b)",
            (Give(slots.MARITAL_STATUS, "has a {who}"),),
        ),
        Rule(
            "personality",
            rf"I (?:am|consider myself) {ADVERBS}(?:(?:very|pretty|rather|a bit|a little|an?|somewhat|fairly|so|naturally) )*(?P<trait>{words.PERSONALITIES})\b(?: person)?",
            (Give(slots.PERSONALITY, "{trait}"),),
        ),
        Rule(
            "email",
            r"my e-?mail(?: address)? is (?P<email>[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+)",
            (Give(slots.EMAIL, "{email}"),),
        ),
        Rule(
            "phone",
            r"my (?:phone|mobile|cell)(?: phone)?(?: number)? is (?P<phone>\+?[\d][\d \-()]{5,18}\d)",
            (Give(slots.PHONE, "{phone}"),),
        ),
    )


def _work_rules() -> tuple[Rule, ...]:
    title, company = slots.TITLE, slots.COMPANY
    return (
        Rule(
            "occupation",
            rf"I am {ADVERBS}(?:working as )?(?=an? ){TITLE}(?!'s?\b|s\b| of (?:my|our)\b){AT}",
            (Give(title, "{title}", values.occupation), Give(company, "{company}", values.place)),
        ),
        Rule(
            "works as",
            rf"I (?:have been |{ADVERBS})(?:work|working|am working|worked|started(?: working| (?:a |my )?(?:new )?(?:job|position|role))?|began working|have started (?:a |my )?(?:new )?(?:job|position|role))(?: (?:in|at|for) (?:an? |the )?[\w' ]{{2,30}}?)? as (?!if\b|though\b){TITLE}{AT}",
            (Give(title, "{title}", values.occupation), Give(company, "{company}", values.place)),
        ),
        Rule(
            "new title",
            rf"I (?:{ADVERBS}|have |was |got |have been )*(?:became|become|been promoted to|promoted to|got a job as|got a new job as|found a job as|have a job as|have been hired as|hired as|switched to being|retrained as) {TITLE}{AT}",
            (Give(title, "{title}", values.occupation), Give(company, "{company}", values.place)),
        ),
        Rule(
            "job title",
            rf"my (?:job|profession|occupation|job title|new job|new title) is (?:being |now |to be )*{TITLE}{AT}",
            (Give(title, "{title}", values.occupation), Give(company, "{company}", values.place)),
        ),
        Rule(
            "company",
            rf"I {ADVERBS}(?:work|am working|have been working|started(?: working| a new job)?|start work|have started(?: working| a new job)?|got a (?:new )?job|am employed) (?:at|for|with) {ORGANISATION}(?: as {TITLE})?",
            (Give(company, "{company}", values.place), Give(title, "{title}", values.occupation)),
        ),
        Rule(
            "joined",
            rf"I (?:have )?{ADVERBS}joined {ORGANISATION}(?: as {TITLE})?(?!\w)(?! (?:and|in) )",
            (Give(company, "{company}", values.place), Give(title, "{title}", values.occupation)),
        ),
        Rule(
            "left company",
            rf"I {ADVERBS}(?:left my job at|quit(?: my job at)?|resigned from|no longer work (?:at|for)|do not work (?:at|for)(?= .*{NO_MORE})) {ORGANISATION}",
            (Give(company, "{company}", values.place, retracts=True),),
        ),
        Rule(
            "industry",
            rf"I {ADVERBS}(?:work|am working|am|have been working) (?:in|in the field of) (?:the )?(?P<industry>{words.INDUSTRIES})\b(?! (?:of|school|class|trouble)\b)",
            (Give(slots.INDUSTRY, "{industry}"),),
        ),
        Rule(
            "industry is",
            rf"my (?:industry|field|line of work) is (?P<industry>{words.INDUSTRIES})\b",
            (Give(slots.INDUSTRY, "{industry}"),),
        ),
        Rule(
            "work status",
            rf"I am {ADVERBS}(?P<status>unemployed|retired|self-employed|between jobs|out of work|job[- ]hunting|looking for (?:a )?(?:new )?(?:job|work)|on (?:maternity|paternity|parental) leave)\b(?!\s+for (?:my|him|her)\b)",
            (Give(slots.WORK_STATUS, "{status}"),),
        ),
        Rule(
            "works from home",
            rf"I {ADVERBS}work (?P<status>from home|remotely|part[- ]time|full[- ]time|freelance|night shifts)\b",
            (Give(slots.WORK_STATUS, "{status}"),),
        ),
        Rule(
            "student",
            rf"I am {ADVERBS}an? (?P<status>(?:\w+[- ]){{0,3}}student){END}|I am an? (?P<other>(?:\w+[- ]){{0,3}}student) (?:at|of) ",
            (Give(slots.STUDIES, "{status}"), Give(slots.STUDIES, "{other}")),
        ),
        Rule(
            "school",
            rf"I (?:{ADVERBS}(?:study|studied|go to|went to|attend|attended|graduated from)|am {ADVERBS}(?:studying|an? (?:\w+[- ]){{0,3}}student))(?: [\w ]{{2,40}}?)?(?: at| from|(?<=to)|(?<=attend)|(?<=from)) (?P<company>(?:the )?(?:{WORD} (?:of |and )?){{0,5}}(?-i:University|College|Institute|School|Academy|Polytechnic)(?: of(?: {WORD}){{1,4}})?)",
            (Give(slots.SCHOOL, "{company}"),),
        ),
        Rule(
            "major",
            rf"(?:I (?:{ADVERBS}(?:study|majored in|major in|studied)|am {ADVERBS}(?:studying|majoring in))|my major is) (?P<major>[\w&\- ]+?)(?: (?:at|in my|as my) .*|{END})",
            (Give(slots.MAJOR, "{major}", values.subject),),
        ),
    )


RULES: Final = (*_person_rules(), *_work_rules())
