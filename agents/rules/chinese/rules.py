"""Chinese rules: what a clause has to look like, and the slots that it fills.

Every pattern starts at the user's own 我, so that what is said about others cannot match by accident.
"""

from __future__ import annotations

import re
from typing import Final

from agents.rules.chinese import facts, life, person, taste, wishes, words
from agents.rules.chinese.parts import ADVERBS
from agents.rules.rulebook import Rulebook

BOOK: Final = Rulebook((*person.RULES, *taste.RULES, *life.RULES, *wishes.MANNERS))
"""The Chinese rules that fill slots."""

FACT_BOOK: Final = Rulebook((*facts.RULES, *wishes.RULES))
"""Those of what mostly is told only, as a fact or a preference."""

BOOKS: Final = (BOOK, FACT_BOOK)

SIGNALS: Final = re.compile(
    r"我(?!觉得|知道|明白|认为|想知道|想问|也觉得|不知道|会(?!说|讲|弹|打|拉|吹|踢|每|坚持)|应该|需要|可以|相信|看看|记得|明天|听说|希望|先|该|能|试)"
    r"|叫我|坐标|同事[姓叫]|室友[姓叫]|过敏|求职|无业|待业|找工作|没有工作|没工作|失业|退休|居家办公|远程|全职在家|老板姓|领导姓|老[婆公][姓叫]|朋友[姓叫]|老板叫|领导叫|女儿[姓叫]|儿子[姓叫]"
    r"|简短|简洁|列表|表格|清单|图表|分点|分条|步骤|要点|段落|正式|随意|轻松|幽默|委婉|温和|温柔|口语|通俗|专业|解释|简单|直接|精简|详细|重点|长话短说|一句话|啰嗦|表情|emoji|感叹号|术语|英文|用.{2,5}(?:回[答复]|聊|交流)|[说讲].{2,5}(?:回[答复]|聊|交流)"
)
"""What a sentence must contain for a rule to have a chance."""

MOOD: Final = re.compile(
    rf"我{ADVERBS}(?:感到|感觉|觉得|有点|有些|心情|很|非常|特别|好|太|的心情|十分|挺|这么|那么|比较|情绪|处于)*(?P<mood>{words.MOODS})"
)
"""A mood the user names in a clause."""
