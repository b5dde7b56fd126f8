"""Chinese rules about what the user likes, dislikes and does."""

from __future__ import annotations

from typing import Final

from agents.rules import slots
from agents.rules.chinese import values, words
from agents.rules.chinese.parts import ADVERBS, DISLIKE, FAVORITES, LIKE, RATHER, THING
from agents.rules.rulebook import Give, Rule


def _like_rules() -> tuple[Rule, ...]:
    like, dislike = slots.LIKES, slots.DISLIKES
    return (
        Rule(
            "likes",
            rf"我{ADVERBS}{LIKE}了?(?!了|的|.*{RATHER}){THING}(?<!了)$",
            (Give(like, "{thing}", values.items),),
        ),
        Rule(
            "interested in",
            rf"我{ADVERBS}对(?P<thing>[^你他她]{{1,12}}?){ADVERBS}(?:十分|相当|颇)?(?<!不)(?:感兴趣|有兴趣)$",
            (Give(like, "{thing}", values.items),),
        ),
        Rule(
            "likes now",
            rf"我{ADVERBS}(?:现在|又|开始|变得|渐渐|慢慢|反而|居然|竟然)+{ADVERBS}{LIKE}了?(?P<thing>.+?)了?$|我{ADVERBS}{LIKE}(?P<other>.+?)了$",
            (Give(like, "{thing}", values.items, flips=True), Give(like, "{other}", values.items, flips=True)),
        ),
        Rule(
            "dislikes",
            rf"我(?!{ADVERBS}不再){ADVERBS}{DISLIKE}(?!了|的){THING}(?<!了)$",
            (Give(dislike, "{thing}", values.items),),
        ),
        Rule(
            "does not like any more",
            rf"我{ADVERBS}{DISLIKE}(?P<thing>.+?)了$",
            (Give(like, "{thing}", values.items, retracts=True), Give(dislike, "{thing}", values.items, flips=True)),
        ),
        Rule(
            "no longer likes",
            rf"我{ADVERBS}(?:不再|没那么|没以前那么|不怎么再){ADVERBS}(?:喜欢|爱|热爱|迷恋)(?P<thing>.+?)了?$",
            (Give(like, "{thing}", values.items, retracts=True),),
        ),
        Rule(
            "no longer dislikes",
            rf"我{ADVERBS}(?:不再|不|没那么){ADVERBS}讨厌(?P<thing>.+?)了?$",
            (Give(dislike, "{thing}", values.items, retracts=True),),
        ),
        Rule(
            "favourite",
            rf"我(?:最|特别|比较|平时|一直)*(?:喜欢|爱)(?:看|吃|听|喝|玩|读)?的(?:一[部本首道个位种])?(?P<kind>{FAVORITES})(?:是|就是|还是|当然是|叫)(?:做)?{THING}$",
            (Give(("interest", "{kind}"), "{thing}", values.items),),
            names=words.FAVORITES,
        ),
        Rule(
            "hobbies",
            rf"我的?(?:业余|兴趣|最大的|主要的?)*(?:爱好|兴趣)(?:主要)?(?:是|有|包括|就是){THING}$",
            (Give(slots.HOBBIES, "{thing}", values.items),),
        ),
        Rule(
            "sports",
            rf"我{ADVERBS}(?:会|常|每[周天].{{0,4}})*(?:打|踢)(?P<sport>{words.SPORTS})(?:$|的?时|，)",
            (Give(slots.SPORTS, "{sport}"),),
        ),
        Rule(
            "instruments",
            rf"我{ADVERBS}(?:会|在学|在练|练了?.{{0,3}}年?)(?:弹|拉|吹|打)?(?P<instrument>{words.INSTRUMENTS})",
            (Give(slots.INSTRUMENTS, "{instrument}"),),
        ),
        Rule(
            "learning",
            rf"我{ADVERBS}(?:(?:在|正在)(?:自学|学习?)|开始(?:自学|学习?)|报(?:名)?了)(?!了)(?:着)?(?P<thing>.+?)(?:了|班|课程?)?$",
            (Give(slots.LEARNING, "{thing}", values.lesson),),
        ),
    )


RULES: Final = _like_rules()
