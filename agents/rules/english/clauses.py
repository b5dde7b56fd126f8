"""An English sentence taken apart into the clauses whose subject is the user."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from agents.rules.rulebook import Clause

_CONTRACTIONS: Final = tuple(
    (re.compile(short, re.IGNORECASE), full)
    for short, full in (
        (r"\bI'm\b|(?-i:\bim\b)", "I am"),
        (r"\bI've\b", "I have"),
        (r"\bI'd (?=(?:rather|prefer|like|love)\b)", "I would "),
        (r"\bwe've\b", "we have"),
        (r"\bdon't\b", "do not"),
        (r"\bdoesn't\b", "does not"),
        (r"\bdidn't\b", "did not"),
        (r"\bcan't\b", "cannot"),
        (r"\bhaven't\b", "have not"),
        (r"\bname's\b", "name is"),
        (r"\b(hobby|boss|job)'s\b", r"\1 is"),
    )
)

_SUBJECT: Final = (
    r"(?:I|my|we|our|you|your|he|she|they|it|that|these|those|people|there|this|his|her|their|what|how|who|which|where|when|why|do|does|did|can|could"
    r"|would|will|have you|are you|is there|if|please|nice to|glad to|good to|thanks|thank)\b"
)
_CONJUNCTION: Final = r"(?:and|but|so|because|since|although|though|while|yet|then|as|plus|or)"
_CARRIED: Final = (
    r"(?:am|work (?:as|at|for|in|from)|live (?:in|with)|(?:just |recently )*moved to|have (?:a|an|two|three|no)|do not|no longer|speak"
    r"|study|hate|enjoy|got|(?:just |recently )*(?:joined|left|became)|cannot stand|grew up in|(?:really |also |absolutely )+(?:like|love|enjoy|hate))\b"
)
_BOUNDARY: Final = re.compile(
    rf"\s*[;:!—–|]\s*|\s+-+\s+|(?<!\bSt)(?<!\b[DM]r)(?<!\bMt)(?<!\bMs)(?<!\bMrs)\.\s+|\s*…\s*|,\s+(?={_CONJUNCTION}?\s*{_SUBJECT})|,\s+(?:but|so|because|although|though|yet|while)\s+"
    rf"|,?\s+{_CONJUNCTION}\s+(?={_SUBJECT})|,?\s+(?:but|because|although|though|unless|which|who|whereas)\s+"
    rf"|,?\s+(?:and|then)\s+(?={_CARRIED})",
    re.IGNORECASE,
)
_GREETING: Final = re.compile(
    r"(?:hi|hello|hey|good (?:morning|evening|afternoon|day)|greetings|nice to meet you|pleased to meet you)(?: there| everyone| all| again)?\b[\s,.!]*",
    re.IGNORECASE,
)
_MEETING: Final = re.compile(r"\b(?:nice|glad|pleased|good|happy|great|delighted) to meet you\b", re.IGNORECASE)
_LEAD: Final = re.compile(
    r"(?:well|actually|honestly|to be honest|so|oh|ah|yes|yeah|yep|no(?=[,.!]| I\b)|nope|ok|okay|um+|uh+|hm+|haha|by the way|btw|also|and|but|because|since|as"
    r"|though|although|anyway|besides|in fact|as I said|as you know|you know|i mean|these days|nowadays|currently|right now|at the moment|lately"
    r"|recently|today|now|then|thanks|thank you|great|sure|of course|true|correction|update|news|good news|big news|sorry|dear|(?:my )?friend(?=[,.!])"
    r"|(?:please )?(?:remember|note|keep in mind|be aware)(?: that)?|for the record|just so you know|fun fact|about me|in addition|unfortunately"
    r"|sadly|luckily|fortunately|finally|apparently|after all|in my free time|in my spare time|for breakfast|last (?:week|month|year|summer|weekend)"
    r"|this (?:week|month|year|morning)|yesterday|since last \w+|for (?:two|three|five|\d+) years|plus|still|again|first of all|speaking of which"
    r"|guess what|ai companion|ai|on (?:the )?weekends|personally)\b[\s,.!]*",
    re.IGNORECASE,
)
_HYPOTHETICAL: Final = re.compile(
    r"(?:if|suppose|supposing|imagine|assuming|assume|let's say|say|in case|unless|what if|wish|as if|even if|were I|had I|in my dream|in the dream"
    r"|in the (?:story|book|movie|film|game|novel))\b",
    re.IGNORECASE,
)
_REPORT: Final = re.compile(
    r"^(?!I\b)(?:.*\s)?(?:says?|said|saying|tells?|told|asked|asks|thinks?|thought|claims?|claimed|wrote|writes|replied|insists?|believes?"
    r"|goes|joked|mentioned|announced|quote)\b|\blike,? $|^I (?:quote|was told|heard|read)\b|^(?:he|she|they) (?:was|were) like\b|^(?:for )?(?:example|users?|you|customer|client|bot|human|template|sample|q|a)$",
    re.IGNORECASE,
)
_ME: Final = re.compile(r"I\b")
_OTHER_CARRIED: Final = re.compile(_CARRIED, re.IGNORECASE)


def clauses(sentence: str) -> Iterator[Clause]:
    """Yield the clauses that speak of the user, each from its first word on.

    Greetings and openings ("well, actually") are taken off, contractions written out, a carried subject repeated ("I live here and
    work there"). From a condition or someone's reported words on, nothing more of the sentence is yielded.
    """
    text = sentence.replace("’", "'").replace("‘", "'")
    if "'" in text or "im " in text:
        for short, full in _CONTRACTIONS:
            text = short.sub(full, text)
    greets = bool(_MEETING.search(text))
    of_user = False
    opening = ""
    for piece in _BOUNDARY.split(text):
        whole = piece.strip(" ,.*•-")
        rest, greeted = _strip_lead(whole)
        greets = greets or greeted
        opening += whole.removesuffix(rest)
        if not rest:
            opening += " "
            continue
        if _HYPOTHETICAL.match(rest) or _REPORT.search(rest):
            return
        if of_user and _OTHER_CARRIED.match(rest):
            rest = "I " + rest
        else:
            of_user = bool(_ME.match(rest))
        yield Clause(rest, greets=greets, opening=opening)
        opening = ""


def _strip_lead(piece: str) -> tuple[str, bool]:
    rest, greeted = piece, False
    while True:
        if match := _GREETING.match(rest):
            greeted = True
        else:
            match = _LEAD.match(rest)
        if match is None or not match.end():
            return rest, greeted
        if match.end() == len(rest) and not greeted:
            return "", greeted
        rest = rest[match.end() :]
