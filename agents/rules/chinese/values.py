"""Cleaners of Chinese values: they take captured text apart, or refuse it."""

from __future__ import annotations

import re
from typing import Final

from agents.rules.chinese.words import NOT_A_NAME, NOT_IN_A_NAME, PLACES

_PUNCTUATION: Final = ' ，。！!、；;：:~～“”"「」….'
_TRAILING: Final = re.compile(
    r"(?:等等|等|之类的?|什么的|这些|这类|了|啦|呢|吧|啊|呀|哦|喔|的说|哈哈|来着|而已|嘛|哈|噢)$"
)
_LEADING: Final = re.compile(r"^(?:去|各种|一些|一点|那种|做些|像|比如|例如|尤其是|特别是|还有|以及)(?=.)")
_REFUSED_ITEM: Final = re.compile(
    r"[你您她它我谁哪啥□]|(?<!吉)他|[\ufffc<>{}=]|什么|怎么|这[个些样种里]|那[个些样种里]|^[这那]|还是|是不是|是否|自己|别人|有人|的人$|的时候|的话|的感觉$|的地方$|建议|推荐|聊天$|对方|大家|事情|东西$|主意|说话|得很|有点"
    r"|^(?:上|过|的|得|着|是|不|没|很|就|被|到|和(?!朋友|家人|孩子)|在(?!家))(?![车海饭面包])|^一个人$|^广泛$|^一?些?$|^[看听吃喝玩说读写做去来买想学走跑用]$"
)
_LIST: Final = re.compile(r"[、，,；]|(?<=.)(?<![可恋热喜亲心友])爱(?=[看听吃喝玩打读写做唱跳]|运动|旅)|\s+|以及|还有")
_AND: Final = re.compile(
    r"(?<=[\u4e00-\u9fff])(?:和|跟)(?!朋友|家人|平|谐|服|孩子|同事|爸|妈|老|小)(?=[\u4e00-\u9fffA-Z])"
)
_INSIDE: Final = re.compile(r"里面|[影书歌说事剧]中.*的|的(?:感觉|时候)")
_SUCH: Final = re.compile(r"(?<=[\u4e00-\u9fffA-Za-z])等(?!待|级)[\u4e00-\u9fff]{2,6}$")
_WORTH_A_PLAN: Final = re.compile(
    r"旅游|旅行(?!中)|自驾|考[研公驾上]|考.{1,6}证|买|换(?:工作|城市|房|车)|搬|结婚|订婚|办婚礼|创业|开一?[家间个]|读研|读博|出国|留学|减肥|(?<!文)学(?!术|校)|生孩子|要孩子|装修|马拉松|辞职|跳槽|攀登|领养|养一?[只条]|戒|转行|移民"
)
_ITEM_LIMIT: Final = 14
_PHRASE_LIMIT: Final = 40
_DIGITS: Final = "零〇一二两三四五六七八九十百"


def _trim(text: str) -> str:
    previous = ""
    text = text.strip(_PUNCTUATION)
    while text != previous:
        previous = text
        text = _TRAILING.sub("", text).strip(_PUNCTUATION)
    return text


def item(text: str) -> list[str]:
    """Return the thing named, without final particles; nothing for pronouns, questions and whole clauses."""
    text = _LEADING.sub("", _trim(text))
    if re.match(r"[吃喝看听玩]", text):
        text = text.removesuffix("的")
    if text.endswith("的") or not text or len(text) > _ITEM_LIMIT + 16 * text.isascii():
        return []
    return [] if _REFUSED_ITEM.search(text) else [text]


def items(text: str) -> list[str]:
    """Return each thing of a list.

    和 and 跟 separate only between two things, and what shares a final noun ("晴朗、温暖的天气") stays together.
    """
    text = _SUCH.sub("", _trim(text))
    parts = [piece for part in _LIST.split(text) for piece in _AND.split(part)]
    if _INSIDE.search(text):
        return []
    if text.startswith("在") or ("的" in parts[-1] and not any("的" in part for part in parts[:-1])):
        parts = [text]
    return [found for part in parts for found in item(part)]


def named(text: str) -> list[str]:
    """Return a person's or pet's name."""
    text = text.strip(_PUNCTUATION)
    if re.match(NOT_A_NAME, text) or any(char in NOT_IN_A_NAME for char in text):
        return []
    return [text] if text else []


def pet(text: str) -> list[str]:
    """Return ``团子（猫）``, when the name before the bracket is one."""
    name, _, kind = text.partition("（")
    return [f"{found}（{kind}" for found in named(name)]


def place(text: str) -> list[str]:
    """Return a place that is known or has the ending of one."""
    text = re.sub(
        r"(?:这边|那边|这里|这儿|那里|附近|已经|一年多?|[一二两三几多半\d]+(?:年|个月|天).*|有.*年.*)$", "", _trim(text)
    )
    if re.search(r"[我你他她它]|什么|哪", text) or len(text) > _ITEM_LIMIT:
        return []
    known = (
        re.match(PLACES, text)
        or re.search(r"(?:市|省|县|镇|村|乡|州|岛)$|(?<![小园社街])区$", text)
        or re.fullmatch(r"[A-Z][\w' \-]+", text)
    )
    return [text] if text and known else []


def organisation(text: str) -> list[str]:
    """Return an employer without "a" before it."""
    text = re.sub(r"^(?:了)?(?:一家|一个|一所|某家|某个|家|这家|那家)", "", _trim(text))
    return (
        [text]
        if 1 < len(text) <= _ITEM_LIMIT + 4
        and not re.search(r"[我你他她它]|什么|哪|不错|的|读|念|当前|现在|以前|原来|新公司|^了", text)
        else []
    )


def title(text: str) -> list[str]:
    """Return a job title."""
    text = re.sub(r"^(?:一名|一个|一位|个|名|位)?(?:做|当|干)?", "", _trim(text))
    if (
        re.search(r"[我你他她它这那不没]|年(?!级)|什么|怎么|最|好老师|大家|聊天|像|的[^的]*的|越来|喜欢|如果", text)
        or len(text) > _ITEM_LIMIT
    ):
        return []
    return [text.rpartition("的")[2]] if text else []


def phrase(text: str) -> list[str]:
    """Return a short free phrase as it was said."""
    text = _trim(text)
    if not text or len(text) > _PHRASE_LIMIT or re.search(r"[你您他她\ufffc]|什么|怎么|哪|那样|这样|这个|那个", text):
        return []
    return [text]


def event(text: str) -> list[str]:
    """Return what happened, with the final 了 that makes it an event."""
    text = text.strip(_PUNCTUATION)
    return [text] if phrase(text) else []


def plan(text: str) -> list[str]:
    """Return a plan that will matter for longer than a day."""
    if re.search(
        r"今天|今晚|明天|明早|晚上|待会|等下|等会|一会|马上|下次|现在|周末|试|聊|吃饭|休息|睡|考虑", text
    ) or not _WORTH_A_PLAN.search(text):
        return []
    return phrase(text) if len(_trim(text)) > 1 else []


def subject(text: str) -> list[str]:
    """Return a field of study without 专业."""
    text = re.sub(r"(?:专业|系|方向)?的?$", "", _trim(text))
    return [text] if 1 < len(text) <= _ITEM_LIMIT and not _REFUSED_ITEM.search(text) else []


def lesson(text: str) -> list[str]:
    """Return what is being learned, when it is named and not only described."""
    text = _trim(text)
    if (
        re.match(r"一些|新|一门|一种|如何|怎么|怎样|着|习|关于|一个|一项|一首|到|会|更|了|校|生|术|好", text)
        or re.search("新的|的.*时$|时$", text)
        or len(text) > 10
    ):
        return []
    return items(text)


def age(text: str) -> list[str]:
    """Return an age in years that a person can have."""
    number = text.rstrip("岁周")
    if number.isdigit():
        return [text] if 3 <= int(number) <= 119 else []
    return [text] if number and all(char in _DIGITS for char in number) else []


def diet(text: str) -> list[str]:
    """Return what is not eaten or drunk, with its verb."""
    text = _trim(text)
    refused = r"[你他她我]|什么|早饭|晚饭|午饭|早餐|晚餐|太多|多少|够|下|饱|完|到|惯|起|得|过|亏|消|醋|药|力|苦|酒"
    return [text] if 2 < len(text) <= 10 and not re.search(refused, text) else []


def introduced(text: str) -> list[str]:
    """Return a name given with 我是, which is more often followed by what one is than by who one is."""
    if re.search(r"[人生员师座者家工手户主族狗党派控迷粉板理机官兵长爸妈父母身职领后新会]$", text):
        return []
    return named(text)


def gender(text: str) -> list[str]:
    """Return a gender without 的."""
    return [text.removesuffix("的")]


def marital(text: str) -> list[str]:
    """Return a marital status; 结婚了 says 已婚."""
    return [{"结婚": "已婚", "离婚": "离异", "订婚": "已订婚", "单身狗": "单身"}.get(text, text)]


def couple(text: str) -> list[str]:
    """Return 有女朋友 for 有女友."""
    return [re.sub(r"(?<=[男女])友", "朋友", text)]


def workplace(text: str) -> list[str]:
    """Return an employer, unless it is somewhere one also goes without working there."""
    found = organisation(text)
    if found and re.fullmatch(
        r"(?:家|学校|图书馆|大学|超市|咖啡馆|咖啡店|餐厅|酒店|书店|医院|博物馆|健身房|花店|面馆|诊所|美术馆|动物园|农场|银行|小学|中学|公司|新公司|工厂)",
        found[0],
    ):
        return found if found[0] in {"医院", "银行", "书店", "花店", "咖啡馆", "咖啡店", "幼儿园", "出版社"} else []
    return found


def counted(text: str) -> list[str]:
    """Return 两个女儿 as it is and 一只猫 as 猫."""
    text = re.sub(r"^一?[个只条辆台架艘部套匹](?=.)", "", text)
    return [text] if not re.search(r"[你他她]", text) else []


def pets(text: str) -> list[str]:
    """Return each animal of "一只狗和一只猫"."""
    return [animal for part in text.split("和") for animal in counted(part)]


def no_allergies(text: str) -> list[str]:
    """Return the value of 我没有什么过敏的: that there is none."""
    return ["没有过敏"] if "没" in text else ["不过敏"]


def make(text: str) -> list[str]:
    """Return 特斯拉 for 一辆特斯拉: what a thing is, not how it is."""
    text = re.sub(r"^(?:一?[辆台部套个款]|最?新的?|买的)*", "", _trim(text))
    refused = r"[我你他她它的]|坏|旧|好|最|很|太|什么|谁|借|租|为了|红|白|黑|蓝|灰"
    return [text] if 1 < len(text) <= _ITEM_LIMIT + 6 and not re.search(refused, text) else []


def manner(text: str) -> list[str]:
    """Return how answers should be, when it says so of answers, or can only be about them."""
    shapeless = r"(?:简单|具体|直接|短|轻松|随意|全面|专业|活泼|温柔|幽默|随和|代码|例子|段落|步骤|流程图|图表|清单)的?"
    return [] if re.fullmatch(shapeless, text) else [text]


def tool(text: str) -> list[str]:
    """Return the name of a tool."""
    return [] if re.fullmatch(r"(?i:ai|app|ok|a|b|it)", text) else [text]


def topic(text: str) -> list[str]:
    """Return what is talked of."""
    return items(text) if not re.search(r"话$|起来|下去|天$|一聊|到$|[过完]$|[这那]|啥", _trim(text)) else []


def shown(text: str) -> list[str]:
    """Return what is not to be sent or recommended: a kind of thing, not a message."""
    return items(text) if not re.search(r"消息|信息|邮件|脾气|火|呆|愁|言|[一两几\d][个条部本家首]", text) else []
