"""How two statements relate, read from their wording: `facts` and `preferences`."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from agents.fact_processor import Relation
from agents.processor import SlotName
from agents.rules import counts, exclusions, merging, slots
from agents.rules.chinese import parts as zh_parts
from agents.rules.chinese import words as zh_words
from agents.rules.english import parts as en_parts
from agents.rules.english import words as en_words
from agents.rules.facts import fact_phrases, manners, preference_phrases
from agents.rules.facts.phrasebook import Parsed

_PUNCTUATION: Final = re.compile(r"[\s。．.,，、！!；;：:~～\"'“”‘’「」《》()（）]+")
_PARTICLES: Final = re.compile(
    r"(?<=[\u4e00-\u9fff])[了的呢啊呀吧]|目前|现在|已经|(?:^|(?<= ))(?:the|an?|currently|now|really)(?= )"
)
_PLURAL: Final = re.compile(r"(?<=[a-z]{2}[^s\W])s$")
_NAMED: Final = re.compile(r"(?:一[只条])?叫(?P<zh>.+)的(?P<kind_zh>.+)|(?:an? )?(?P<kind>.+) called (?P<en>.+)")
_NONE: Final = re.compile(r"没|不过敏|no |not ", re.IGNORECASE)
_NOT: Final = re.compile(r"^(?:不|no (?=\w))")
_COUNTED: Final = frozenset({slots.CHILDREN, slots.SIBLINGS, slots.PETS, slots.POSSESSIONS})
_COUNTABLE: Final = _COUNTED | {slots.ALLERGIES}
_SAID_OF_ONE: Final = slots.PEOPLE | {slots.NAME, slots.LOCATION, slots.WORK_PLACE, slots.HOMETOWN}
_FREQUENCY: Final = re.compile(
    r"^(?:每天|每晚|经常|常常|总是|从来不|从不|很少|偶尔|习惯了?|always|usually|often|rarely|never|seldom|hardly ever)"
)
_RATHER: Final = re.compile(rf"{en_parts.RATHER}|{zh_parts.RATHER}", re.IGNORECASE)
_EARLY: Final = re.compile(r"早上|早晨|清晨|上午|morning")
_LATE: Final = re.compile(r"晚上|夜里|深夜|半夜|睡前|evening|night")
_TIME: Final = re.compile(
    rf"{zh_words.PARTS_OF_TIME}|\b(?:{en_words.PARTS_OF_TIME})|\b(?:mornings|evenings|nights)\b", re.IGNORECASE
)

_CACHED: Final = 4_096
_parse_fact = lru_cache(_CACHED)(fact_phrases.PHRASES.parse)
_parse_preference = lru_cache(_CACHED)(preference_phrases.PHRASES.parse)
_MANNERS: Final = {text: manner for manner in manners.MANNERS for text in manner.texts.values()}


def plain(text: str) -> str:
    """Return what texts share that differ only in case, punctuation, articles and particles."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _PLURAL.sub("", " ".join(_PARTICLES.sub("", _PUNCTUATION.sub(" ", folded)).split()))


def facts(known: str, new: str) -> Relation:
    """Say how a new fact relates to a known one.

    Facts that are not in the words of `fact_phrases` are duplicates when they are the same but for particles, and
    different otherwise.
    """
    if plain(known) == plain(new):
        return "duplicate"
    before, after = _parse_fact(known.strip("。. ")), _parse_fact(new.strip("。. "))
    if before is None or after is None:
        return "different"
    if before.slot != after.slot:
        return _across_slots(before, after)
    return _within_slot(before, after)


def preferences(known: str, new: str) -> Relation:
    """Say how a new preference relates to a known one; opposite ones are in conflict."""
    if plain(known) == plain(new):
        return "duplicate"
    before, after = _MANNERS.get(known), _MANNERS.get(new)
    if before and after:
        return "conflict" if manners.excludes(before, after) else "duplicate" if before is after else "different"
    return _wishes(_parse_wish(known), _parse_wish(new))


def opposed(known: str, new: str) -> bool:
    """Whether a new preference leaves no room for the known one."""
    return preferences(known, new) in {"conflict", "update"}


def _across_slots(before: Parsed, after: Parsed) -> Relation:
    if before.slot == slots.MARITAL_STATUS and _names_partner(after, before.value):
        return "update"
    if after.slot == slots.MARITAL_STATUS and _names_partner(before, after.value):
        return "duplicate"
    if not (before.negated or after.negated) and exclusions.ends(after.slot, after.value, before.slot, before.value):
        return "conflict"
    return _opposite_tastes(before, after)


def _names_partner(named: Parsed, status: str) -> bool:
    """Whether "has a girlfriend" says less than who she is."""
    return status in exclusions.IN_A_COUPLE and named.slot == exclusions.IN_A_COUPLE[status]


def _within_slot(before: Parsed, after: Parsed) -> Relation:
    same = _thing(before.value) == _thing(after.value) or _closer_kind(before, after)
    if before.negated or after.negated:
        return "different" if not same else "duplicate" if before.negated == after.negated else "conflict"
    if before.slot in _COUNTABLE and (none := _none_and_some(before.value, after.value)):
        return none
    if before.slot in _COUNTED and same:
        return _counted(before.value, after.value)
    if before.slot in _SAID_OF_ONE and (exactness := _more_or_less_exact(before.value, after.value)):
        return exactness
    if same:
        return "duplicate"
    if before.slot == slots.HABITS and _rest(_FREQUENCY, before.value) == _rest(_FREQUENCY, after.value):
        return "update"
    return "update" if slots.holds_one_value(before.slot) else "different"


def _closer_kind(before: Parsed, after: Parsed) -> bool:
    """Whether one has no cat any more, and the other has a tabby cat."""
    having, gone = (after, before) if before.negated else (before, after)
    closer = before.slot == slots.PETS and before.negated != after.negated
    return closer and _thing(having.value).endswith(_thing(gone.value))


def _none_and_some(before: str, after: str) -> Relation | None:
    without = [bool(_NONE.match(value)) for value in (before, after)]
    if all(without):
        return "duplicate"
    return "conflict" if any(without) else None


def _counted(before: str, after: str) -> Relation:
    """Relate "a cat" to "a cat called Mochi" and to "two cats"."""
    names = [_name(value) for value in (before, after)]
    if all(names):
        return "duplicate" if names[0] == names[1] else "different"
    if any(names):
        return "update" if names[1] else "duplicate"
    numbers = [counts.count(value) for value in (before, after)]
    return "duplicate" if numbers[0] == numbers[1] or not all(numbers) else "update"


def _more_or_less_exact(before: str, after: str) -> Relation | None:
    """Relate 姓张 to 叫张伟, and Berlin to "Berlin, Germany"."""
    old, new = (plain(re.sub(r"^[姓叫]", "", value)) for value in (before, after))
    if new.startswith(old):
        return "duplicate" if new == old else "update"
    return "duplicate" if old.startswith(new) else None


@lru_cache(_CACHED)
def _parse_wish(text: str) -> Parsed | None:
    if found := _parse_preference(text):
        return found
    habit = _parse_fact(fact_phrases.with_subject(text))
    return habit if habit and habit.slot in fact_phrases.HABITS else None


def _opposite_tastes(before: Parsed, after: Parsed) -> Relation:
    """Relate what is liked to what is not, or not eaten; "no longer likes" says nothing against what is not eaten."""
    if _thing(before.value) != _thing(after.value):
        return "different"
    filled = {before.slot, after.slot}
    if filled == {slots.LIKES, slots.DISLIKES}:
        return "duplicate" if before.negated != after.negated else "conflict"
    liked, other = (before, after) if _is_liking(before.slot) else (after, before)
    refused = other.slot in {slots.DIET, slots.DISLIKES} and (other.slot == slots.DISLIKES or _NOT.match(other.value))
    return "conflict" if _is_liking(liked.slot) and refused and not (liked.negated or other.negated) else "different"


def _is_liking(slot: SlotName) -> bool:
    return slot in {slots.LIKES, slots.HOBBIES} or slot in slots.FAVORITES


def _wishes(before: Parsed | None, after: Parsed | None) -> Relation:
    if before is None or after is None:
        return "different"
    if before.slot != after.slot:
        if {before.slot, after.slot} == {slots.QUIET_TIMES, slots.CONTACT_TIMES}:
            return "conflict" if before.value == after.value else "different"
        return _opposite_tastes(before, after)
    if before.slot == preference_phrases.REPLY_LANGUAGE:
        same = manners.tongue(before.value) == manners.tongue(after.value)
        return "duplicate" if same else "conflict"
    if before.slot == slots.CHOICES:
        return _choices(before.value, after.value)
    if before.slot == slots.TIME_HABITS:
        return _times(before.value, after.value)
    return _within_slot(before, after)


def _choices(before: str, after: str) -> Relation:
    """Relate "tea to coffee" to "coffee to tea"."""
    first, second = (_RATHER.split(value, maxsplit=1) for value in (before, after))
    things = [[_thing(thing) for thing in pair] for pair in (first, second)]
    if things[0] == things[1]:
        return "duplicate"
    return "conflict" if things[0] == things[1][::-1] else "different"


def _times(before: str, after: str) -> Relation:
    """Relate two things done at some time: the same thing early and late in the day are opposites."""
    early = [bool(_EARLY.search(value)) for value in (before, after)]
    late = [bool(_LATE.search(value)) for value in (before, after)]
    opposite = (early[0] and late[1]) or (late[0] and early[1])
    return "conflict" if opposite and _rest(_TIME, before) == _rest(_TIME, after) else "different"


def _rest(part: re.Pattern[str], text: str) -> str:
    return plain(part.sub("", text))


def _name(value: str) -> str:
    match = _NAMED.fullmatch(value)
    return (match["zh"] or match["en"]) if match else ""


def _thing(value: str) -> str:
    """Return what is counted, owned, liked or eaten, without number, name and verb."""
    match = _NAMED.fullmatch(value)
    kind = (match["kind_zh"] or match["kind"]) if match else counts.uncounted(value)
    return counts.kind(plain(merging.item_key(_NOT.sub("", kind))))
