"""Cleaners of English values: they take captured text apart, or refuse it."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re
from typing import Final

from agents.rules.english.verbs import doing
from agents.rules.english.words import NEVER_A_NAME, NEVER_A_PLACE, VERBS

_TRAILING: Final = re.compile(
    r"[\s,]+(?:(?:very|so|that) much|a (?:whole )?lot|too|as well|now|again|any ?more|these days|nowadays|lately|recently|currently"
    r"|sometimes|in general|(?:the )?most(?: of all)?|(?:the )?best|better|though|for sure|a bit|at all|at the moment|right now"
    r"|actually|honestly|really|of course|by the way|please|and so on|etc|haha|instead|either|the whole day|all day"
    r"|(?:every|each) (?:\w+ ){0,2}?(?:day|week|weekend|morning|evening|night|month|year|summer|winter|sunday|saturday)s?"
    r"|(?:on|at) (?:the )?weekends?|in the (?:evening|morning|afternoon|summer|winter|world)s?|on (?:mon|tues|wednes|thurs|fri|satur|sun)days?|in (?:my|the) (?:free|spare) time|(?:together )?with (?:my )?(?:friends|family|colleagues)"
    r"|(?:when|because|since|than|but|which|where|who|if|unless|while|after|before|though|although|even|ever|thanks|and feel(?:ing)?|to (?:relax|create|make|get|find|help)|for (?:my|the)"
    r"|that|such as|like|including|especially|particularly|mostly|mainly|in particular|for example|e\.g\.|(?:now and )?then"
    r"|for (?:many|several|\d+|two|three|four|five|ten) years)\b.*)$",
    re.IGNORECASE,
)
_LEADING: Final = re.compile(
    r"^(?:both|especially|mostly|mainly|also|doing things like|things like|(?:outdoor |indoor )?activities (?:like|such as)|such as|some|any) +",
    re.IGNORECASE,
)
_REFUSED_ITEM: Final = re.compile(
    r"\b(?:you|yours?|yourself|I|me|my|mine|myself|he|she|him|her|hers|his|them|their|it|its|this|that|these|those|us|our|we"
    r"|what|how|why|who|whom|whatever|anything|something|nothing|everything|everyone|someone|both|either|neither|idea|way"
    r"|answers|replies|explanations|complain|brag|admit|suggestions?|recommendations?|advice|being able|was|were|are|is|will|would|should|could|said|ones?|others?|topics?)\b|[□\ufffc<>{}=]",
    re.IGNORECASE,
)
_REFUSED_START: Final = re.compile(
    r"^(?:not|the (?:fact|sound|look|idea|thought)|all|so|than|no|nice|when|if|as|at|about|for|with|by|then|often|usually|always|never)\b"
    r"|the (?!sea\b|ocean|beach|mountains|outdoors|countryside|rain|snow|sun\b|piano|guitar|violin|cinema|theatre|theater|opera|gym)(?-i:[a-z])",
    re.IGNORECASE,
)
_TO: Final = re.compile(r"to (?=[a-z])")
_LIST: Final = re.compile(r",\s*(?:and|or|&)\s+|,\s*|\s+(?:and|or|&|as well as)\s+", re.IGNORECASE)
_SHARED_HEAD: Final = re.compile(
    r"(?!\w*(?:ing|s)\b)[\w\-]+ (?!\w*ing\b)[\w\- ]+ (?:movies?|films?|foods?|cuisine|dishes|music|novels?|books?|weather|games?|songs?"
    r"|stories|restaurants?|sports?|style|techniques?)",
    re.IGNORECASE,
)
_WORTH_A_PLAN: Final = re.compile(
    r"\b(?:trip|travel|visit|mov(?:e|ing)|buy|learn|study|apply|marry|married|wedding|open|marathon|race|degree|write a|quit|climb|course|exam|adopt|retire"
    r"|lose weight|start (?:a|an|my)|business|house|flat|job|become|holiday|vacation|master'?s|phd|go to (?-i:[A-Z])|fluent|nurse|teacher|doctor|writer)\b",
    re.IGNORECASE,
)
_OXFORD: Final = re.compile(r"(?:,\s*|\s)(?:and|or|&)\s+[^,]+$", re.IGNORECASE)
_MAX_WORDS: Final = 7
_MAX_SHORT_WORDS: Final = 3
_PHRASE_LIMIT: Final = 80


def _trim(text: str) -> str:
    previous = ""
    text = text.strip(' .,;:!~"”“-')
    while text != previous:
        previous = text
        text = _TRAILING.sub("", text).strip(' .,;:!~"”“-')
    return text


def item(text: str) -> list[str]:
    """Return the thing named, without trimmings such as "very much"; nothing for pronouns and whole clauses.

    "To read novels" is "reading novels".
    """
    text = _LEADING.sub("", _trim(text))
    if _TO.match(text):
        text = doing(text[len("to ") :])
    if not text or len(text.split()) > _MAX_WORDS or len(text) > _PHRASE_LIMIT:
        return []
    if _REFUSED_ITEM.search(text) or _REFUSED_START.match(text):
        return []
    return [text] if len(text) > 1 else []


def items(text: str) -> list[str]:
    """Return each thing of a list.

    "Sichuan and Cantonese cuisine" is one thing. After a comma that belongs to no list ("I love sushi, nice to hear that") nothing more is taken.
    """
    text = _trim(_LEADING.sub("", text.replace('"', "").replace("“", "").replace("”", "")))
    parts = [part for part in _LIST.split(text) if part.strip()]
    if len(parts) == 2 and _SHARED_HEAD.fullmatch(f"{parts[0]} {parts[1]}"):
        parts = [text]
    if _TO.match(text):
        parts = [f"to {part}" if part.partition(" ")[0].lower() in VERBS else part for part in parts]
    loose = len(parts) == 2 or any(len(part.split()) > _MAX_SHORT_WORDS for part in parts[1:])
    if "," in text and not _OXFORD.search(text) and loose:
        parts = [part for part in _LIST.split(text.partition(",")[0]) if part.strip()]
    return [found for part in parts for found in item(part)]


def named(text: str) -> list[str]:
    """Return a person's or pet's name."""
    words = text.strip(" .,!").split()
    if words and words[-1].endswith(("'s", "’s")):
        words[-1] = words[-1][:-2]
    if not words or words[0].lower() in NEVER_A_NAME:
        return []
    for position, word in enumerate(words):
        if position and word.lower() in NEVER_A_NAME:
            words = words[:position]
            break
    return [" ".join(words)]


def pet(text: str) -> list[str]:
    """Return ``Mochi (cat)``, when the name before the bracket is one."""
    name, _, kind = text.partition(" (")
    return [f"{found} ({kind}" for found in named(name)]


def place(text: str) -> list[str]:
    """Return a place: capitalised, no weekday or month."""
    text = _trim(text)
    first = text.split()[0].lower() if text else ""
    return [text] if text and first not in NEVER_A_PLACE else []


def phrase(text: str) -> list[str]:
    """Return a short free phrase; nothing when it is about someone else or too long to be a value."""
    text = text.strip(' .,;:!~"”“-')
    if (
        not text
        or len(text) > _PHRASE_LIMIT
        or re.search(r"\b(?:you|your|he|she|they|it|this|that|what)\b|\ufffc", text, re.IGNORECASE)
    ):
        return []
    return [text]


def habit(text: str) -> list[str]:
    """Return what is done at some time: "meeting in the morning" for "to meet in the morning"."""
    return phrase(doing(text[len("to ") :]) if _TO.match(text) else text)


def plan(text: str) -> list[str]:
    """Return a plan that will matter for longer than a day."""
    if re.search(
        r"\b(?:tonight|today|tomorrow|this (?:morning|afternoon|evening|weekend)|now|later|soon|first|some day|chat|walk|stay)\b",
        text,
        re.IGNORECASE,
    ) or not _WORTH_A_PLAN.search(text):
        return []
    return phrase(re.split(r",\s|\s(?:because|so that|which|where|when|as)\s|\snext$", text)[0])


def aim(text: str) -> list[str]:
    """Return a goal, cut at the first reason."""
    return phrase(re.split(r",\s|\s(?:because|so that|which|where|when|like|one day|some day|someday)\b", text)[0])


def occupation(text: str) -> list[str]:
    """Return a job title without its article."""
    text = _trim(re.sub(r"^(?:an?|the)\s+(?:\d+[- ]year[- ]old\s+)?", "", text, flags=re.IGNORECASE))
    return [text] if text and not _REFUSED_ITEM.search(text) and len(text.split()) <= _MAX_WORDS else []


def subject(text: str) -> list[str]:
    """Return a field of study; nothing for "for my exam" or "a lot"."""
    text = _trim(text)
    if re.match(
        r"(?:for|hard|a|the|every|with|at|in|alone|until|late|on|how|new|and|abroad|here)\b", text, re.IGNORECASE
    ):
        return []
    return item(text)


def lesson(text: str) -> list[str]:
    """Return what is being learned, when it is named and not only described."""
    text = re.sub(r"^how (?=to )", "", _trim(text), flags=re.IGNORECASE)
    verb = text.removeprefix("to ")
    if re.match(
        r"(?:an?|some|new|the|more|from|about|better|many|lots?|be|deal|make|manage|control)\b",
        verb,
        re.IGNORECASE,
    ):
        return []
    return items(text) if verb == text else [f"to {found}" for found in item(verb)]


def event(text: str) -> list[str]:
    """Return what happened, cut at the first comma or reason."""
    text = re.split(r",\s|\s(?:because|so|but|which|where|as it|with you)\s", text)[0]
    return phrase(text)


def counted(text: str) -> list[str]:
    """Return "two kids" as it is and "a cat" as "cat"."""
    return phrase(re.sub(r"^an?\s+", "", text, flags=re.IGNORECASE))


def no_pets(_: str) -> list[str]:
    """Return the value of "I don't have any pets"."""
    return ["no pets"]


def diet(text: str) -> list[str]:
    """Return what is not or cannot be eaten, when it is food and not an occasion."""
    refused, _, food = re.sub(r"^can not", "cannot", _trim(text), flags=re.IGNORECASE).partition(" eat ")
    text = f"{'cannot eat' if refused.lower() == 'cannot' else 'no'} {food}"
    return [text] if food and len(food.split()) <= 3 and not _REFUSED_ITEM.search(text) else []


def diet_over(text: str) -> list[str]:
    """Return what was not eaten and is now, when it is food."""
    return (
        []
        if re.search(r"\b(?:out|at|more|less|better|well|healthy|lunch|dinner|breakfast|it|that|this)\b", text)
        else [text]
    )


def duty(text: str) -> list[str]:
    """Return what someone is responsible for, cut at the first reason."""
    text = re.split(r",\s|\s(?:because|which|where|when|while|but|so)\s", text)[0]
    return phrase(text) if not re.match(r"(?:everything|myself|anything)\b", text, re.IGNORECASE) else []


def make(text: str) -> list[str]:
    """Return what a thing is, not how it is or where."""
    refused = r"\b(?:mess|disaster|problem|bit|little|lot|wreck|joke|old|gift|rental|must|nightmare|pain|dead|broken|my|your)\b"
    return [] if re.search(refused, text, re.IGNORECASE) else phrase(text)


def manner(text: str) -> list[str]:
    """Return how answers should be; "I like code" says nothing of them."""
    return [] if re.fullmatch(r"(?i:code|examples|lists|charts?|paragraphs?|tables?)", text) else [text]
