"""The slots that the rules can fill, and whether a slot holds one value or a list.

Both languages fill the same English keys, whatever `PipelineConfig.language` says, so that what a person says
in Chinese and in English meets in one slot. Values stay in the language they were said in.
"""

from __future__ import annotations

from typing import Final

from agents.processor import SlotName

NAME: Final[SlotName] = ("basic_info", "name")
NICKNAME: Final[SlotName] = ("basic_info", "nickname")
AGE: Final[SlotName] = ("basic_info", "age")
BIRTHDAY: Final[SlotName] = ("basic_info", "birthday")
GENDER: Final[SlotName] = ("basic_info", "gender")
LOCATION: Final[SlotName] = ("basic_info", "location")
HOMETOWN: Final[SlotName] = ("basic_info", "hometown")
NATIONALITY: Final[SlotName] = ("basic_info", "nationality")
LANGUAGES: Final[SlotName] = ("basic_info", "languages")
EMAIL: Final[SlotName] = ("contact_info", "email")
PHONE: Final[SlotName] = ("contact_info", "phone")
SCHOOL: Final[SlotName] = ("education", "school")
MAJOR: Final[SlotName] = ("education", "major")
STUDIES: Final[SlotName] = ("education", "status")
MARITAL_STATUS: Final[SlotName] = ("demographics", "marital_status")
TITLE: Final[SlotName] = ("work", "title")
COMPANY: Final[SlotName] = ("work", "company")
INDUSTRY: Final[SlotName] = ("work", "industry")
WORK_STATUS: Final[SlotName] = ("work", "status")
LIKES: Final[SlotName] = ("interest", "likes")
DISLIKES: Final[SlotName] = ("interest", "dislikes")
HOBBIES: Final[SlotName] = ("interest", "hobbies")
SPORTS: Final[SlotName] = ("interest", "sports")
INSTRUMENTS: Final[SlotName] = ("interest", "instruments")
LEARNING: Final[SlotName] = ("interest", "learning")
DIET: Final[SlotName] = ("lifestyle", "dietary_preferences")
ALLERGIES: Final[SlotName] = ("lifestyle", "allergies")
CONDITIONS: Final[SlotName] = ("lifestyle", "health_conditions")
EXERCISE: Final[SlotName] = ("lifestyle", "exercise_habits")
SMOKING: Final[SlotName] = ("lifestyle", "smoking")
ALCOHOL: Final[SlotName] = ("lifestyle", "alcohol")
HOUSEHOLD: Final[SlotName] = ("lifestyle", "household")
POSSESSIONS: Final[SlotName] = ("lifestyle", "possessions")
PERSONALITY: Final[SlotName] = ("psychological", "personality")
GOALS: Final[SlotName] = ("psychological", "goals")
COMMUNICATION: Final[SlotName] = ("psychological", "communication_preferences")
PLANS: Final[SlotName] = ("life_event", "plans")
CAREER_EVENT: Final[SlotName] = ("life_event", "career")
MARRIAGE_EVENT: Final[SlotName] = ("life_event", "marriage")
EDUCATION_EVENT: Final[SlotName] = ("life_event", "education")
FAMILY_EVENT: Final[SlotName] = ("life_event", "family")
HOME_EVENT: Final[SlotName] = ("life_event", "home")
PETS: Final[SlotName] = ("relationship", "pets")
CHILDREN: Final[SlotName] = ("relationship", "children")
SIBLINGS: Final[SlotName] = ("relationship", "siblings")

OPPOSITE: Final[dict[SlotName, SlotName]] = {LIKES: DISLIKES, DISLIKES: LIKES}
"""What enters one of these slots leaves the other."""

SEPARATOR: Final = "; "
"""Between the items of a list slot."""

_SINGLE_TOPICS: Final = frozenset({"basic_info", "contact_info", "education", "demographics", "work"})
_LISTS_THERE: Final = frozenset({LANGUAGES})
_SINGLE_ELSEWHERE: Final = frozenset(
    {SMOKING, ALCOHOL, HOUSEHOLD}
    | {("interest", f"favorite_{kind}") for kind in ("color", "season", "team")}
    | {("relationship", role) for role in ("boss", "wife", "husband", "girlfriend", "boyfriend", "partner")}
    | {("relationship", role) for role in ("fiance", "mother", "father")}
)


def holds_one_value(slot: SlotName) -> bool:
    """Whether a newer value replaces the present one; otherwise the slot is a list that grows."""
    if slot[0] in _SINGLE_TOPICS:
        return slot not in _LISTS_THERE
    return slot in _SINGLE_ELSEWHERE


def split_items(value: str) -> list[str]:
    """Return the items of a list slot's text."""
    return [item for item in (part.strip() for part in value.split(";")) if item]
