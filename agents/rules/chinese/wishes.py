"""Chinese rules for how the user wants things to be: manner, times, tools, topics."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

from typing import Final

from agents.rules import slots
from agents.rules.chinese import values, words
from agents.rules.chinese.parts import ADVERBS, LIKE, RATHER
from agents.rules.rulebook import Give, Rule

_ASK: Final = r"(?:我(?:还是)?(?:希望|想让|要)你|以后|今后|从现在起|从今以后|每次|请|麻烦|拜托|你|回答|回复|跟我|和我|给我|对我|说话|的时候|时|尽量|都|总是|务必|一定要?|千万|能|可以|就|要|再|问题|我|,|，)*"
_TONE: Final = "简短|简洁|简明|简单|精简|精炼|短|详细|详尽|具体|全面|直接|直白|委婉|温和|温柔|正式|严肃|随意|轻松|随和|口语化|幽默|活泼|通俗易懂|通俗|浅显|专业"
_SHAPE: Final = (
    r"列表|清单|表格|段落|代码|分点|要点|图表|流程图|步骤|markdown|Markdown|例子|表情(?:符号|包)?|emoji|感叹号|术语"
)
_ANSWER: Final = r"(?:回复|回答|答复|答案|解释|说明|表达|语气|风格|方式|沟通|交流|内容|说法|总结|建议|形式|格式)"
_WANTS: Final = r"(?:更|最|比较|都|还是|一直|平时|一般|总是)*(?:喜欢|偏好|偏爱|习惯|倾向于?|想要|需要|希望)(?:你|看到|看|听|用|有|得到|给|了)*"
_AVOIDS: Final = r"(?:最|很|特别|真的|非常|都|一直)*(?:不喜欢|不太喜欢|不爱|讨厌|受不了|反感|不想要?|不需要|烦)(?:你|看到|看|听|用|有|得到|给|发)*"
_ANY: Final = r"(?:太|过于|那么|那种|这种|很|比较)*"
_ENOUGH: Final = r"(?:就好了?|就行了?|就可以了?|吧|哦|哈|啊|呀|了|啦|回答我?|回复我?|说|讲|谢谢)*$"
_WHEN: Final = rf"(?P<when>(?:{words.PARTS_OF_TIME}))"
_DISTURB: Final = (
    r"(?:再)?(?:给我)?(?:找|打扰|联系|提醒|叫|吵|烦|发消息|发信息|打电话|推送|通知|催)(?:我|给我)?(?:消息|了|哦|啊|吧)*"
)


def _manner_rules() -> tuple[Rule, ...]:
    manner = slots.COMMUNICATION
    return (
        Rule(
            "tone",
            rf"{_ASK}(?P<manner>(?:回答|回复|说|写|讲|解释)?得?(?:再|更|稍微)?(?:{_TONE})(?:一点|点|一些|些)(?:儿)?|(?:直接|只|就|多)?[说讲]重点|直接(?:说|给|讲|回答)(?:答案|结论|结果|就)?|长话短说|一句话(?:回答|总结|概括)?|(?:别|不要)(?:太|那么|这么)?(?:啰嗦|长|简单|正式|严肃|客气|委婉|绕弯子))(?:的)?{_ENOUGH}",
            (Give(manner, "{manner}"),),
            implied_too=True,
        ),
        Rule(
            "explanations",
            rf"{_ASK}(?P<manner>(?:不用|别|不要|不需要|无需|少)(?:多|再|跟我|给我)?解释(?:太多)?|(?:先|给我|详细|多)?解释(?:一下)?(?:原因|理由)?){_ENOUGH}",
            (Give(manner, "{manner}"),),
            implied_too=True,
        ),
        Rule(
            "shape",
            rf"{_ASK}(?P<manner>(?:多)?(?:用|给我?|列成?|做成|整理成|附上?|写成|带)(?:一个|个|点)?(?:{_SHAPE})(?:的(?:形式|方式|格式))?|分(?:点|条|步骤)|一步一步)(?:来)?(?:地)?(?:说|写|回答|回复|展示|列出|给我|讲|解释|呈现|表示|说明)?(?:问题)?{_ENOUGH}",
            (Give(manner, "{manner}"),),
            implied_too=True,
        ),
        Rule(
            "no such shape",
            rf"{_ASK}(?P<manner>(?:别|不要|不用|少)(?:总是?|再|老|给我)?(?:用|发|带|加|列)(?:{_SHAPE})){_ENOUGH}",
            (Give(manner, "{manner}"),),
            implied_too=True,
        ),
        Rule(
            "form of address",
            r"(?:以后|请|你)*(?P<manner>(?:别|不要)叫我(?:您|亲爱的|亲|先生|女士|小姐))",
            (Give(manner, "{manner}"),),
            implied_too=True,
        ),
        Rule(
            "wants a manner",
            rf"(?:我{ADVERBS})?{_WANTS}(?P<manner>{_ANY}(?:{_TONE}|{_SHAPE})(?:、|而|又|和|且|一点|点|一些|些|{_TONE}|{_SHAPE})*的?{_ANSWER}{{0,2}}){_ENOUGH}",
            (Give(manner, "{manner}", values.manner),),
            implied_too=True,
        ),
        Rule(
            "avoids a manner",
            rf"(?:我{ADVERBS})?{_AVOIDS}(?P<manner>{_ANY}(?:{_TONE}|{_SHAPE}|长|啰嗦|官方|敷衍|客套)(?:的)?{_ANSWER}{{0,2}}|(?:长篇大论|废话|啰嗦|绕弯子|客套话|拐弯抹角|听?解释)){_ENOUGH}",
            (Give(manner, "{manner}", values.manner, retracts=True),),
            implied_too=True,
        ),
        Rule(
            "language of replies",
            rf"(?:我们|咱们)?{_ASK}(?:我{ADVERBS}{_WANTS})?(?P<manner>(?:用|说|讲|使用)(?:{words.LANGUAGES}|汉语|英语)(?:跟我|和我|来)?(?:回答|回复|说|聊天?|交流|沟通|对话|写)?)(?:我)?{_ENOUGH}",
            (Give(manner, "{manner}"),),
            implied_too=True,
        ),
    )


def _time_rules() -> tuple[Rule, ...]:
    prefers = r"(?:习惯|喜欢|偏好|倾向于?|更愿意|爱)"
    not_then = r"(?:请|都|千万|最好|尽量|的时候|时|,|，)*(?:别|不要|不用|勿|不许|不准|不想被|不希望被|不喜欢被)"
    return (
        Rule(
            "not at that time",
            rf"(?:以后|请|我|在|每到|每次)*{_WHEN}{not_then}{_DISTURB}$|{_ASK}(?:别|不要)(?:总是?|再|老)?(?:在)?{_WHEN.replace('<when>', '<second>')}(?:的时候)?{_DISTURB}$",
            (Give(slots.QUIET_TIMES, "{when}"), Give(slots.QUIET_TIMES, "{second}")),
            implied_too=True,
            from_opening=True,
        ),
        Rule(
            "at that time",
            rf"(?:以后|请|我|在)*{_WHEN}(?:再)?(?:联系|提醒|找|叫|通知)我(?:比较好|比较方便|最好|最方便|就好|就行)$|(?:我)?{_WHEN.replace('<when>', '<second>')}(?:比较|最)方便(?:联系|接电话|聊天)?$",
            (Give(slots.CONTACT_TIMES, "{when}"), Give(slots.CONTACT_TIMES, "{second}")),
            implied_too=True,
            from_opening=True,
        ),
        Rule(
            "does then",
            rf"我{ADVERBS}{prefers}(?:了)?(?:在)?(?P<habit>(?:{words.PARTS_OF_TIME})(?!的)[^你他她]{{1,12}}?)(?:了)?$|我{ADVERBS}{_WHEN}{ADVERBS}{prefers}(?P<what>[^你他她]{{2,12}})$",
            (Give(slots.TIME_HABITS, "{habit}", values.phrase), Give(slots.TIME_HABITS, "{when}{what}", values.phrase)),
        ),
    )


def _subject_rules() -> tuple[Rule, ...]:
    tool = rf"(?P<tool>[A-Za-z][A-Za-z0-9.+#]*(?: [A-Z0-9][A-Za-z0-9]*){{0,2}}|{words.TOOLS})"
    doing = r"(?:来)?(?:(?:写|做|记|办公|画|看|听|管理|编辑|聊|开会|沟通|剪|处理|编程|开发).{0,8})?"
    talk = r"(?:聊(?!天)|谈论|谈(?!恋爱|判|价|成)|讨论|提起|提到|提(?![醒前高供交升示倡议起到])|说起)"
    return (
        Rule(
            "tool",
            rf"我{ADVERBS}(?:习惯|一直|常|惯|喜欢|都|主要|平时|更喜欢|偏好|一般|只|爱)(?:用|使用)(?:的是)?{tool}{doing}$",
            (Give(slots.TOOLS, "{tool}", values.tool),),
        ),
        Rule(
            "uses a tool",
            rf"我{ADVERBS}(?:在)?用(?:的是)?{tool}(?:来)?(?:写|做|记|画|管理|编辑|开发|剪|处理).{{1,8}}$",
            (Give(slots.TOOLS, "{tool}", values.tool),),
        ),
        Rule(
            "choice",
            rf"我{ADVERBS}(?:{LIKE}|偏好|偏向|倾向于?|宁愿|宁可|更想)(?P<thing>[^你他她]{{1,12}}?)[,，]?(?P<than>{RATHER})(?P<other>[^你他她]{{1,12}})$",
            (Give(slots.CHOICES, "{thing}{than}{other}", values.phrase),),
        ),
        Rule(
            "topic unwanted",
            rf"(?:我{ADVERBS}|{_ASK})(?:别|不要|不想|不喜欢|不愿意?|讨厌|不爱)(?:再|总是?|老)?(?:跟我|和我|给我|向我|跟你|和你)?{talk}(?:关于|有关)?(?P<topic>[^你我他她它]{{2,12}}?)(?:的(?:话题|事情?|内容))?(?:了|吧)?$",
            (Give(slots.TOPICS, "{topic}", values.topic, retracts=True),),
            implied_too=True,
        ),
        Rule(
            "not to be shown",
            rf"{_ASK}(?:别|不要|不用)(?:再|总是?|老)?(?:跟我|给我|向我)?(?:推荐|推送|发)(?:给我|我)?(?:关于|有关|任何|什么)?(?P<thing>[^你我他她它]{{2,12}}?)(?:给我)?(?:了|吧)?$",
            (Give(slots.DISLIKES, "{thing}", values.shown),),
            implied_too=True,
        ),
        Rule(
            "topic wanted",
            rf"我{ADVERBS}(?:喜欢|爱|热爱|想多)(?:跟你|和你|跟人|和人|跟朋友|和朋友)?{talk}(?:关于|有关)?(?P<topic>[^你他她它]{{2,12}}?)(?:的(?:话题|事情?|内容))?$",
            (Give(slots.TOPICS, "{topic}", values.topic),),
        ),
    )


MANNERS: Final = _manner_rules()

RULES: Final = (*_time_rules(), *_subject_rules())
