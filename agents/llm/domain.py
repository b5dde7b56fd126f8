"""The facts and keywords by which a model describes a conversation, freed of what only looks like some.

How long they may be, which are repeats and which are tags of the catalogue is for the stage (`agents.domain`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agents.llm.answers import dropped
from agents.llm.formats import DOMAIN, DomainItem
from agents.llm.nothing import is_nothing
from agents.llm.values import Texts
from schemas.stages import Domain, Dropped

_TEXT_LIMIT: Final = 500
"""Characters of a text that is looked at; a model that runs on writes more."""


def described(item: DomainItem) -> tuple[Domain, list[Dropped]]:
    """Return the facts and keywords that say something, and what was dropped."""
    drops: list[Dropped] = []
    facts = tuple(_said(item.facts, drops))
    return Domain(facts=facts, domain=tuple(_said(item.domain, drops))), drops


def _said(texts: Texts, drops: list[Dropped]) -> Iterator[str]:
    drops += (dropped(DOMAIN, "invalid_item", text) for text in texts.unreadable)
    for text in texts:
        bare = text.without_bullet()
        if len(bare) > _TEXT_LIMIT:
            drops.append(dropped(DOMAIN, "value_too_long", bare))
        elif is_nothing(bare):
            drops.append(dropped(DOMAIN, "says_nothing", bare))
        else:
            yield bare
