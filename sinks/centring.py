"""Takes out of an embedding what it owes to its language and not to its meaning.

Vectors of multilingual-e5-small all point roughly the same way, and those of one language still more so: a
Chinese question is nearer to every Chinese passage than to the English one that answers it. Without the mean
of its language, what is left of a vector is mostly meaning. On 37 questions about 24 passages, Chinese and
English mixed, the right passage comes first for 36 instead of 28.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

# Everyday sentences about different things, the same ones in each language, so that their mean says nothing but
# the language. Changing them changes every vector: the embedder needs a new name then.
CHINESE: Final = (
    "我最喜欢的食物是汤。",
    "你在看哪本书？",
    "火车九点开。",
    "音乐让我放松。",
    "她不喜欢吵闹的地方。",
    "爱好：园艺",
    "他上周买了一部新手机。",
    "我最近总觉得很累。",
)
ENGLISH: Final = (
    "My favourite food is soup.",
    "Which book are you reading?",
    "The train leaves at nine.",
    "Music helps me to relax.",
    "She does not like loud places.",
    "hobby: gardening",
    "He bought a new phone last week.",
    "I have been feeling tired lately.",
)

_CHARACTER_OR_WORD: Final = re.compile(r"([\u3400-\u9fff])|[^\W\d_\u3400-\u9fff]+")


class Centring:
    """Centres the vectors of one model and one kind of text: passages and queries have means of their own."""

    def __init__(self, encode: Callable[[str], Array]) -> None:
        """Embed the sample sentences, which takes as long as other short texts do."""
        self._chinese = _mean(encode, CHINESE)
        self._english = _mean(encode, ENGLISH)

    def __call__(self, text: str, vector: Array) -> Array:
        """Return the vector of this text without the mean of its language, with length 1."""
        share = chinese_share(text)
        centred: Array = vector - share * self._chinese - (1.0 - share) * self._english
        return centred / np.float32(np.linalg.norm(centred))


def chinese_share(text: str) -> float:
    """Return how much of a text is Chinese, a character counting as much as a word; 0.5 if it has neither."""
    found = [match[1] is not None for match in _CHARACTER_OR_WORD.finditer(text)]
    return sum(found) / len(found) if found else 0.5


def _mean(encode: Callable[[str], Array], texts: tuple[str, ...]) -> Array:
    mean: Array = np.mean([encode(text) for text in texts], axis=0, dtype=np.float32)
    return mean
