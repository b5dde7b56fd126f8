"""How facts are worded, in both languages, and the category of each."""

# ruff: noqa: E501 - a table reads best with one line a phrase

from __future__ import annotations

import re
from typing import Final

from agents.processor import SlotName
from agents.rules import slots
from agents.rules.chinese import wording as zh
from agents.rules.chinese import words as zh_words
from agents.rules.english import parts as en_parts
from agents.rules.english import wording as en
from agents.rules.english import words as en_words
from agents.rules.facts.phrasebook import Phrase, Phrasebook
from agents.rules.rulebook import Finding
from schemas.facts import FactCategory

_ANYONE: Final[SlotName] = ("relationship", "*")
_FAVORITE: Final[SlotName] = ("interest", "*")
_BELONGING: Final[SlotName] = ("belongings", "*")

_STUDENT: Final = r".*(?:生|博士后|大[一二三四]|研[一二三]|高[一二三])"
_TRAIT: Final = r"夜猫子|路痴|社恐|社牛|[ieIE]人|拖延症|起床困难户|早起型|完美主义"
_NO_ALLERGY: Final = r"没有.*过敏|不过敏"
_RELATIVES: Final = r".*(?:女儿|儿子|孩子|宝宝|一儿一女|双胞胎)"
_SIBLINGS: Final = r".*(?:姐姐|妹妹|哥哥|弟弟)"
_ANIMALS: Final = rf"(?:.*(?:{zh_words.PETS})|一[只条]叫.+)"

CHINESE: Final = (
    Phrase(slots.NAME, "zh", "用户叫{value}"),
    Phrase(slots.SURNAME, "zh", "用户姓{value}"),
    Phrase(slots.NICKNAME, "zh", "用户的昵称是{value}"),
    Phrase(slots.AGE, "zh", "用户{value}", fits=r".+岁|是.+后", wording=zh.age),
    Phrase(slots.BIRTHDAY, "zh", "用户出生于{value}", fits=r"\d{4}年"),
    Phrase(slots.BIRTHDAY, "zh", "用户的生日是{value}"),
    Phrase(slots.GENDER, "zh", "用户是{value}", fits=r"[女男]生|[女男]孩子?|[女男]的?|[女男]性|[女男]人|妹子|小伙子"),
    Phrase(slots.LOCATION, "zh", "用户住在{value}", "用户不再住在{value}"),
    Phrase(slots.WORK_PLACE, "zh", "用户在{value}工作", "用户不再在{value}工作"),
    Phrase(slots.COMPANY_PLACE, "zh", "用户的公司在{value}"),
    Phrase(slots.HOMETOWN, "zh", "用户来自{value}"),
    Phrase(slots.LANGUAGES, "zh", "用户会说{value}"),
    Phrase(slots.EMAIL, "zh", "用户的邮箱是{value}"),
    Phrase(slots.PHONE, "zh", "用户的电话是{value}"),
    Phrase(slots.SCHOOL, "zh", "用户的学校是{value}"),
    Phrase(slots.MAJOR, "zh", "用户的专业是{value}"),
    Phrase(slots.PERSONALITY, "zh", "用户是{value}", fits=_TRAIT),
    Phrase(slots.PERSONALITY, "zh", "用户性格{value}"),
    Phrase(slots.SIBLINGS, "zh", "用户是{value}", fits=r"独生.+"),
    Phrase(slots.STUDIES, "zh", "用户是{value}", fits=_STUDENT),
    Phrase(slots.LINE_OF_WORK, "zh", "用户是做{value}的"),
    Phrase(slots.DIET, "zh", "用户{value}", "用户不再{value}", fits=r"是(?:素食主义者|素食者)", wording=zh.diet),
    Phrase(slots.TITLE, "zh", "用户是{value}"),
    Phrase(slots.COMPANY, "zh", "用户就职于{value}", "用户不再就职于{value}"),
    Phrase(slots.INDUSTRY, "zh", "用户从事{value}行业"),
    Phrase(slots.DUTIES, "zh", "用户负责{value}", wording=zh.own),
    Phrase(slots.WORK_STATUS, "zh", "用户目前{value}"),
    Phrase(_ANYONE, "zh", "用户的{called}{value}", fits=r"[姓叫].+", wording=zh.name),
    Phrase(slots.CHILDREN, "zh", "用户{value}", fits=r"没有?(?:孩子|小孩)"),
    Phrase(slots.CHILDREN, "zh", "用户有{value}", fits=_RELATIVES, wording=zh.person),
    Phrase(slots.SIBLINGS, "zh", "用户有{value}", fits=_SIBLINGS, wording=zh.person),
    Phrase(slots.PETS, "zh", "用户有{value}", fits=_ANIMALS, wording=zh.pet),
    Phrase(slots.PETS, "zh", "", "用户不再养{value}", wording=zh.kind_of_pet),
    Phrase(slots.MARITAL_STATUS, "zh", "用户{value}", fits=r"单身|未婚|已婚|离异|丧偶|已订婚|还?没有?(?:结婚|对象|女朋友|男朋友)|有(?:对象|女朋友|男朋友)"),
    Phrase(slots.HOUSEHOLD, "zh", "用户{value}", fits=r"(?:一个人|独自|自己|[和跟]).*(?:住|生活|居住|合租|同居)", wording=zh.own),
    Phrase(slots.ALLERGIES, "zh", "用户{value}", fits=_NO_ALLERGY),
    Phrase(slots.ALLERGIES, "zh", "用户对{value}过敏", "用户不再对{value}过敏"),
    Phrase(slots.CONDITIONS, "zh", "用户有{value}", fits=zh_words.CONDITIONS),
    Phrase(slots.POSSESSIONS, "zh", "用户有{value}", "用户没有{value}"),
    Phrase(_BELONGING, "zh", "用户的{called}是{value}", wording=zh.own),
    Phrase(slots.SMOKING, "zh", "用户{value}", fits=r".*烟", wording=zh.quits),
    Phrase(slots.ALCOHOL, "zh", "用户{value}", fits=r".*酒|滴酒不沾", wording=zh.quits),
    Phrase(slots.ABILITIES, "zh", "用户会{value}", "用户不会{value}"),
    Phrase(slots.SPORTS, "zh", "用户常{value}", wording=zh.ball),
    Phrase(slots.INSTRUMENTS, "zh", "用户会{value}", wording=zh.played),
    Phrase(slots.LEARNING, "zh", "用户在学{value}"),
    Phrase(slots.GOALS, "zh", "用户的目标是{value}", wording=zh.own),
    Phrase(slots.PLANS, "zh", "用户打算{value}", wording=zh.own),
    Phrase(slots.LIKES, "zh", "用户喜欢{value}", "用户不再喜欢{value}", wording=zh.own),
    Phrase(slots.DISLIKES, "zh", "用户不喜欢{value}", "用户不再讨厌{value}", wording=zh.own),
    Phrase(_FAVORITE, "zh", "用户最喜欢的{called}是{value}"),
    Phrase(slots.HOBBIES, "zh", "用户的爱好是{value}"),
    Phrase(slots.EXERCISE, "zh", "用户{value}", fits=rf"(?:每|一周).*(?:{zh_words.EXERCISES}).*"),
    Phrase(slots.HABITS, "zh", "用户{value}", fits=r"(?:每|经常|总是|一直|从不|从来不|很少|偶尔|习惯|常常).+", wording=zh.own),
    Phrase(slots.DIET, "zh", "", "用户现在{value}了", fits=r"[吃喝].+", wording=zh.eats),
    Phrase(slots.DIET, "zh", "用户{value}", "用户不再{value}", fits=r"(?:不(?!再|喜欢|会)|只|吃不了|喝不了|吃素|纯素|无糖饮食|低碳饮食|生酮饮食|清真).*"),
    Phrase(slots.CAREER_EVENT, "zh", "用户{value}", wording=zh.happened),
    Phrase(slots.MARRIAGE_EVENT, "zh", "用户{value}", wording=zh.happened),
    Phrase(slots.EDUCATION_EVENT, "zh", "用户{value}", wording=zh.happened),
    Phrase(slots.FAMILY_EVENT, "zh", "用户{value}", wording=zh.happened),
    Phrase(slots.HOME_EVENT, "zh", "用户{value}", wording=zh.happened),
)  # fmt: skip

_LET_GO: Final = r"(?:promoted|laid off|fired|made redundant)\b.*"

ENGLISH: Final = (
    Phrase(slots.NAME, "en", "User's name is {value}"),
    Phrase(slots.NICKNAME, "en", "User goes by {value}"),
    Phrase(slots.AGE, "en", "User is {value} years old", fits=r"\d+"),
    Phrase(slots.AGE, "en", "User is in their {value}"),
    Phrase(slots.BIRTHDAY, "en", "User was born in {value}", fits=r"\d{4}"),
    Phrase(slots.BIRTHDAY, "en", "User's birthday is {value}"),
    Phrase(slots.GENDER, "en", "User is {value}", fits=r"female|male|non-?binary"),
    Phrase(slots.GENDER, "en", "User is {value}", fits=r"an? (?:woman|man|girl|guy|lady|boy)", wording=en.one),
    Phrase(slots.LOCATION, "en", "User lives in {value}", "User no longer lives in {value}"),
    Phrase(slots.WORK_PLACE, "en", "User works in {value}", "User no longer works in {value}"),
    Phrase(slots.COMPANY_PLACE, "en", "User's company is in {value}"),
    Phrase(slots.HOMETOWN, "en", "User is from {value}"),
    Phrase(slots.NATIONALITY, "en", "User is {value}", fits=en_words.DEMONYMS),
    Phrase(slots.LANGUAGES, "en", "User speaks {value}"),
    Phrase(slots.EMAIL, "en", "User's email is {value}"),
    Phrase(slots.PHONE, "en", "User's phone number is {value}"),
    Phrase(slots.SCHOOL, "en", "User's school is {value}"),
    Phrase(slots.MAJOR, "en", "User's field of study is {value}"),
    Phrase(slots.STUDIES, "en", "User is {value}", fits=r"an? .*\bstudent", wording=en.one),
    Phrase(slots.MARITAL_STATUS, "en", "User has {value}", fits=r"never been married"),
    Phrase(slots.MARITAL_STATUS, "en", "User {value}", fits=r"has a (?:girlfriend|boyfriend|partner)"),
    Phrase(slots.MARITAL_STATUS, "en", "User is {value}", fits=r"(?:not |never )?married|divorced|widowed|single|engaged"),
    Phrase(slots.PERSONALITY, "en", "User is {value}", fits=en_words.PERSONALITIES),
    Phrase(slots.SIBLINGS, "en", "User is an {value}", fits=r"only child"),
    Phrase(slots.DIET, "en", "User is {value}", "User is no longer {value}", fits=r"vegetarian|vegan|pescatarian|lactose intolerant|gluten[- ](?:free|intolerant)"),
    Phrase(slots.DIET, "en", "User eats {value}", fits=r"no .+"),
    Phrase(slots.DIET, "en", "", "User eats {value} again", wording=en.eats),
    Phrase(slots.DIET, "en", "User {value}", fits=r"cannot eat .+"),
    Phrase(slots.WORK_STATUS, "en", "User is {value}", fits=r"unemployed|retired|self-employed|between jobs|out of work|job[- ]hunting|looking for .+|on .+ leave"),
    Phrase(slots.WORK_STATUS, "en", "User works {value}", fits=r"from home|remotely|part[- ]time|full[- ]time|freelance|night shifts"),
    Phrase(slots.DUTIES, "en", "User is responsible for {value}", wording=en.theirs),
    Phrase(slots.ALLERGIES, "en", "User is {value}", fits=r"not allergic to anything"),
    Phrase(slots.ALLERGIES, "en", "User has {value}", fits=r"no .*allergies", wording=en.small),
    Phrase(slots.ALLERGIES, "en", "User is allergic to {value}", "User is no longer allergic to {value}"),
    Phrase(slots.FAMILY_EVENT, "en", "User is {value}", fits=r"pregnant|expecting a baby"),
    Phrase(slots.TITLE, "en", "User is {value}", fits=r"an? .+", wording=en.one),
    Phrase(slots.COMPANY, "en", "User works at {value}", "User no longer works at {value}"),
    Phrase(slots.INDUSTRY, "en", "User works in the field of {value}"),
    Phrase(_ANYONE, "en", "User's {called} is {value}"),
    Phrase(slots.CHILDREN, "en", "User has {value}", fits=r".*\b(?:kids|children|sons?|daughters?|baby|toddler)", wording=en.one),
    Phrase(slots.SIBLINGS, "en", "User has {value}", fits=r".*\b(?:brothers?|sisters?|siblings)", wording=en.one),
    Phrase(slots.PETS, "en", "User has {value}", "User no longer has {value}", fits=rf"(?:no pets|.*\b(?:{en_words.PETS})s?|.+ called .+)", wording=en.pet),
    Phrase(slots.HOUSEHOLD, "en", "User lives {value}", wording=en.theirs),
    Phrase(slots.CONDITIONS, "en", "User has {value}", fits=f"(?i:{en_words.CONDITIONS})"),
    Phrase(slots.POSSESSIONS, "en", "User has {value}", "User does not have {value}", wording=en.one),
    Phrase(_BELONGING, "en", "User's {called} is {value}", wording=en.theirs),
    Phrase(slots.SMOKING, "en", "User {value}", fits=r".*smok(?:e|ing|es)\b.*", wording=en.does),
    Phrase(slots.ALCOHOL, "en", "User {value}", fits=r"(?:does not|never|quit|stopped|gave up) (?:drinks?|drinking|alcohol)\b.*", wording=en.does),
    Phrase(slots.ABILITIES, "en", "User can {value}", "User cannot {value}", wording=en.theirs),
    Phrase(slots.SPORTS, "en", "User plays {value}", fits=en_words.SPORTS),
    Phrase(slots.INSTRUMENTS, "en", "User plays the {value}"),
    Phrase(slots.LEARNING, "en", "User is learning {value}", wording=en.theirs),
    Phrase(slots.GOALS, "en", "User's goal is to {value}", wording=en.theirs),
    Phrase(slots.PLANS, "en", "User is planning {value}", fits=r"an? .+", wording=en.theirs),
    Phrase(slots.PLANS, "en", "User is {value}", fits=r"moving to .+", wording=en.theirs),
    Phrase(slots.PLANS, "en", "User plans to {value}", wording=en.theirs),
    Phrase(slots.LIKES, "en", "User likes {value}", "User no longer likes {value}", wording=en.theirs),
    Phrase(slots.DISLIKES, "en", "User dislikes {value}", "User no longer dislikes {value}", wording=en.theirs),
    Phrase(_FAVORITE, "en", "User's favorite {called} is {value}"),
    Phrase(slots.HOBBIES, "en", "User's hobby is {value}", wording=en.theirs),
    Phrase(slots.EXERCISE, "en", "User {value}", fits=r".+ (?:every|once|twice|two|three|four|five|\d|on|daily)\b.*|.+ daily", wording=en.does),
    Phrase(slots.HABITS, "en", "User {value}", fits=r"(?:always|usually|often|rarely|never|seldom|hardly ever) .+", wording=en.does),
    Phrase(slots.CAREER_EVENT, "en", "User was {value}", fits=_LET_GO, wording=en.theirs),
    Phrase(slots.CAREER_EVENT, "en", "User {value}", wording=en.theirs),
    Phrase(slots.MARRIAGE_EVENT, "en", "User {value}", wording=en.theirs),
    Phrase(slots.EDUCATION_EVENT, "en", "User {value}", wording=en.theirs),
    Phrase(slots.FAMILY_EVENT, "en", "User {value}", wording=en.theirs),
    Phrase(slots.HOME_EVENT, "en", "User {value}", wording=en.theirs),
)  # fmt: skip


PHRASES: Final = Phrasebook(
    (*CHINESE, *ENGLISH),
    names={
        ("relationship", "zh"): zh_words.KIN,
        ("relationship", "en"): en_parts.PEOPLE,
        ("interest", "zh"): zh_words.FAVORITES,
        ("interest", "en"): en_words.FAVORITES,
        ("belongings", "zh"): zh_words.BELONGINGS,
        ("belongings", "en"): en_words.BELONGINGS,
    },
)
"""The wording of facts."""

HABITS: Final = frozenset({slots.DIET, slots.EXERCISE, slots.SMOKING, slots.ALCOHOL, slots.SPORTS, slots.HABITS})
"""Slots for what the user usually does or leaves: facts that may also be told as preferences."""

_LEFT_OUT: Final = re.compile(r"不(?!能)|只|no ")
_TASTES: Final = frozenset({slots.LIKES, slots.DISLIKES, slots.HOBBIES})

_CATEGORIES: Final[tuple[tuple[FactCategory, frozenset[SlotName]], ...]] = (
    ("location", frozenset({slots.LOCATION, slots.WORK_PLACE, slots.COMPANY_PLACE, slots.HOMETOWN})),
    (
        "relationship",
        slots.PEOPLE
        | {slots.PETS, slots.CHILDREN, slots.SIBLINGS, slots.MARITAL_STATUS}
        | {slots.FAMILY_EVENT, slots.MARRIAGE_EVENT, slots.HOUSEHOLD},
    ),
    (
        "work",
        frozenset({slots.TITLE, slots.COMPANY, slots.INDUSTRY, slots.WORK_STATUS, slots.DUTIES, slots.LINE_OF_WORK})
        | {slots.CAREER_EVENT},
    ),
    ("habit", HABITS),
    ("preference", _TASTES | slots.FAVORITES),
    ("other", slots.BELONGINGS | {slots.POSSESSIONS, slots.ABILITIES, slots.INSTRUMENTS, slots.LEARNING}),
    ("other", frozenset({slots.GOALS, slots.PLANS, slots.HOME_EVENT})),
)


def is_taste(finding: Finding) -> bool:
    """Whether it is a preference rather than a fact: what is liked, disliked, called a favourite or not eaten."""
    if finding.slot == slots.DIET:
        return bool(_LEFT_OUT.match(finding.value))
    return finding.slot in _TASTES or (finding.slot in slots.FAVORITES and bool(finding.called))


def category(slot: SlotName) -> FactCategory:
    """Return the category of what a slot holds; who the user is where no other fits."""
    return next((name for name, members in _CATEGORIES if slot in members), "personal_info")


def without_subject(text: str) -> str:
    """Return 不吃香菜 for 用户不吃香菜, and "Does not smoke" for "User does not smoke"."""
    text = text.removeprefix("用户").removeprefix("User ")
    return text[:1].upper() + text[1:]


def with_subject(text: str) -> str:
    """Return the fact that `without_subject` made this text of."""
    return f"User {text[:1].lower()}{text[1:]}" if text[:1].isascii() else f"用户{text}"
