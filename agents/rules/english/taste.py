"""English rules about what the user likes, dislikes and does."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

from typing import Final

from agents.rules import slots
from agents.rules.english import values, words
from agents.rules.english.parts import ADVERBS, FAVORITES, LIKE, LIKE_BARE, NO_MORE, RATHER
from agents.rules.rulebook import Give, Rule


def _like_rules() -> tuple[Rule, ...]:
    like, dislike = slots.LIKES, slots.DISLIKES
    thing = r"(?P<thing>.+)"
    not_more = rf"I {ADVERBS}(?:(?:do not|never) {ADVERBS}{LIKE_BARE}|cannot stand|can not stand|cannot bear) (?P<thing>.+?){NO_MORE}"
    return (
        Rule(
            "likes",
            rf"I {ADVERBS}(?!prefer .+{RATHER}){LIKE} (?!to be\b){thing}(?<! now)(?<! again)$",
            (Give(like, "{thing}", values.items),),
        ),
        Rule(
            "likes now",
            rf"I {ADVERBS}(?!prefer .+{RATHER}){LIKE} (?!to be\b)(?P<thing>.+?) (?:now|again|these days)$",
            (Give(like, "{thing}", values.items, flips=True),),
        ),
        Rule(
            "came to like",
            rf"I (?:have |just |recently )*(?:started to|started|come to|came to|began to|begun to|grown to|learned to|learnt to) (?:like|love|enjoy|liking|loving|enjoying) {thing}$",
            (Give(like, "{thing}", values.items, flips=True),),
        ),
        Rule(
            "fell in love with",
            rf"I (?:have |just |recently )*(?:fell|fallen) in love with {thing}$",
            (Give(like, "{thing}", values.items, flips=True),),
        ),
        Rule(
            "dislikes",
            rf"I {ADVERBS}(?:do not {ADVERBS}(?:like|enjoy|care for)|dislike|hate|detest|cannot stand|can not stand|cannot bear|am not (?:a (?:big |huge )?fan of|fond of|into|keen on)) (?!.*{NO_MORE}){thing}$",
            (Give(dislike, "{thing}", values.items),),
        ),
        Rule(
            "does not like any more",
            not_more,
            (
                Give(like, "{thing}", values.items, retracts=True),
                Give(dislike, "{thing}", values.items, flips=True),
            ),
        ),
        Rule(
            "no longer likes",
            rf"I {ADVERBS}(?:no longer {ADVERBS}(?:like|love|enjoy|care for)|stopped (?:liking|loving|enjoying)|(?:am|have) (?:gone off|no longer (?:into|a fan of|fond of|interested in)|not (?:into|interested in))) (?P<thing>.+?)(?:{NO_MORE})?$",
            (Give(like, "{thing}", values.items, retracts=True),),
        ),
        Rule(
            "no longer dislikes",
            rf"I {ADVERBS}(?:no longer {ADVERBS}(?:hate|dislike|mind)|do not {ADVERBS}(?:hate|dislike)(?=.*{NO_MORE})|stopped (?:hating|disliking)) (?P<thing>.+?)(?:{NO_MORE})?$",
            (Give(dislike, "{thing}", values.items, retracts=True),),
        ),
        Rule(
            "favourite",
            rf"my (?:all-time |absolute )?favou?rite (?P<kind>{FAVORITES}) (?:is|are|has always been) (?:called )?(?:still |definitely |probably )?{thing}$",
            (Give(("interest", "{kind}"), "{thing}", values.items),),
            names=words.FAVORITES,
        ),
        Rule(
            "hobbies",
            rf"(?:my (?:main |biggest |favou?rite )?(?:hobby|hobbies|pastime|passion) (?:is|are|include|includes)|one of my hobbies is) {thing}$",
            (Give(slots.HOBBIES, "{thing}", values.items),),
        ),
        Rule(
            "sports",
            rf"I {ADVERBS}play (?P<sport>{words.SPORTS})\b(?! (?:with you|games? with you))",
            (Give(slots.SPORTS, "{sport}"),),
        ),
        Rule(
            "instruments",
            rf"I {ADVERBS}play (?:the )?(?P<instrument>{words.INSTRUMENTS})\b",
            (Give(slots.INSTRUMENTS, "{instrument}"),),
        ),
        Rule(
            "learning",
            rf"I (?:am|have been) {ADVERBS}(?:learning|teaching myself)(?: how)? (?P<thing>.+)$|I {ADVERBS}(?:started|began) (?:learning|taking lessons in|to learn)(?: how)? (?P<other>.+)$",
            (Give(slots.LEARNING, "{thing}", values.lesson), Give(slots.LEARNING, "{other}", values.lesson)),
        ),
    )


RULES: Final = _like_rules()
