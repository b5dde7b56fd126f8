"""Chinese values put into the words of a sentence about someone else."""

from __future__ import annotations

import re
from typing import Final

from agents.rules.chinese import words

_MINE: Final = re.compile(r"[我咱俺](?:们|的|家)*")
_COUNTED: Final = re.compile(r"[一两三四五六七八九十几\d]+[个只条匹辆台]|没")
_DOG: Final = re.compile(r"狗|金毛|柯基|柴犬|泰迪|拉布拉多|哈士奇|边牧|萨摩耶|贵宾犬|金鱼")
_STRINGS: Final = {
    "弹": "钢琴 吉他 尤克里里 古筝 琵琶 贝斯 古琴 电子琴",
    "拉": "小提琴 大提琴 二胡",
    "吹": "笛子 长笛 萨克斯 口琴 葫芦丝",
    "打": "架子鼓",
}
_PLAYED: Final = {instrument: verb for verb, instruments in _STRINGS.items() for instrument in instruments.split()}
_TONGUES: Final = {"英文": "英语", "日文": "日语", "普通话": "中文", "汉语": "中文"}
_TIME: Final = re.compile(r"(?:已经|终于|正式|刚刚?|最近)+")


def own(text: str) -> str:
    """Return 和自己的妈妈 for 和我妈妈."""
    return _MINE.sub("自己的", text)


def person(text: str) -> str:
    """Return 一个女儿 for 女儿."""
    return text if _COUNTED.match(text) else f"一个{text}"


def pet(text: str) -> str:
    """Return 一只叫团子的猫 for 团子（猫）, and 一只猫 for 猫."""
    name, bracket, kind = text.rstrip("）").partition("（")
    if bracket:
        return f"一{_measure(kind)}叫{name}的{kind}"
    return text if _COUNTED.match(text) else f"一{_measure(text)}{text}"


def kind_of_pet(text: str) -> str:
    """Return 猫 for 团子（猫）."""
    return text.rstrip("）").partition("（")[2] or text


def _measure(kind: str) -> str:
    return "条" if _DOG.search(kind) else "只"


def name(text: str) -> str:
    """Return 姓张 for 张, and 叫张伟 for 张伟."""
    return f"姓{text}" if re.fullmatch(words.SURNAMES, text) else f"叫{text}"


def age(text: str) -> str:
    """Return 32岁 for 32, and 是90后 for 90后."""
    if text.endswith("后"):
        return f"是{text}"
    return text if text.endswith("岁") else f"{text}岁"


def played(text: str) -> str:
    """Return 弹钢琴 for 钢琴."""
    return f"{_PLAYED.get(text, '演奏')}{text}"


def ball(text: str) -> str:
    """Return 打篮球 for 篮球, 踢足球 for 足球."""
    return f"{'踢' if text == '足球' else '打'}{text}"


def happened(text: str) -> str:
    """Return an event without words that only mean "just now"."""
    return _TIME.sub("", own(text))


def diet(text: str) -> str:
    """Return 是素食主义者 for 素食主义者, and 吃素 as it is."""
    return f"是{text}" if text.endswith("者") else text


def eats(text: str) -> str:
    """Return 吃辣 for 不吃辣, and nothing where nothing was given up."""
    return text[1:] if text.startswith("不") else ""


def tongue(text: str) -> str:
    """Return 英语 for 英文: a language by its usual name."""
    return _TONGUES.get(text, text)


def quits(text: str) -> str:
    """Return 戒了烟 for 把烟戒了."""
    return re.sub(r"^把([烟酒])戒了$|^戒([烟酒])了?$", lambda match: f"戒了{match[1] or match[2]}", text)
