"""The slots that the rules can fill, and whether a slot holds one value or a list.

A few more are only told as facts or preferences, and enter no profile slot.

Both languages fill the same English keys, whatever `PipelineConfig.language` says, so that what a person says
in Chinese and in English meets in one slot. Values stay in the language they were said in.
"""

from __future__ import annotations

from typing import Final

from agents.processor import SlotName
from schemas.pipeline import PipelineConfig

NAME: Final[SlotName] = ("basic_info", "name")
SURNAME: Final[SlotName] = ("basic_info", "surname")
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

WORK_PLACE: Final[SlotName] = ("told", "work_place")
COMPANY_PLACE: Final[SlotName] = ("told", "company_place")
DUTIES: Final[SlotName] = ("told", "duties")
LINE_OF_WORK: Final[SlotName] = ("told", "line_of_work")
ABILITIES: Final[SlotName] = ("told", "abilities")
HABITS: Final[SlotName] = ("told", "habits")
TOPICS: Final[SlotName] = ("told", "topics")
TOOLS: Final[SlotName] = ("told", "tools")
CHOICES: Final[SlotName] = ("told", "choices")
TIME_HABITS: Final[SlotName] = ("told", "time_habits")
QUIET_TIMES: Final[SlotName] = ("told", "quiet_times")
CONTACT_TIMES: Final[SlotName] = ("told", "contact_times")

WISHES: Final = frozenset({COMMUNICATION, TOPICS, TOOLS, CHOICES, TIME_HABITS, QUIET_TIMES, CONTACT_TIMES})
"""How the user wants things to be: what fills one of these is not liked or disliked besides."""

WHATEVER: Final = "*"
"""Stands for any value where one is taken back without being named."""

TASTES: Final = frozenset({LIKES, DISLIKES})
"""What is liked and what is not."""

SEPARATOR: Final = "; "
"""Between the items of a list slot."""


def _slots(topic: str, sub_topics: str) -> frozenset[SlotName]:
    return frozenset((topic, sub_topic) for sub_topic in sub_topics.split())


_ONE_FAVORITE: Final = _slots("interest", "favorite_color favorite_season favorite_team")
SEVERAL_FAVORITES: Final = _slots(
    "interest", "animals books flowers foods games hobbies movies music places sports tv_shows"
)
"""Slots for favourites of which there may be several."""
FAVORITES: Final = _ONE_FAVORITE | SEVERAL_FAVORITES
"""Slots for what the user calls a favourite."""

_ONE_PERSON: Final = _slots("relationship", "boss boyfriend father fiance girlfriend husband mother partner wife")
PEOPLE: Final = _ONE_PERSON | _slots(
    "relationship",
    "aunt brother coach colleague cousin daughter friend grandfather grandmother mentor neighbor nephew niece roommate "
    "sister son teacher uncle",
)
"""Slots for the names of people, by what they are to the user."""

BELONGINGS: Final = _slots("belongings", "bike camera car computer flat headphones house keyboard phone tablet")
"""What the user's car, phone and so on is: told only."""

FILLED: Final[frozenset[SlotName]] = (
    FAVORITES
    | PEOPLE
    | {NAME, SURNAME, NICKNAME, AGE, BIRTHDAY, GENDER, LOCATION, HOMETOWN, NATIONALITY, LANGUAGES}
    | {EMAIL, PHONE, SCHOOL, MAJOR, STUDIES, MARITAL_STATUS, TITLE, COMPANY, INDUSTRY, WORK_STATUS}
    | {LIKES, DISLIKES, HOBBIES, SPORTS, INSTRUMENTS, LEARNING}
    | {DIET, ALLERGIES, CONDITIONS, EXERCISE, SMOKING, ALCOHOL, HOUSEHOLD, POSSESSIONS}
    | {PERSONALITY, GOALS, COMMUNICATION}
    | {PLANS, CAREER_EVENT, MARRIAGE_EVENT, EDUCATION_EVENT, FAMILY_EVENT, HOME_EVENT}
    | {PETS, CHILDREN, SIBLINGS}
)
"""Every slot of a profile that a rule can fill."""

_SINGLE_TOPICS: Final = frozenset({"basic_info", "contact_info", "education", "demographics", "work"})
_LISTS_THERE: Final = frozenset({LANGUAGES})
_SINGLE_ELSEWHERE: Final = (
    {SMOKING, ALCOHOL, HOUSEHOLD, WORK_PLACE, COMPANY_PLACE} | _ONE_FAVORITE | _ONE_PERSON | BELONGINGS
)


def person(role: str) -> SlotName:
    """Return the slot for the name of who is this to the user."""
    return ("relationship", role)


def allowed_slots(config: PipelineConfig) -> frozenset[SlotName]:
    """Return the slots that the rules may fill in strict mode beside the configured ones.

    While the shipped slots are in force these are all of theirs, since the shipped slots of a language may have other
    names for them. Where a configuration puts its own slots in their place, only what it names is wanted.
    """
    return FILLED if config.overwrite_user_profiles is None else frozenset()


def holds_one_value(slot: SlotName) -> bool:
    """Whether a newer value replaces the present one; otherwise the slot is a list that grows."""
    if slot[0] in _SINGLE_TOPICS:
        return slot not in _LISTS_THERE
    return slot in _SINGLE_ELSEWHERE


def split_items(value: str) -> list[str]:
    """Return the items of a list slot's text."""
    return [item for item in (part.strip() for part in value.split(";")) if item]
