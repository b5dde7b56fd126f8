"""Names, dates and numbers of a text: what a rewrite must not lose.

A rough measure on purpose, the same for every language that it reads: numbers with their units of date, words that
begin with a capital or hold one, and titles in quotation marks. Chinese names without marks cannot be told from other
words without a model, so in Chinese text it is numbers, dates, titles and Latin names that count.
"""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = r"\d+(?:[.,:/-]\d+)*\s*(?:[年月日号岁点时分周]|%|kg|km|cm)?"
_CHINESE_DATE: Final = r"[一二三四五六七八九十两零]+(?:[年月日号岁]|点钟?)|(?:星期|周)[一二三四五六日天]"
_TITLE: Final = r"《[^《》]{1,60}》|「[^「」]{1,60}」|“[^“”]{1,60}”"
_LETTER: Final = "A-Za-zÀ-ÖØ-öø-ÿ"
_NAME: Final = rf"(?<![{_LETTER}])(?:[A-ZÀ-ÖØ-Þ][{_LETTER}0-9'’+#.-]*|[{_LETTER}]+[A-Z+#][{_LETTER}0-9+#]*)"
_ENTITY: Final = re.compile("|".join((_TITLE, _CHINESE_DATE, _NUMBER, _NAME)))
_TRAILING: Final = ".,;:!?'’-"


def entities(text: str) -> frozenset[str]:
    """Return the names, dates and numbers of a text, without regard to case and spaces."""
    found = (match.group().rstrip(_TRAILING).casefold().replace(" ", "") for match in _ENTITY.finditer(text))
    return frozenset(entity for entity in found if entity)


def kept_share(before: str, after: str) -> float:
    """Return the share of the entities of `before` that `after` still mentions; 1.0 when there are none."""
    wanted = entities(before)
    if not wanted:
        return 1.0
    said = after.casefold().replace(" ", "")
    return sum(entity in said for entity in wanted) / len(wanted)
