"""English rules for how the user wants things to be: manner, times, tools, topics."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

from typing import Final

from agents.rules import slots
from agents.rules.english import values, words
from agents.rules.english.parts import ADVERBS, END, RATHER
from agents.rules.rulebook import Give, Rule

_ASK: Final = r"(?:from now on,? |in (?:the )?future,? |please |just |always |you (?:should|must|can) (?:always )?|could you please |I (?:would )?(?:prefer|like|want|need) (?:it )?(?:if you |when you |you to )?(?:always |just )?|when you (?:answer|reply),? |,)*"
_TONE: Final = (
    r"(?:more |less |very |really |super |too |overly )?(?:short(?:er)?|brief(?:er)?|concise|direct|succinct|to the point|detailed|thorough|in-depth|long(?:er|-winded)?|verbose|lengthy"
    r"|formal|informal|casual|friendly|funny|simple(?:r)?|plain|technical|step-by-step|honest|blunt)"
)
_ANSWER: Final = r"(?:answers?|reply|replies|responses?|explanations?|messages?|feedback|summaries|tone|style|language|communication)"
_SHAPE: Final = r"(?:bullet points?|bulleted lists?|lists?|tables?|paragraphs?|full sentences|code(?: (?:examples|samples|snippets|blocks))?|examples|diagrams?|charts?|markdown|emojis?|exclamation marks|jargon|technical terms)"
_WHEN: Final = rf"(?P<when>{words.PARTS_OF_TIME})"
_CONTACT: Final = r"(?:disturb|message|contact|remind|call|text|notify|ping|bother|wake|email|write to)"


def _manner_rules() -> tuple[Rule, ...]:
    manner = slots.COMMUNICATION
    return (
        Rule(
            "tone",
            rf"{_ASK}(?P<manner>(?:be|keep (?:it|things|this|that|(?:your|the) {_ANSWER})|make (?:it|(?:your|the) {_ANSWER})|give(?: me)?|i want|use|only) (?:a )?{_TONE}(?:(?:,| and|, and|,? but) {_TONE})*(?: {_ANSWER})?|get (?:straight |right )?to the point|(?:answer|reply|respond|explain|write) (?:me )?(?:briefly|in (?:short sentences|one sentence)|concisely|directly|formally|casually|shortly|in (?:great |more )?detail|step by step|in plain (?:english|words|language)|in simple (?:terms|words))|go into (?:more )?detail)(?: please| when(?:ever)? you (?:answer|reply|respond|write)(?: to)?(?: me)?)*{END}",
            (Give(manner, "{manner}"),),
            from_opening=True,
        ),
        Rule(
            "explanations",
            rf"{_ASK}(?P<manner>(?:skip|no|do not give me|without|spare me) (?:the |any |long )?explanations?|do not explain(?: (?:it|anything|everything))?|(?:always )?explain (?:why|your reasoning|everything|the reasons?))(?:,? please)?{END}",
            (Give(manner, "{manner}"),),
            from_opening=True,
        ),
        Rule(
            "shape",
            rf"{_ASK}(?P<manner>(?:use|give me|answer (?:in|with)|reply (?:in|with)|format (?:it|things|everything|your answers) (?:as|in)|show me|put it in|write in) (?:an? |the |more )?{_SHAPE})\b",
            (Give(manner, "{manner}"),),
            from_opening=True,
        ),
        Rule(
            "no such shape",
            rf"{_ASK}(?P<manner>(?:do not use|stop using|no|avoid|never use|without) (?:so many |any )?(?:{_SHAPE}|small talk|abbreviations))(?:,? please)?{END}",
            (Give(manner, "{manner}"),),
            from_opening=True,
        ),
        Rule(
            "wants a manner",
            rf"I {ADVERBS}(?:like|love|prefer|want|would (?:like|prefer)|need|appreciate|enjoy)(?: it when you give| getting| to get| having)?(?: me)?(?: my| your)? (?P<manner>{_TONE}(?:(?:,| and|, and|,? but) {_TONE})*,? {_ANSWER}|{_SHAPE}(?= (?:over|to|instead)\b|{END})|{_ANSWER} (?:to be |that are |as |in )(?:an? )?(?:{_TONE}|{_SHAPE}))",
            (Give(manner, "{manner}", values.manner),),
        ),
        Rule(
            "avoids a manner",
            rf"I {ADVERBS}(?:do not {ADVERBS}(?:like|want|need|enjoy)|hate|dislike|cannot stand|am tired of)(?: your| getting)? (?P<manner>{_TONE}(?:(?:,| and|, and) {_TONE})*,? {_ANSWER}|(?:all )?(?:these |those |the )?{_SHAPE}|small talk){END}",
            (Give(manner, "{manner}", values.manner, retracts=True),),
        ),
        Rule(
            "language of replies",
            rf"{_ASK}(?P<manner>(?:(?:answer|reply|talk|write|speak|respond|chat)(?: to me| with me)? (?:only )?in|speak(?= \w+ (?:to|with) me)|use(?= \w+ (?:to|when|with|for)\b)|let's (?:speak|use|talk in|chat in)) (?:simple |plain )?(?:{words.LANGUAGES}))\b",
            (Give(manner, "{manner}"),),
            from_opening=True,
        ),
    )


def _time_rules() -> tuple[Rule, ...]:
    return (
        Rule(
            "not at that time",
            rf"{_ASK}(?:do not|never|stop|avoid)(?: ever)? {_CONTACT}(?:ing)? me (?:with \w+ )?{_WHEN}{END}|(?:and )?{_WHEN.replace('<when>', '<second>')},? (?:please )?(?:do not|never) {_CONTACT} me{END}|{_ASK}no (?:messages|reminders|notifications|calls) {_WHEN.replace('<when>', '<third>')}{END}|I {ADVERBS}(?:do not (?:like|want)|hate) (?:to be|being|getting) (?:disturbed|called|contacted|messaged|reminded) {_WHEN.replace('<when>', '<fourth>')}{END}",
            (
                Give(slots.QUIET_TIMES, "{when}"),
                Give(slots.QUIET_TIMES, "{second}"),
                Give(slots.QUIET_TIMES, "{third}"),
                Give(slots.QUIET_TIMES, "{fourth}"),
            ),
            from_opening=True,
        ),
        Rule(
            "at that time",
            rf"(?:it is )?(?:best|better|please always|always|you can best) (?:to )?{_CONTACT} me {_WHEN}{END}|I {ADVERBS}(?:prefer|like) (?:to be|being) (?:called|contacted|messaged|reminded) {_WHEN.replace('<when>', '<second>')}{END}",
            (Give(slots.CONTACT_TIMES, "{when}"), Give(slots.CONTACT_TIMES, "{second}")),
            from_opening=True,
        ),
        Rule(
            "does then",
            rf"I {ADVERBS}(?:prefer|like|love|enjoy|am used to|tend) (?P<habit>(?:to )?(?!you\b|it\b)[a-z]+(?: (?!you\b|it\b|that\b|when\b)[\w\-]+){{0,4}}? (?:{words.PARTS_OF_TIME})){END}|I {ADVERBS}(?:prefer|like|love) (?P<time>mornings|evenings|nights|weekends|weekdays){END}",
            (Give(slots.TIME_HABITS, "{habit}", values.habit), Give(slots.TIME_HABITS, "{time}")),
        ),
    )


def _subject_rules() -> tuple[Rule, ...]:
    talk = r"(?:(?:talk|hear|read|chat|learn)(?:ing|ting)?(?: to (?:me|you)| with (?:me|you))? about|discuss(?:ing)?)"
    return (
        Rule(
            "tool",
            rf"I {ADVERBS}(?:use|work with|work in|code in|write in|am used to|prefer|like using|like to use|love using|prefer using|prefer to use|switched to|swear by|mainly use|mostly use) (?P<tool>{words.TOOLS})\b(?! (?:rolls?|developers?|programmer))",
            (Give(slots.TOOLS, "{tool}"),),
        ),
        Rule(
            "choice",
            rf"I {ADVERBS}prefer (?P<thing>[\w'+#\-]+(?: [\w'+#\-]+){{0,3}}?)(?P<than>{RATHER})(?P<other>[\w'+#\-]+(?: [\w'+#\-]+){{0,3}}?){END}",
            (Give(slots.CHOICES, "{thing} {than} {other}", values.phrase),),
        ),
        Rule(
            "topic unwanted",
            rf"{_ASK}(?:do not|never|stop) (?:{talk}|mention(?:ing)?|bring(?:ing)? up) (?P<topic>.+?)(?: (?:to|with) me| again| any ?more)?$|I {ADVERBS}(?:do not (?:want|like|wish) to|hate to|would rather not|am tired of|hate|do not (?:like|enjoy)|dislike) {talk} (?P<second>.+?)(?: any ?more)?$",
            (
                Give(slots.TOPICS, "{topic}", values.items, retracts=True),
                Give(slots.TOPICS, "{second}", values.items, retracts=True),
            ),
            from_opening=True,
        ),
        Rule(
            "not to be shown",
            rf"{_ASK}(?:do not|never|stop) (?:recommend(?:ing)?|send(?:ing)?|suggest(?:ing)?|show(?:ing)?)(?: me)? (?:any |more )?(?P<thing>.+?)(?: to me| again| any ?more)?$",
            (Give(slots.DISLIKES, "{thing}", values.items),),
            from_opening=True,
        ),
        Rule(
            "topic wanted",
            rf"I {ADVERBS}(?:like|love|enjoy|prefer) (?:to )?{talk} (?P<topic>.+)$",
            (Give(slots.TOPICS, "{topic}", values.items),),
        ),
    )


MANNERS: Final = _manner_rules()

RULES: Final = (*_time_rules(), *_subject_rules())
