"""Chinese rules about the user's life: events, plans, family, pets, health, habits."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

from typing import Final

from agents.rules import slots
from agents.rules.chinese import values, words
from agents.rules.chinese.parts import ADVERBS, END, HAN, KIN, NAME, NUMBER, WHEN
from agents.rules.rulebook import Give, Rule


def _life_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "career event",
            rf"我(?P<event>{WHEN}(?:裸辞|辞职|离职|跳槽|升职|被裁员|被裁|失业|退休|转正|创业|换工作|换了(?:份|个)?(?:新)?工作|找到(?:新)?工作|入职新公司|升职加薪|拿到了?(?:新)?offer)了)",
            (Give(slots.CAREER_EVENT, "{event}", values.event),),
        ),
        Rule(
            "marriage event",
            rf"我(?:们|和.{{1,6}}|跟.{{1,6}})?(?P<event>{WHEN}(?:结婚|订婚|离婚|分手|领证|办婚礼|求婚成功|脱单)了)",
            (Give(slots.MARRIAGE_EVENT, "{event}", values.event),),
        ),
        Rule(
            "education event",
            rf"我(?P<event>{WHEN}(?:(?:大学|研究生|博士|硕士|本科)?毕业了|考上了?.{{2,12}}|考过了?.{{2,10}}|通过了?.{{2,10}}考试|拿到了?(?:.{{0,4}}证书|驾照|.{{0,6}}学位|.{{2,6}}证)|考研上岸)了?)",
            (Give(slots.EDUCATION_EVENT, "{event}", values.event),),
        ),
        Rule(
            "family event",
            rf"我(?:们|老婆|妻子|太太)?(?P<event>{WHEN}(?:生了一?个?(?:女儿|儿子|宝宝|女孩|男孩)|当(?:了|上)?(?:爸爸|妈妈|爹|妈|爸|舅舅|姑姑|姨妈|爷爷|奶奶)了?|怀孕了|怀孕.{{1,4}}了|有宝宝了))",
            (Give(slots.FAMILY_EVENT, "{event}", values.event),),
        ),
        Rule(
            "home event",
            rf"我(?:们)?(?P<event>{WHEN}(?:买房|买了(?:一?套)?(?:新)?(?:房子?|公寓)|搬家|搬到了?(?:{words.PLACES}){HAN}{{0,3}}?|装修好)(?:了|$))",
            (Give(slots.HOME_EVENT, "{event}", values.event),),
        ),
        Rule(
            "plans",
            rf"我{ADVERBS}(?:正)?(?:打算|计划|决定|准备)(?:着)?(?:要)?(?P<plan>[\u4e00-\u9fffA-Za-z0-9]{{2,24}})$",
            (Give(slots.PLANS, "{plan}", values.plan),),
        ),
        Rule(
            "goals",
            r"我的?(?:人生|职业|终极|短期|长期|最大的|新年|今年的?|小)*(?:目标|梦想|理想|愿望)(?:一直|就)?是(?P<goal>.{2,30})$|我(?:一直|从小|很|特别)*(?:想当|想成为|希望成为|梦想成为)(?:一[名个位])?(?P<other>.{2,20})$",
            (Give(slots.GOALS, "{goal}", values.plan), Give(slots.GOALS, "{other}", values.plan)),
        ),
    )


def _home_rules() -> tuple[Rule, ...]:
    kin = rf"(?:我们?家?的?|我)(?P<role>{KIN})"
    bare = r"(?P<role>老板|领导|老婆|老公|女朋友|男朋友|女儿|儿子|同事|室友)"
    pet_count = r"(?:一|两|三|几|[1-9])?[只条个匹]"
    return (
        Rule(
            "relative's name",
            rf"{kin}(?:的(?:名字|小名|全名))?(?:叫做?|名叫|的名字是){NAME}{END}|{kin.replace('<role>', '<second>')}是(?P<other>(?:{words.SURNAMES}){HAN}{{1,2}}){END}",
            (
                Give(("relationship", "{role}"), "{name}", values.named),
                Give(("relationship", "{second}"), "{other}", values.introduced),
            ),
            names=words.KIN,
        ),
        Rule(
            "relative's surname",
            rf"(?:{kin}|{bare.replace('<role>', '<second>')})姓(?P<name>{words.SURNAMES}){END}",
            (Give(("relationship", "{role}"), "{name}"), Give(("relationship", "{second}"), "{name}")),
            names=words.KIN,
            implied_too=True,
        ),
        Rule(
            "relative's name, no 我",
            rf"{bare}叫{NAME}{END}",
            (Give(("relationship", "{role}"), "{name}", values.named),),
            names=words.KIN,
            implied_too=True,
        ),
        Rule(
            "has a named relative",
            rf"我{ADVERBS}(?:有|生了)(?:一?[个位])?(?:\d+岁的)?(?P<role>{KIN})(?:名字)?叫(?:做)?{NAME}{END}",
            (Give(("relationship", "{role}"), "{name}", values.named),),
            names=words.KIN,
        ),
        Rule(
            "children",
            rf"我{ADVERBS}有(?P<children>(?:[一两二三四五六七八九十\d]个)?(?:{NUMBER}岁的?)?(?:女儿|儿子|孩子|宝宝)|一儿一女|一对双胞胎)(?!叫)",
            (Give(slots.CHILDREN, "{children}", values.counted),),
        ),
        Rule(
            "no children",
            r"我(?:们|现在|目前|还)*(?P<children>(?:没有|没)(?:孩子|小孩))",
            (Give(slots.CHILDREN, "{children}"),),
        ),
        Rule(
            "siblings",
            r"我{0}有(?P<siblings>(?:一|两|三)?个(?:亲)?(?:姐姐|妹妹|哥哥|弟弟|双胞胎姐姐|双胞胎妹妹|双胞胎哥哥|双胞胎弟弟))(?!叫)(?:和(?P<more>(?:一|两|三)?个(?:姐姐|妹妹|哥哥|弟弟)))?|我是(?P<only>独生女|独生子(?:女)?)".replace(
                "{0}", ADVERBS
            ),
            (
                Give(slots.SIBLINGS, "{siblings}", values.counted),
                Give(slots.SIBLINGS, "{more}", values.counted),
                Give(slots.SIBLINGS, "{only}"),
            ),
        ),
        Rule(
            "named pet",
            rf"我(?:们)?家?{ADVERBS}(?:养|领养|收养|有|买)(?:了|着|过)?{pet_count}{HAN}{{0,4}}?(?P<kind>{words.PETS})(?:名字)?叫(?:做)?{NAME}{END}|(?:我们?家?的?)(?P<other>{words.PETS})(?:的名字)?叫(?:做)?(?P<second>{HAN}{{1,4}}|[A-Z][A-Za-z]+){END}",
            (Give(slots.PETS, "{name}（{kind}）", values.pet), Give(slots.PETS, "{second}（{other}）", values.pet)),
        ),
        Rule(
            "pet",
            rf"我(?:们)?家?{ADVERBS}(?:养|领养|收养|有)(?:了|着)?(?P<pet>{pet_count}{HAN}{{0,4}}?(?:{words.PETS})(?:和{pet_count}(?:{words.PETS}))?)(?:了)?$",
            (Give(slots.PETS, "{pet}", values.pets),),
        ),
        Rule(
            "household",
            rf"我{ADVERBS}(?P<household>(?:一个人|独自|自己)(?:住|生活|居住)|(?:和|跟)[^你他她]{{1,8}}?(?:一起)?(?:住|合租|同居))(?:在.*)?(?:了)?$",
            (Give(slots.HOUSEHOLD, "{household}", values.phrase),),
        ),
        Rule(
            "possessions",
            rf"我{ADVERBS}(?:有|开|买了|入手了|骑)(?P<thing>一?[辆台架艘部套](?:{HAN}|[A-Za-z0-9]){{1,10}}?(?:车|单车|摩托|相机|钢琴|望远镜|咖啡机|缝纫机|电脑|特斯拉|房车|无人机))(?:了)?$",
            (Give(slots.POSSESSIONS, "{thing}", values.counted),),
        ),
        Rule(
            "no allergies",
            r"我?(?:对)?(?:目前|现在|也|好像)?(?P<none>(?:没有|没)(?:任何|什么|食物|药物)*过敏(?:史|的)?)|我(?:对什么都)(?P<other>不过敏)",
            (
                Give(slots.ALLERGIES, "{none}", values.no_allergies),
                Give(slots.ALLERGIES, "{other}", values.no_allergies),
            ),
            implied_too=True,
        ),
        Rule(
            "allergies",
            rf"我{ADVERBS}对(?P<thing>[^你他她]{{1,16}}?){ADVERBS}(?:有些|有点|严重|轻微|会)*(?<!不)过敏(?!了吗)(?:$|的)|我{ADVERBS}有(?P<other>{HAN}{{2,4}}?)过敏(?:症)?$|我{ADVERBS}(?P<third>花粉|海鲜|花生|坚果|牛奶|芒果|青霉素|酒精|尘螨|猫毛)过敏",
            (
                Give(slots.ALLERGIES, "{thing}", values.items),
                Give(slots.ALLERGIES, "{other}", values.item),
                Give(slots.ALLERGIES, "{third}"),
            ),
        ),
        Rule(
            "allergy gone",
            rf"我{ADVERBS}对(?P<thing>.{{1,10}}?)(?:(?:已经)?不(?:再)?过敏了|(?:已经不|不再)过敏)$|我{ADVERBS}对(?P<not>(?!什么).{{1,10}}?)不过敏的?$",
            (
                Give(slots.ALLERGIES, "{thing}", values.items, retracts=True),
                Give(slots.ALLERGIES, "{not}", values.items, retracts=True, if_known=True),
            ),
        ),
        Rule(
            "health",
            rf"我{ADVERBS}(?:有|得了|患有|患了|被(?:医生)?(?:诊断|确诊)(?:出|为|有|出了)?|查出(?:了|来)?|确诊(?:了)?|有轻度|有严重的?|犯)(?:轻度|中度|重度|慢性|点|一点)*的?(?P<condition>{words.CONDITIONS})",
            (Give(slots.CONDITIONS, "{condition}"),),
        ),
        Rule(
            "diet",
            r"我(?:是|已经|现在|一直|最近|开始|改|都)*(?:个|一个)?(?P<diet>素食主义者|吃素|素食者|纯素|无糖饮食|低碳饮食|生酮饮食|清真)(?:了)?(?:的)?$",
            (Give(slots.DIET, "{diet}"),),
        ),
        Rule(
            "diet over",
            r"我(?:现在|已经|早就|最近)*不(?:再)?(?:是)?(?P<diet>吃素|素食主义者)了",
            (Give(slots.DIET, "{diet}", retracts=True),),
        ),
        Rule(
            "does not eat",
            rf"我{ADVERBS}(?:从来|从|一点都?|完全)*(?P<diet>(?:不吃|不喝|不能吃|不能喝|只吃|只喝|吃不了|喝不了){HAN}{{1,8}}?)(?:的|了)?$",
            (Give(slots.DIET, "{diet}", values.diet),),
        ),
        Rule(
            "eats again",
            rf"我{ADVERBS}(?:又|能|可以|开始)*吃(?P<diet>辣|肉|香菜|海鲜|甜食|猪肉|牛肉|羊肉|鱼|内脏)了$",
            (Give(slots.DIET, "不吃{diet}", retracts=True),),
        ),
        Rule(
            "smoking",
            r"我(?:从|从来|一直|已经|现在|都)*(?P<smoking>不抽烟|不吸烟|戒烟了?|把烟戒了)",
            (Give(slots.SMOKING, "{smoking}"),),
        ),
        Rule(
            "alcohol",
            r"我(?:从|从来|一直|已经|现在|都)*(?P<alcohol>不喝酒|滴酒不沾|戒酒了?|把酒戒了)",
            (Give(slots.ALCOHOL, "{alcohol}"),),
        ),
        Rule(
            "exercise",
            rf"我{ADVERBS}(?:会|坚持)*(?P<habit>(?:每[天周晚]|每个?(?:周末|星期|早上|晚上)|每天早上|每天晚上|每周[一二三四五六日天末]|一周)(?:都|会|要|坚持|去|至少|早上|晚上|[一二两三四五六\d]次|[一二两三四五六\d]天)*(?:{words.EXERCISES})(?:[一二两三四五六\d]+(?:次|公里|分钟|小时))?)",
            (Give(slots.EXERCISE, "{habit}"),),
        ),
    )


RULES: Final = (*_life_rules(), *_home_rules())
