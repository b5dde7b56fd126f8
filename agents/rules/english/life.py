"""English rules about the user's life: events, plans, family, pets, health, habits."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

from typing import Final

from agents.rules import slots
from agents.rules.english import values, words
from agents.rules.english.parts import ADVERBS, END, EVERYONE, MANY, NAME, NO_MORE, NOW, PEOPLE, RELATIVES, WHEN, WORD
from agents.rules.rulebook import Give, Rule


def _life_rules() -> tuple[Rule, ...]:
    let_go = r"(?:laid off|fired|promoted|made redundant)"
    done = r"I (?:have |just |finally |recently |officially )*"
    return (
        Rule(
            "career event",
            rf"{done}(?P<event>(?:(?:quit|left|lost|resigned from) my (?:old |last )?job|retired|resigned|(?:got|found|started) a new job|changed jobs|started my own (?:company|business)){WHEN})",
            (Give(slots.CAREER_EVENT, "{event}", values.event),),
        ),
        Rule(
            "promoted or let go",
            rf"I (?:have |just |recently )*(?:been (?P<event>{let_go}{WHEN})|(?P<other>(?:was|got) (?:just |recently )?{let_go}{WHEN}))",
            (Give(slots.CAREER_EVENT, "{event}", values.event), Give(slots.CAREER_EVENT, "{other}", values.event)),
        ),
        Rule(
            "marriage event",
            rf"{done}(?P<event>(?:got (?:married|engaged|divorced)|broke up with my (?:girlfriend|boyfriend|partner)){WHEN})",
            (Give(slots.MARRIAGE_EVENT, "{event}", values.event),),
        ),
        Rule(
            "broke up",
            rf"(?:{done}|we (?:have |just |finally |recently )*)(?P<event>(?:broke|broken|split) up(?! with)(?: again)?{WHEN}){END}",
            (Give(slots.MARRIAGE_EVENT, "{event}", values.event),),
        ),
        Rule(
            "education event",
            rf"{done}(?P<event>(?:graduated|passed my (?:[\w\-]+ ){{0,4}}(?:exams?|tests?)|finished (?:university|college|my degree|my thesis|my phd|my master'?s)|got into (?:university|college)){WHEN})",
            (Give(slots.EDUCATION_EVENT, "{event}", values.event),),
        ),
        Rule(
            "family event",
            rf"(?:{done}|we )(?P<event>(?:had a baby(?: girl| boy)?|became an? (?:father|mother|dad|mum|mom|aunt|uncle|parent|grandmother|grandfather)|gave birth|adopted a (?:baby|child|cat|dog|kitten|puppy)){WHEN})",
            (Give(slots.FAMILY_EVENT, "{event}", values.event),),
        ),
        Rule(
            "pregnant",
            rf"I am (?:\w+ months )?(?P<event>pregnant|expecting a baby){END}",
            (Give(slots.FAMILY_EVENT, "{event}"),),
        ),
        Rule(
            "home event",
            rf"(?:{done}|we (?:have |just |finally )*)(?P<event>(?:bought (?:a|an|our|my) (?:\w+ )?(?:house|flat|apartment|home)|moved (?:back |over |here )?to (?-i:[A-Z]\w+(?: [A-Z]\w+)*)|moved in with my (?:girlfriend|boyfriend|partner|parents)){WHEN})",
            (Give(slots.HOME_EVENT, "{event}", values.event),),
        ),
        Rule(
            "moving plan",
            rf"I am {ADVERBS}(?P<plan>moving to {WORD}.*)$",
            (Give(slots.PLANS, "{plan}", values.plan),),
        ),
        Rule(
            "plans",
            rf"I {ADVERBS}(?:plan|am {ADVERBS}planning|intend|am saving up|have decided|decided) to (?P<plan>.+)$",
            (Give(slots.PLANS, "{plan}", values.plan),),
        ),
        Rule(
            "plans for a trip",
            rf"I am {ADVERBS}planning (?P<plan>an? (?:\w+ )?(?:trip|holiday|vacation|wedding|journey)\b.*)$",
            (Give(slots.PLANS, "{plan}", values.plan),),
        ),
        Rule(
            "goals",
            r"my (?:\w+ )?(?:goal|dream|ambition|aim) is to (?P<goal>.+)$|I (?:really )?(?:hope|want|dream of|am hoping|would love) (?:to become|to be|becoming) (?P<other>an? .+)$",
            (Give(slots.GOALS, "{goal}", values.aim), Give(slots.GOALS, "become {other}", values.aim)),
        ),
    )


def _home_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "relative's name",
            rf"my (?P<role>{EVERYONE})(?:'s (?:full |first )?name is| is (?:called|named)| goes by) {NAME}",
            (Give(("relationship", "{role}"), "{name}", values.named),),
            names=PEOPLE,
        ),
        Rule(
            "relative is",
            rf"my (?P<role>{EVERYONE}) is (?!(?:{words.DEMONYMS})\b){NAME}{END}",
            (Give(("relationship", "{role}"), "{name}", values.named),),
            names=PEOPLE,
        ),
        Rule(
            "relative, name beside",
            rf"my (?:lovely |dear |new |\d+[- ]year[- ]old )?(?P<role>{RELATIVES}),? {NAME}",
            (Give(("relationship", "{role}"), "{name}", values.named),),
            names=words.RELATIVES,
        ),
        Rule(
            "has a named relative",
            rf"(?:I|we) (?:also )?have an? (?:\w+[- ]){{0,3}}?(?P<role>{RELATIVES}),? (?:named|called|whose name is) {NAME}",
            (Give(("relationship", "{role}"), "{name}", values.named),),
            names=words.RELATIVES,
        ),
        Rule(
            "children",
            rf"(?:I|we) (?:also )?have (?P<children>{MANY} (?:\w+ )?(?:kids|children|sons|daughters)|an? (?:\w+[- ]){{0,3}}?(?:son|daughter|baby|toddler))(?! (?:named|called))(?:{NOW}{END}| and\b| who\b)",
            (Give(slots.CHILDREN, "{children}", values.counted),),
        ),
        Rule(
            "no children",
            r"(?:I|we) (?:have (?P<children>no (?:kids|children))|do not have (?:any )?(?P<kind>kids|children))\b",
            (Give(slots.CHILDREN, "{children}"), Give(slots.CHILDREN, "no {kind}")),
        ),
        Rule(
            "siblings",
            rf"I (?:also )?have (?P<siblings>(?:{MANY}|an?|no) (?:older |younger |little |big |twin )?(?:brothers?|sisters?|siblings))(?! (?:named|called))(?:{NOW}{END}| and (?P<more>(?:{MANY}|an?) (?:\w+ )?(?:brothers?|sisters?))| who\b)",
            (Give(slots.SIBLINGS, "{siblings}", values.counted), Give(slots.SIBLINGS, "{more}", values.counted)),
        ),
        Rule("only child", r"I am (?:an|the) (?P<siblings>only child)\b", (Give(slots.SIBLINGS, "{siblings}"),)),
        Rule(
            "named pet",
            rf"(?:(?:I|we) (?:also |now |just )*(?:have|got|adopted|own) (?:an?|the) (?:\w+[- ]){{0,3}}?(?P<kind>{words.PETS}),? (?:named|called|whose name is)|my (?P<other>{words.PETS})(?:'s name is| is (?:called|named)|,)?) {NAME}",
            (Give(slots.PETS, "{name} ({kind})", values.pet), Give(slots.PETS, "{name} ({other})", values.pet)),
        ),
        Rule(
            "pet",
            rf"(?:I|we) (?:also |now |just )*(?:have|got|adopted|own) (?P<pet>(?:{MANY}|an?) (?:\w+[- ]){{0,2}}?(?:{words.PETS})s?)(?: and (?P<more>(?:{MANY}|an?) (?:{words.PETS})s?))?(?! (?:named|called|person|allergy|calendar|hair|toy|video)\b)(?:{NOW}{END}| and\b| who\b)",
            (Give(slots.PETS, "{pet}", values.counted), Give(slots.PETS, "{more}", values.counted)),
        ),
        Rule(
            "no pets",
            r"I (?:have (?P<none>no pets)|do not have (?P<kind>any pets))\b",
            (Give(slots.PETS, "{none}"), Give(slots.PETS, "no pets{kind}", values.no_pets)),
        ),
        Rule(
            "household",
            rf"I {ADVERBS}live (?P<household>alone|by myself|on my own|with my [\w ]+?){NOW}{END}",
            (Give(slots.HOUSEHOLD, "{household}"),),
        ),
        Rule(
            "possessions",
            rf"I {ADVERBS}(?:own|drive|bought|have bought|got) (?P<thing>an? (?:[\w\-]+ ){{0,3}}(?:car|motorbike|motorcycle|bike|bicycle|campervan|van|boat|kayak|camera|telescope|sewing machine|electric car|laptop))\b",
            (Give(slots.POSSESSIONS, "{thing}", values.counted),),
        ),
        Rule(
            "no allergies",
            r"(?:I (?:have|do not have)|I have got|no, I have) (?P<none>no (?:known |food )?allergies)|(?P<bare>no (?:known |food )?allergies)(?= at all|\s*$|[,.!])|I do not have (?:any )?(?P<kind>(?:known |food )?allergies)|I am not (?P<verb>allergic to anything)",
            (
                Give(slots.ALLERGIES, "{none}"),
                Give(slots.ALLERGIES, "{bare}"),
                Give(slots.ALLERGIES, "no {kind}"),
                Give(slots.ALLERGIES, "not {verb}"),
            ),
        ),
        Rule(
            "allergies",
            rf"I am {ADVERBS}(?:(?:severely|highly|very|slightly|mildly) )?allergic to (?P<thing>.+)$|I have (?:an? )?(?:severe |mild |bad )?(?P<other>[\w\-]+(?: [\w\-]+)?) allergy\b(?! tests?| season| medic| shots?)|I have an allergy to (?P<third>.+)$",
            (
                Give(slots.ALLERGIES, "{thing}", values.items),
                Give(slots.ALLERGIES, "{other}", values.item),
                Give(slots.ALLERGIES, "{third}", values.items),
            ),
        ),
        Rule(
            "allergy gone",
            rf"I am (?:no longer allergic to|not allergic to(?=.*{NO_MORE})) (?!anything)(?P<thing>.+?)(?:{NO_MORE})?$|I am not allergic to (?!anything|.*{NO_MORE})(?P<not>.+)$",
            (
                Give(slots.ALLERGIES, "{thing}", values.items, retracts=True),
                Give(slots.ALLERGIES, "{not}", values.items, retracts=True, if_known=True),
            ),
        ),
        Rule(
            "health",
            rf"I (?:also )?(?:have(?: been diagnosed with| had)?|suffer from|was (?:recently )?diagnosed with|got diagnosed with|live with) (?:(?:chronic|mild|severe|bad|frequent) )?(?P<condition>{words.CONDITIONS})\b",
            (Give(slots.CONDITIONS, "{condition}"),),
        ),
        Rule(
            "diet",
            rf"I (?:am|became|have become|have been|went|turned) {ADVERBS}(?:an? )?(?P<diet>vegetarian|vegan|pescatarian|lactose intolerant|gluten[- ]free|gluten intolerant)\b",
            (Give(slots.DIET, "{diet}"),),
        ),
        Rule(
            "diet over",
            r"I am (?:no longer|not) (?:an? )?(?P<diet>vegetarian|vegan|pescatarian)\b(?= any ?more|\s*$)|I stopped being (?:an? )?(?P<other>vegetarian|vegan|pescatarian)\b",
            (Give(slots.DIET, "{diet}", retracts=True), Give(slots.DIET, "{other}", retracts=True)),
        ),
        Rule(
            "does not eat",
            rf"I {ADVERBS}(?P<diet>(?:do not|never|cannot|can not) eat (?!anything|much|out|enough|breakfast yet|at|for|well|in|there|here|more|too|like|so|any\b)[\w\- ]+?){END}",
            (Give(slots.DIET, "{diet}", values.diet),),
        ),
        Rule(
            "eats again",
            rf"I {ADVERBS}eat (?P<diet>[\w\-]+(?: [\w\-]+)?) (?:again|now){END}",
            (Give(slots.DIET, "no {diet}", values.diet_over, retracts=True, if_known=True),),
        ),
        Rule(
            "smoking",
            rf"I {ADVERBS}(?P<smoking>do not smoke|never smoke|quit smoking|stopped smoking|gave up smoking|smoke (?:a lot|a pack a day|occasionally))\b",
            (Give(slots.SMOKING, "{smoking}"),),
        ),
        Rule(
            "alcohol",
            rf"I {ADVERBS}(?P<alcohol>do not drink(?: alcohol| at all|{END})|never drink(?: alcohol|{END})|quit drinking{END}|stopped drinking(?: alcohol|{END})|gave up (?:drinking|alcohol))",
            (Give(slots.ALCOHOL, "{alcohol}"),),
        ),
        Rule(
            "exercise",
            rf"I {ADVERBS}(?P<habit>(?:{words.EXERCISES})(?: [\w\- ]{{1,30}}?)? (?:every (?:\w+ )?(?:day|morning|evening|night|week|weekend|sunday|saturday|monday)|(?:once|twice|(?:two|three|four|five|\d) times) a week|on (?:weekends|weekdays|sundays|saturdays)|daily))\b",
            (Give(slots.EXERCISE, "{habit}"),),
        ),
    )


RULES: Final = (*_life_rules(), *_home_rules())
