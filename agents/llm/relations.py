"""`relation_in`: the one relation that an answer names, in whatever words it is wrapped."""

from __future__ import annotations

import re
from typing import Final

from agents.fact_processor import Relation

_FORMS: Final[dict[Relation, str]] = {
    "duplicate": r"duplicate[sd]?|重复",
    "update": r"update[sd]?|更新",
    "conflict": r"conflict(?:s|ing)?|冲突|矛盾",
    "different": r"different|不同",
}
_LIMIT: Final = 4_000
"""Characters of an answer that may hold a relation; a longer one is not about to name it."""

_DENIAL: Final = (
    r"(?:\b(?:not|no|never|neither|nor|cannot|without)\b|n['’]t\b)[^.,;:!?\n]{0,24}?"
    r"|(?:[不非未无]|没有)[^。，；！？\n]{0,6}?"
)
_NAMES: Final = "|".join(f"(?P<{name}>{forms})" for name, forms in _FORMS.items())
_NAMED: Final = re.compile(f"(?P<denial>{_DENIAL})?(?<![a-z_-])(?:{_NAMES})(?![a-z_])", re.IGNORECASE)


def relation_in(text: str) -> Relation | None:
    """Return the relation that a text names, or None where it names none or several, denies one, or goes on and on.

    Case, punctuation and the words around it do not matter; the Chinese names are known too.
    """
    if len(text) > _LIMIT:
        return None
    found: set[Relation] = set()
    for match in _NAMED.finditer(text):
        if match["denial"] is not None:
            return None
        found.update(name for name in _FORMS if match[name] is not None)
    return found.pop() if len(found) == 1 else None
