"""English rules: what a clause has to look like, and the slots that it fills.

Every pattern starts at the user's own "I" or "my", so that what is said about others cannot match by accident.
"""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re
from typing import Final

from agents.rules.english import facts, life, person, taste, wishes, words
from agents.rules.rulebook import Rulebook

BOOK: Final = Rulebook((*person.RULES, *taste.RULES, *life.RULES, *wishes.MANNERS), re.IGNORECASE)
"""The English rules that fill slots."""

FACT_BOOK: Final = Rulebook((*facts.RULES, *wishes.RULES), re.IGNORECASE)
"""Those of what mostly is told only, as a fact or a preference."""

BOOKS: Final = (BOOK, FACT_BOOK)

_UNTELLING: Final = (
    r"(?:think|thought|know|knew|see|saw|guess|mean|wonder|will|would(?! (?:love|like|prefer))|should|could|must|might|need|hear|heard|understand|agree|remember"
    r"|forgot|said|say|tried|try|promise|suppose|believe|wish|can(?! speak|['’]t|not)|did|had(?! a baby)|do(?:n['’]t| not) (?:know|think|want|understand|remember|mean|see|need))\b"
)
SIGNALS: Final = re.compile(
    rf"I (?!{_UNTELLING})|I['’](?:m|ve)\b|i['’]?(?:m|ve)? (?<=\bi )(?!{_UNTELLING})|im (?<=\bim )|i['’]m |my |My |we |We |WE |MY |call me|Call me|calls me|llergies"
    r"|moji|argon|ullet|ists?\b|ables?\b|iagram|hart|aragraph|arkdown|ormal|asual|etail|traight|xpla|tep by|xamples|hort |hort$|hort[.,!]|rief|oncise|nswer |eply |espond |rite |peak |alk to me |no small|exclamation|abbreviations|simple|irectly"
)
"""What a sentence must contain for a rule to have a chance."""

MOOD: Final = re.compile(
    rf"I (?:am|feel|am feeling|felt|have been feeling|have been|was) (?:(?:so|very|really|a bit|a little|quite|pretty|rather|just|also|still|feeling|extremely|somewhat) )*(?P<mood>{words.MOODS})\b",
    re.IGNORECASE,
)
"""A mood the user names in a clause."""
