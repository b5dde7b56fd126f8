"""Chinese rules about who the user is: name, age, home, work, education."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

from typing import Final

from agents.rules import slots
from agents.rules.chinese import values, words
from agents.rules.chinese.parts import ADVERBS, COMPANY, END, HAN, NUMBER, OWN_NAME, PLACE, TITLE, WHEN
from agents.rules.rulebook import Give, Rule


def _person_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "name",
            rf"我(?:(?:现在)?叫(?:做)?|名叫|的(?:名字|全名|真名|本名|大名)(?:其实)?(?:叫做?|是)|名字(?:叫|是)|是叫){OWN_NAME}{END}",
            (Give(slots.NAME, "{name}", values.named),),
        ),
        Rule(
            "name in a greeting",
            rf"我(?:是|叫){OWN_NAME}{END}|我叫(?P<other>{HAN}{{2,3}}){END}",
            (Give(slots.NAME, "{name}", values.introduced), Give(slots.NAME, "{other}", values.introduced)),
            greeting_only=True,
        ),
        Rule("surname", rf"我姓(?P<name>{words.SURNAMES}){END}", (Give(("basic_info", "surname"), "{name}"),)),
        Rule(
            "nickname",
            rf"(?:我觉得)?(?:你|您|大家|朋友们?|他们|同事们?|家里?人)?(?:也|都|就|一般|平时|喜欢|可以|习惯)*(?:请)?叫我(?P<name>{HAN}{{2,4}}?|[A-Z][A-Za-z]+)(?:吧|就好|就行|就可以|即可|啦|哦)?(?:了)?$|我的?(?:小名|昵称|外号|网名|英文名)(?:叫做?|是)(?P<other>{HAN}{{2,4}}|[A-Z][A-Za-z]+){END}",
            (Give(slots.NICKNAME, "{name}", values.named), Give(slots.NICKNAME, "{other}", values.named)),
            implied_too=True,
        ),
        Rule(
            "age",
            rf"我{ADVERBS}(?:是|有|已经|满|刚满|快)*(?P<age>{NUMBER}周?岁)了?$|我今年(?:刚好|刚|已经|都)?(?P<other>{NUMBER})了?$",
            (Give(slots.AGE, "{age}", values.age), Give(slots.AGE, "{other}", values.age)),
        ),
        Rule(
            "age group",
            r"我是(?:个|一个|一名)?(?P<age>[056789]0后|零零后|九零后|八零后|七零后)",
            (Give(slots.AGE, "{age}"),),
        ),
        Rule(
            "birthday",
            rf"我(?:的)?(?:生日(?:是|在)|出生于|生于|是)(?P<date>(?:\d{{4}}年)?(?:农历|阴历|阳历)?{NUMBER}月(?:{NUMBER}[日号]?|初{NUMBER})?|\d{{4}}年)(?:出生|生)?的?(?:[日号])?$",
            (Give(slots.BIRTHDAY, "{date}"),),
        ),
        Rule(
            "gender",
            r"我是(?:一?[个名位])?(?P<gender>女生|男生|女孩子?|男孩子?|女的|男的|女性|男性|女人|男人|妹子|小伙子)$",
            (Give(slots.GENDER, "{gender}", values.gender),),
        ),
        Rule(
            "location",
            rf"我(?:们|和[^你他她]{{1,6}}?(?:一起)?|跟[^你他她]{{1,6}}?(?:一起)?)?{ADVERBS}(?:从[^，,你他她]{{2,8}}?)?(?:定居|常住|住|生活|居住|搬家|搬|调|移居)(?:在|到|去|来|于)(?:了)?{PLACE}(?:了|住|生活|定居|工作|上班|的)*(?:[一二两三四五六七八九十几多半\d]+(?:年|个月|天).*)?$|我{ADVERBS}(?:人)?在(?P<other>{words.PLACES})(?:市|这边)?(?:工作|上班|生活|定居|打拼|上学|读书|读研|念书|读大学|上大学|住|做|当)|我{ADVERBS}现?[住居](?P<third>(?:{words.PLACES}){HAN}{{0,4}}?)(?:这边|那边)?了?$",
            (
                Give(slots.LOCATION, "{place}", values.place),
                Give(slots.LOCATION, "{other}"),
                Give(slots.LOCATION, "{third}", values.place),
            ),
        ),
        Rule(
            "coordinates",
            rf"(?:我的?)?坐标(?:是|在)? ?(?P<place>(?:{words.PLACES}){HAN}{{0,6}})$",
            (Give(slots.LOCATION, "{place}", values.place),),
            implied_too=True,
        ),
        Rule(
            "location left",
            rf"我{ADVERBS}(?:不住在|不住|不在|离开){PLACE}(?:住|工作|生活)?了$",
            (Give(slots.LOCATION, "{place}", values.place, retracts=True),),
        ),
        Rule(
            "hometown",
            rf"我(?:的)?{ADVERBS}(?:老家|家乡|籍贯)(?:是|在){PLACE}(?:的|人)?$|我{ADVERBS}(?:来自|出生在|出生于|是在)(?P<other>{HAN}{{2,8}}?)(?:的.*|长大的?|出生的?)?$|我{ADVERBS}是(?:土生土长的|地道的|一个|个)?(?P<third>(?:{words.PLACES}){HAN}{{0,4}}?)(?:本地)?人(?!才|员)|我{ADVERBS}在(?P<fourth>{words.PLACES})(?:长大|出生)的?$",
            (
                Give(slots.HOMETOWN, "{place}", values.place),
                Give(slots.HOMETOWN, "{other}", values.place),
                Give(slots.HOMETOWN, "{third}", values.place),
                Give(slots.HOMETOWN, "{fourth}"),
            ),
        ),
        Rule(
            "languages",
            rf"我{ADVERBS}(?:会|能)(?:说|讲)(?:一点|一些|流利的?|点)?(?P<languages>(?:{words.LANGUAGES})(?:(?:、|和|跟|还有|以及)(?:一点)?(?:{words.LANGUAGES}))*)|我的?母语是(?P<native>{words.LANGUAGES})",
            (Give(slots.LANGUAGES, "{languages}", values.items), Give(slots.LANGUAGES, "{native}")),
        ),
        Rule(
            "marital status",
            rf"我{ADVERBS}(?:是)?(?P<status>单身(?!公寓)(?:狗)?|未婚|已婚|离异|丧偶|离婚(?=了)|结婚(?=了|$)|订婚(?=了)|还没结婚|没结婚|没有结婚|没有对象|没对象|没有女朋友|没有男朋友)",
            (Give(slots.MARITAL_STATUS, "{status}", values.marital),),
        ),
        Rule(
            "not married",
            r"我(?:还|现在|目前)*(?P<status>没有?结婚|没有?对象|没有?女朋友|没有?男朋友)",
            (Give(slots.MARITAL_STATUS, "{status}"),),
        ),
        Rule(
            "in a couple",
            rf"我{ADVERBS}(?:有了?|交了?|找到了?|谈了?)(?:一?个)?(?P<who>女朋友|男朋友|女友|男友|对象)(?:了)?(?:$|(?=叫|名叫))",
            (Give(slots.MARITAL_STATUS, "有{who}", values.couple),),
        ),
        Rule(
            "personality",
            rf"我(?:的)?(?:性格|这个?人|个性)?{ADVERBS}(?:是|算是|属于|有点|有些|偏)*(?:一个|个|一名)?{ADVERBS}(?P<trait>{words.PERSONALITIES})(?:和(?P<second>{words.PERSONALITIES}))?(?:的(?:人|性格)?|型)?(?:了)?$",
            (Give(slots.PERSONALITY, "{trait}"), Give(slots.PERSONALITY, "{second}")),
        ),
        Rule(
            "email",
            r"我的?(?:邮箱|电子邮件|邮件地址)(?:地址)?(?:是|为)?\s*(?P<email>[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+)",
            (Give(slots.EMAIL, "{email}"),),
        ),
        Rule(
            "phone",
            r"我的?(?:手机号?码?|电话(?:号码)?|联系方式)(?:是|为)?\s*(?P<phone>\+?\d[\d \-]{5,18}\d)",
            (Give(slots.PHONE, "{phone}"),),
        ),
    )


def _work_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "occupation",
            rf"我{ADVERBS}(?:是|当|做|担任)(?:了|着|的是)?(?:一?[名个位])?{TITLE}(?:的|了|工作)*$",
            (Give(slots.TITLE, "{title}", values.title),),
        ),
        Rule(
            "occupation at",
            rf"我{ADVERBS}在(?:了)?(?:一[家个所])?{COMPANY}(?:里|那边)?(?:做|当|担任|任职|是)(?:着|了)?(?:一?[名个位])?{TITLE}(?:的|了|工作)*$",
            (Give(slots.TITLE, "{title}", values.title), Give(slots.COMPANY, "{company}", values.workplace)),
        ),
        Rule(
            "occupation in a place",
            rf"我{ADVERBS}在(?:{words.PLACES})(?:市)?(?:做|当)(?:着|了)?(?:一?[名个位])?{TITLE}(?:的|了|工作)*$",
            (Give(slots.TITLE, "{title}", values.title),),
        ),
        Rule(
            "job title",
            rf"我的?(?:职业|工作|职位|本职工作|新工作|岗位)(?:就)?(?:是|为)(?:一?[名个位]|做|当)?{TITLE}(?:的)?$",
            (Give(slots.TITLE, "{title}", values.title),),
        ),
        Rule(
            "new title",
            rf"我{WHEN}(?:升职|升|晋升|转岗|转行|转|被提拔|改行)(?:成了?|为|做了?|当了?|到)(?:一?[名个位])?{TITLE}(?:了)?$",
            (Give(slots.TITLE, "{title}", values.title),),
        ),
        Rule(
            "company",
            rf"我{ADVERBS}(?:在|就职于|任职于|供职于)(?:一[家个所])?{COMPANY}(?:里|那边)?(?:工作|上班|任职|就职|实习|教书|$)",
            (Give(slots.COMPANY, "{company}", values.workplace),),
        ),
        Rule(
            "new company",
            rf"我{WHEN}(?:跳槽|入职|加入|去(?=.{1, 16}(?:工作|上班))|换了?工作.{0, 3}去)(?:到|去|来)?了?(?:一[家个所])?{COMPANY}(?:工作|上班|了)*$",
            (Give(slots.COMPANY, "{company}", values.workplace),),
        ),
        Rule(
            "left company",
            rf"我{WHEN}(?:从|离开){COMPANY}(?:离职|辞职|跳槽|出来|离开)?了?$|我{ADVERBS}不在(?P<other>{words.COMPANIES}|{HAN}{{2,10}}?(?:{words.ORGANISATION_ENDS}))(?:工作|上班|干|做)?了$",
            (
                Give(slots.COMPANY, "{company}", values.organisation, retracts=True),
                Give(slots.COMPANY, "{other}", values.organisation, retracts=True),
            ),
        ),
        Rule(
            "industry",
            rf"我{ADVERBS}(?:从事|在做|做|在|搞)(?:的?是?)?(?P<industry>{words.INDUSTRIES})(?:行业|方面|领域|这行|这一行|相关)*(?:的)?(?:工作|行业|上班)?的?$|我的?行业是(?P<other>{words.INDUSTRIES})",
            (Give(slots.INDUSTRY, "{industry}"), Give(slots.INDUSTRY, "{other}")),
        ),
        Rule(
            "work status",
            r"我?(?:现在|目前|最近|一直|还|也|就|已经|暂时)*(?:是|处于)?(?P<status>无业|待业(?:中|在家)?|失业(?=了|中|$)|退休(?=了|$)|全职在家|正?在求职|求职中|正?在找(?:新)?工作|一直在找工作|没有工作|没工作|居家办公|远程办公|远程工作)(?:状态)?了?$",
            (Give(slots.WORK_STATUS, "{status}"),),
            implied_too=True,
        ),
        Rule(
            "student",
            rf"我{ADVERBS}(?:是|在读|读)(?:一?[名个位])?(?P<status>{HAN}{{0,8}}?(?:大学生|研究生|博士生|高中生|初中生|留学生|硕士生|大[一二三四]学生|大[一二三四]|研[一二三]|高[一二三]|学生|应届毕业生|应届生|博士后))(?:了)?$",
            (Give(slots.STUDIES, "{status}", values.title),),
        ),
        Rule(
            "school",
            rf"我{ADVERBS}(?:(?:毕业于|就读于|考上了?|考进了?|在|从)(?P<school>{HAN}{{2,10}}?(?:大学|学院|中学|高中|一中|交大|清华|北大|复旦))(?:读|上|念|学习|毕业|就读|$|的)|(?:毕业于|就读于)(?P<other>{HAN}{{2,12}})$)",
            (Give(slots.SCHOOL, "{school}", values.organisation), Give(slots.SCHOOL, "{other}", values.organisation)),
        ),
        Rule(
            "major",
            rf"我{ADVERBS}(?:在.{{2,10}})?(?:大学|本科|研究生)?(?:时)?(?:的专业是|学的是|主修(?:的是)?|专业是|读的是|念的是|专业学的是)(?P<major>{words.MAJORS})(?:专业|系)?(?:的)?$|我是(?:学|读)(?P<other>{words.MAJORS})(?:专业)?的$",
            (Give(slots.MAJOR, "{major}", values.subject), Give(slots.MAJOR, "{other}", values.subject)),
        ),
    )


RULES: Final = (*_person_rules(), *_work_rules())
