"""Parts that Chinese patterns are put together from."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

from typing import Final

from agents.rules.chinese import words

HAN: Final = r"[\u4e00-\u9fff]"
ADVERBS: Final = r"(?:真的|还是|还|也|都|一直|就|现在|目前|最近|刚刚?|已经|又|平时|其实|从小|很|非常|特别|超级?|挺|比较|蛮|最|更|尤其|有时候?|一般|通常|经常|特地|确实|今年|去年|上个?月|上周|前几天|昨天|今天|这个月|后来|终于|正式|本来|当然|自己|开始|正|老|总|周末|个人|真|尤为|格外|相当|打小|好)*"
WHEN: Final = r"(?:上个?月|上周末?|昨天|前天|今天|去年|今年|前年|前几天|刚刚?|最近|这周|这个月|年初|年底|已经|终于|正式|春节|夏天|五一|国庆|[一二三四五六七八九十\d]+月(?:份|底|初)?|从.{1,10}?)*"
NAME: Final = r"(?P<name>[\u4e00-\u9fff·]{1,4}|[A-Z][A-Za-z]+(?: [A-Z][A-Za-z]+)?)"
OWN_NAME: Final = (
    rf"(?P<name>(?:{words.SURNAMES}){HAN}{{1,2}}|[小阿老大]{HAN}{{1,2}}|[A-Z][A-Za-z]+(?: [A-Z][A-Za-z]+){{0,2}})"
)
END: Final = r"(?=[吧哦啊呀呢啦噢了]?$|就(?:好|行|可以)|[（(]|(?<=[A-Za-z]) )"
PLACE: Final = r"(?P<place>[\u4e00-\u9fff]{2,12}?|[A-Z][A-Za-z]+(?: [A-Z][A-Za-z]+)*)"
TITLE: Final = rf"(?P<title>{HAN}{{0,8}}?[A-Za-z]{{0,6}}{HAN}{{0,4}}?(?:{words.OCCUPATIONS}))"
COMPANY: Final = rf"(?P<company>(?:{words.COMPANIES})|[\u4e00-\u9fffA-Za-z]{{0,14}}?(?:{words.ORGANISATION_ENDS}))"
KIN: Final = "|".join(sorted(words.KIN, key=lambda word: (-len(word), word)))
FAVORITES: Final = "|".join(sorted(words.FAVORITES, key=lambda word: (-len(word), word)))
NUMBER: Final = r"(?:\d{1,3}|[一二两三四五六七八九十百]{1,4})"
RATHER: Final = r"(?:而不是|而不想|而非)"
"""Between what is preferred and what is not."""
LIKE: Final = r"(?:喜欢上|喜欢|热爱|酷爱|喜爱|偏爱|钟爱|爱上|迷上|爱好|爱(?!人|情|心|好|的|我|你|她|他|国|尔))"
DISLIKE: Final = r"(?:不太喜欢|不怎么喜欢|不是很喜欢|不喜欢|不太爱|不爱|讨厌|受不了|很烦|反感)"
THING: Final = r"(?P<thing>.+)"
