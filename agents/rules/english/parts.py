"""Parts that English patterns are put together from."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re
from typing import Final

from agents.rules.english import words

ADVERBS: Final = (
    r"(?:(?:really|also|quite|still|just|recently|now|currently|always|do|absolutely|especially|mostly|mainly|usually|actually|truly|particularly"
    r"|basically|generally|definitely|only|have always|have|both|kind of|sort of|personally|simply|officially|already|finally|sometimes|even)\s+)*"
)
END: Final = r"(?=\s*(?:$|[,.!;:?~)(]))"
WORD: Final = r"(?-i:(?:(?:St|Dr|Mt|Mr|Mrs|Ms)\. )?[A-Z][\w'’\-]*)"
NAME: Final = (
    rf"(?P<name>{WORD}(?:(?: (?-i:de|van|von|der|la|da|bin|al))* {WORD}){{0,2}}|(?-i:[\u4e00-\u9fff·]{{2,6}}))"
)
PLACE: Final = rf"(?P<place>(?:the )?{WORD}(?:(?:,? (?-i:of|am|upon|de|la|del))* {WORD}|, (?:the )?{WORD}){{0,3}}|(?-i:[\u4e00-\u9fff]{{2,10}}))"
ORGANISATION: Final = (
    rf"(?P<company>(?:the )?{WORD}(?:(?: (?-i:of|and|for|&|the))* {WORD}){{0,4}}|(?-i:[\u4e00-\u9fff]{{2,12}}))"
)
TITLE: Final = rf"(?P<title>(?:an? |the )?(?:[\w\-]+ ){{0,4}}?(?:{words.OCCUPATIONS}))\b"
AT: Final = rf"(?: (?:at|for|with) {ORGANISATION})?"
LIKE: Final = r"(?:like|love|enjoy|adore|prefer|am (?:very |so |really |quite |totally |super )?(?:fond of|into|keen on|passionate about|crazy about)|am (?:very |really )?interested in|am an? (?:big |huge |great )?(?:fan of|lover of))"
RATHER: Final = r" (?:(?<!prefer )to|over|than|instead of) (?=\S)"
"""Between what is preferred and what is not: of "prefer to read" the first word is no such."""
LIKE_BARE: Final = r"(?:like|love|enjoy|care for)"
NO_MORE: Final = r"\s+(?:any ?more|any longer)\b"
RELATIVES: Final = "|".join(sorted((re.escape(word) for word in words.RELATIVES), key=len, reverse=True))
PEOPLE: Final = words.RELATIVES | words.ACQUAINTANCES
EVERYONE: Final = "|".join(sorted((re.escape(word) for word in PEOPLE), key=len, reverse=True))
FAVORITES: Final = "|".join(sorted((re.escape(word) for word in words.FAVORITES), key=len, reverse=True))
MONTH: Final = r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
DATE: Final = rf"(?P<date>(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {MONTH}\b\.?(?:,? \d{{4}})?|{MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?|\d{{4}}-\d{{2}}-\d{{2}}|(?:19|20)\d\d)\b"
WHEN: Final = r"(?:(?: (?:last|this|two|three|a few|\d+|in|on|at|with|from|to|as|yesterday|today|recently|and) ?[\w',\- ]{0,50})?)"
WHEN_EXACTLY: Final = r"(?: (?:yesterday|today|recently|(?:last|this) \w+|on \w+|(?:a few|two|three|four|\d+) \w+ ago|in (?-i:[A-Z])\w+(?: \d{4})?|for good))?"
NOW: Final = r"(?: (?:now|these days|at the moment|currently|at home|already))*"
MANY: Final = r"(?:two|three|four|five|six|seven|eight|nine|ten|several|a few|\d)"
