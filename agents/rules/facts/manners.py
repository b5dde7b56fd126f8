"""`Manner`: a way to be answered, how it is worded and what its opposite is."""

# ruff: noqa: E501 - a table reads best with one line an entry

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from agents.rules.chinese import words as zh_words
from agents.rules.english import words as en_words
from schemas.facts import PreferenceCategory
from schemas.pipeline import Language


@dataclass(frozen=True, slots=True)
class Manner:
    """A way to be answered.

    Attributes:
        name: identifies it.
        signs: words that ask for it.
        texts: the preference in each language.
        opposite: name of the manner that cannot be had together with this one; empty where there is none.
    """

    name: str
    category: PreferenceCategory
    signs: re.Pattern[str]
    texts: Mapping[Language, str]
    opposite: str


def _manner(name: str, category: PreferenceCategory, opposite: str, zh: str, en: str, signs: str) -> Manner:
    return Manner(name, category, re.compile(signs, re.IGNORECASE), {"zh": zh, "en": en}, opposite)


_WITHOUT: Final = r"(?:别|不要|不用|少|\b(?:not use|stop using|no|avoid|never use|without)\b).*"

MANNERS: Final = (
    _manner("no emojis", "format", "emojis", "偏好不带表情符号的回复", "Prefers replies without emojis", rf"{_WITHOUT}(?:表情|emoji)"),
    _manner("emojis", "format", "no emojis", "偏好带表情符号的回复", "Prefers replies with emojis", r"表情|emoji"),
    _manner("no exclamation marks", "format", "exclamation marks", "偏好不带感叹号的回复", "Prefers replies without exclamation marks", rf"{_WITHOUT}(?:感叹号|exclamation)"),
    _manner("exclamation marks", "format", "no exclamation marks", "偏好带感叹号的回复", "Prefers replies with exclamation marks", r"感叹号|exclamation"),
    _manner("no markdown", "format", "markdown", "偏好不带 Markdown 的回复", "Prefers replies without Markdown", rf"{_WITHOUT}markdown"),
    _manner("markdown", "format", "no markdown", "偏好 Markdown 格式", "Prefers Markdown", r"markdown"),
    _manner("no lists", "format", "lists", "偏好不用列表的回复", "Prefers replies without bullet points", rf"{_WITHOUT}(?:列表|清单|分点|bullet|\blists?)"),
    _manner("no tables", "format", "tables", "偏好不用表格的回复", "Prefers replies without tables", rf"{_WITHOUT}(?:表格|tables?)"),
    _manner("no code", "format", "code", "偏好不带代码的回复", "Prefers replies without code", rf"{_WITHOUT}(?:代码|code)"),
    _manner("plain words", "language", "technical terms", "偏好通俗易懂的说法", "Prefers plain words", rf"通俗|浅显|{_WITHOUT}(?:术语|jargon|technical terms)|plain|simple (?:terms|words|language|style)"),
    _manner("technical terms", "language", "plain words", "偏好专业术语", "Prefers technical terms", r"术语|专业|jargon|technical"),
    _manner("no explanations", "communication_style", "explanations", "偏好不带解释的回答", "Prefers answers without explanations", r"(?:别|不要|不用|无需|少|不需要).*解释|(?:not|skip|no|without|spare).*\bexpla"),
    _manner("detailed", "communication_style", "short", "偏好详细的回复风格", "Prefers detailed replies", r"详细|详尽|(?:别|不要).*简单|detail|thorough|in-depth|less (?:short|brief|concise)|长的|长$|长篇|(?<!\w)long|lengthy|verbose"),
    _manner("direct", "communication_style", "gentle", "偏好直接说重点", "Prefers getting straight to the point", r"重点|直接|直白|结论|答案|绕弯子$|(?:别|不要).*(?:委婉|客气)|direct|to the point|blunt"),
    _manner("gentle", "communication_style", "direct", "偏好委婉的表达", "Prefers gentle wording", r"委婉|温和|温柔|gentle"),
    _manner("short", "communication_style", "detailed", "偏好简短的回复风格", "Prefers short replies", r"简短|简洁|简明|简单|精简|精炼|短|长话短说|一句话|(?:别|不要).*(?:啰嗦|长)|short|brief|concise|succinct|one sentence|simple"),
    _manner("casual", "communication_style", "formal", "偏好轻松随意的语气", "Prefers a casual tone", r"随意|轻松|随和|口语|(?:别|不要).*(?:正式|严肃)|less formal|informal|casual"),
    _manner("formal", "communication_style", "casual", "偏好正式的语气", "Prefers a formal tone", r"正式|严肃|formal"),
    _manner("explanations", "communication_style", "no explanations", "偏好带解释的回答", "Prefers answers with explanations", r"解释|explain|explanation|reasoning"),
    _manner("steps", "format", "", "偏好分步骤说明", "Prefers step-by-step explanations", r"步骤|一步一步|分步|step"),
    _manner("lists", "format", "no lists", "偏好列表格式", "Prefers bullet points", r"列表|清单|分[点条]|要点|bullet|\blists?\b"),
    _manner("paragraphs", "format", "lists", "偏好段落格式", "Prefers paragraphs", r"段落|paragraph|full sentences"),
    _manner("tables", "format", "no tables", "偏好表格格式", "Prefers tables", r"表格|tables?\b"),
    _manner("charts", "format", "", "偏好图表格式", "Prefers charts", r"图表|流程图|chart|diagram"),
    _manner("code", "format", "no code", "偏好代码格式", "Prefers code", r"代码|\bcode\b"),
    _manner("examples", "format", "", "偏好带例子的回答", "Prefers examples", r"例子|examples?"),
    _manner("no small talk", "communication_style", "", "不喜欢寒暄", "Dislikes small talk", r"no small talk"),
)  # fmt: skip
"""Looked through in this order; the first sign that is seen decides."""

BY_NAME: Final = {manner.name: manner for manner in MANNERS}

_WORDY: Final = re.compile(r"啰嗦|废话|长篇|长|官方|敷衍|客套", re.IGNORECASE)
_AROUND: Final = re.compile(r"绕弯子|拐弯抹角")
_SMALL_TALK: Final = re.compile(r"small talk", re.IGNORECASE)
_TONGUES: Final = {
    "中文": "chinese", "汉语": "chinese", "英语": "english", "英文": "english", "日语": "japanese", "日文": "japanese",
    "韩语": "korean", "法语": "french", "德语": "german", "西班牙语": "spanish", "葡萄牙语": "portuguese",
    "意大利语": "italian", "俄语": "russian", "阿拉伯语": "arabic", "泰语": "thai", "越南语": "vietnamese",
    "粤语": "cantonese",
}  # fmt: skip
_LANGUAGE: Final = re.compile(rf"(?:{zh_words.LANGUAGES}|汉语)|\b(?:{en_words.LANGUAGES})\b", re.IGNORECASE)


def of(words: str, *, wanted: bool = True) -> Manner | None:
    """Return the manner that these words ask for, or, where they are what is unwanted, the one they leave."""
    if not wanted:
        if _SMALL_TALK.search(words):
            return BY_NAME["no small talk"]
        if _WORDY.search(words):
            return BY_NAME["short"]
        if _AROUND.search(words):
            return BY_NAME["direct"]
    found = next((manner for manner in MANNERS if manner.signs.search(words)), None)
    if found is None or wanted:
        return found
    return BY_NAME.get(found.opposite)


def relation(one: str, other: str) -> Literal["same", "opposite"] | None:
    """Say whether two wishes for how to be answered are one and the same, or leave no room for each other.

    Of languages, and of what is no manner known here, two different ones are opposites or nothing.
    """
    tongues = [language(words) for words in (one, other)]
    if all(tongues):
        return "same" if tongue(tongues[0] or "") == tongue(tongues[1] or "") else "opposite"
    if any(tongues):
        return None
    before, after = of(one), of(other)
    if before is None or after is None:
        return None
    return "same" if before is after else "opposite" if excludes(before, after) else None


def excludes(one: Manner, other: Manner) -> bool:
    """Whether two manners cannot be had together."""
    return one.name == other.opposite or other.name == one.opposite


def language(words: str) -> str | None:
    """Return the language that these words ask to be answered in."""
    match = _LANGUAGE.search(words)
    return match[0] if match else None


def tongue(name: str) -> str:
    """Return a language by one name, whether it is called by its Chinese or its English one."""
    return _TONGUES.get(name, name.casefold())
