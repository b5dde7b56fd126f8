"""A Chinese sentence taken apart into the clauses whose subject is the user."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from agents.rules.chinese.words import ABILITIES, OCCUPATIONS, OTHERS, PETS, PLACES
from agents.rules.rulebook import Clause

_BOUNDARY: Final = re.compile(
    r"[，,；;：:!！。～~|—]+|\s{2,}|(?<=[\u4e00-\u9fff])(?=(?:但是?|不过(?!敏)|而且|可是|然而|因为|所以|也不喜欢|也不吃|更喜欢)(?!不过))|(?<=[\u4e00-\u9fff]) (?=[我也])"
)
_COORDINATES: Final = re.compile(r"坐标[：:]\s*")
_NAMED_LATER: Final = re.compile(rf"((?:{PETS}|女儿|儿子|妹妹|弟弟|姐姐|哥哥))[，,]\s*(?:它|她|他|名字|的)*叫(?:做)?")
_LISTED: Final = re.compile(
    r"(?:喜欢|热爱|爱好是|爱好有)[^，,。；;我你了]{1,8}(?:(?:[，,][^，,。；;！!\s我你您他她它了吧的很也都不没是就在啊呢吗谢好但被次极差太真会能要让给有人多少第这那]{1,4}|[，,][听看打弹唱做吃玩][^，,。；;！!\s我你他她它了吧的很也都不没是就在]{1,5})){2,}(?=$|[。！!])"
)
_TITLE: Final = re.compile(r"《[^》]*》")
_MARKS: Final = "，,；;：:!！。～~|—"
_HIDE: Final = {ord(mark): 0xE000 + position for position, mark in enumerate(_MARKS)}
_SHOW: Final = {hidden: mark for mark, hidden in _HIDE.items()}
_GREETING: Final = re.compile(r"(?:你好|您好|大家好|嗨|哈喽|哈啰|早上好|下午好|晚上好|早安|初次见面)(?:啊|呀|哇|哦)?")
_MEETING: Final = re.compile(r"(?:认识|见到)(?:你|您|大家)|第一次.{0,6}聊")
_LEAD: Final = re.compile(
    r"(?:嗯+|恩+|哦+|噢|啊|呃|额|唉|哎呀?|哈哈+|嘿嘿?|嘻嘻|其实|那个|对了|另外|顺便(?:说|提)(?:一下|一句)?|顺便告诉你|说起来|话说|因为|所以|而且|但是|但|不过|可是|虽然|然而|只是|总之|说实话|老实说|坦白说|告诉你(?:一件事|一个好消息)?"
    r"|更正一下|纠正一下|准确地?说|是的|是啊|对的?|好的|好啊|没错|谢谢(?:你|您)?(?:的.{1,6})?|记住|请记住|记一下|补充一下|话说回来|最近|现在|目前|如今|今天|今年|去年|前年|上个?月|上周末?|前几天|前阵子|昨天|昨晚|这周|这个月"
    r"|这几天|这段时间|以后|从今以后|从小到大?|平时|周末|一般|以前|有时候?|终于|好消息|坏消息|报告|当然(?:可以|啦)?|嗯嗯|朋友|亲爱的|AI伴侣|ai|AI|也|还有|同时|还|然后|正好|刚好|毕竟|本来|原来|春节|下个?月|明年|下周|AI助手)"
    r"(?=[\s，,、我也]|$|不|没|正|住|喜|刚|在|搬|换|就|又|开|想|打|要|学|是|叫|养|有|做|吃|还|改|回)"
)
_HYPOTHETICAL: Final = re.compile(
    r"如果|要是|假如|假设|假使|倘若|若是|万一|除非|等我|希望我|但愿|幻想|梦见|梦到|做梦|假装|就好比|好像|仿佛|比如说?我|真想|多希望|恨不得|小时候|(?:小说|故事|电影|剧|书)里|上辈子|下辈子"
)
_REPORT: Final = re.compile(
    rf"^(?!我(?!{OTHERS})).*(?:(?<![小传接])说过?|说道|(?<![顾学疑访])问|告诉我?|觉得|认为|以为|写道|喊|表示|劝我?)(?:我.*)?$"
    r"|(?:有人|别人|[他她]们?|大家)(?:都|总|老|常)?(?:说|问|觉得|以为)|引用|听说|^(?:用户|例如|比如|示例|例子|模板|客户|对方|你|甲|乙|问|答)$"
)
_SPOKEN_TO: Final = re.compile(r"^(?:跟|和|对|向)(?:你|您|大家)(?:说|分享|介绍)")
_SELF: Final = re.compile(rf"我(?!{OTHERS})")
_OTHER: Final = re.compile(
    rf"(?:我{OTHERS}|[你您他她它]|咱|大家|朋友|同事|老板|领导|女儿|儿子|孩子|老公|老婆|妈妈|爸爸|爷爷|奶奶|妹妹|弟弟|姐姐|哥哥|男朋友|女朋友|男友|女友|室友|同学|老师|医生|客户|邻居|有(?:个|一个|位)|这|那|[小老阿][\u4e00-\u9fff]{{1,2}}(?:喜欢|是|在|也|不|住|说|叫))"
)
_OF_ANOTHER: Final = re.compile(
    r"我.{0,4}?(?:知道|听说|发现|看到|看见|觉得|感觉|记得|认识|相信|猜|想)[^，。]{0,4}?[他她它你您]"
)
_CARRIED: Final = re.compile(
    r"(?:现在|目前|还|也|又|刚|已经|一直|最近|就|特别|最|很|非常|尤其|更|平时|比较|以前|从小|今年|去年|上个?月|上周)*"
    rf"(?:住在|住(?:{PLACES})|搬到|搬来|搬去|来自|是一?[名个位]|是.{{0,8}}人$|在.{{1,12}}(?:工作|上班|上学|读书|读研|生活|念书|行业)|在.{{2,12}}(?:做|当)|喜欢|爱|热爱|讨厌|不喜欢|不爱"
    r"|养了|有一?[个只条]|有[两三][个只]|\d{1,2}岁|毕业|学的|主修|从事|做|当|对.{1,10}过敏|没有|不吃|不喝|吃素|结婚|离婚|单身|未婚|已婚|离职"
    r"|辞职|跳槽|入职|换了|换工作|会说|会弹|会讲|生于|出生|老家|性格|每[天周]|打算|计划|姓|叫|生了|买了|退休|考上|考过|升职|升了|戒|不抽|不再|开始喜欢"
    rf"|负责|不?会(?:{ABILITIES})|爱上|迷上|是.{{0,8}}(?:{OCCUPATIONS})$)"
)


def clauses(sentence: str) -> Iterator[Clause]:
    """Yield the clauses that speak of the user, each beginning with 我 where that is the subject.

    A left-out 我 is put back while the user goes on being the subject ("我叫许岩，住在北京"). From a condition
    or someone's reported words on, nothing more of the sentence is yielded.
    """
    text = _NAMED_LATER.sub(r"\1叫", _COORDINATES.sub("坐标", sentence))
    text = _LISTED.sub(lambda items: items[0].replace("，", "、").replace(",", "、"), text)
    greets = bool(_GREETING.search(text) or _MEETING.search(text))
    subject: str | None = None
    opening = ""
    text = _TITLE.sub(lambda title: title[0].translate(_HIDE), text)
    for piece in _BOUNDARY.split(text):
        whole = piece.translate(_SHOW).strip(' 、。.?？*•-"“”')
        rest = _strip_lead(whole)
        opening += whole.removesuffix(rest)
        if not rest:
            continue
        if _HYPOTHETICAL.search(rest) or (_REPORT.search(rest) and not _SPOKEN_TO.match(rest)):
            return
        if _SELF.match(rest):
            subject = "other" if _OF_ANOTHER.match(rest) else "self"
        elif rest.startswith("我"):
            subject = "other"
        elif subject == "self" and _CARRIED.match(rest):
            rest = "我" + rest
        elif _OTHER.match(rest):
            subject = "other"
        yield Clause(rest, greets=greets, implied=not rest.startswith("我") and subject is None, opening=opening)
        opening = ""


def _strip_lead(piece: str) -> str:
    rest = piece
    while True:
        match = _GREETING.match(rest) or _LEAD.match(rest)
        if match is None:
            return rest
        if match.end() == len(rest):
            return ""
        rest = rest[match.end() :].lstrip(" ，,、")
