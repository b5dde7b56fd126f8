"""What parsers are tried with: valid examples with something wrong, and long texts of one thing; and how long it takes.

The same seed makes the same variations.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

_ODD: Final = (
    *(b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc3", b"\n", b"\r", b"\x1b[31m", b"\x7f"),
    *(b"[", b"]", b"{", b"}", b'"', b"'", b"\\", b":", b",", b"<", b">", b"&", b"#", b"*", b"!", b"- ", b"? ", b"|"),
    *(rb"\u0000", rb"\ud83e", rb"\udd9c\ud83e", rb"\x", b"\\\n", b"&lt;", b"```json\n", b"<think>", b"</think>"),
    *(b"null", b"true", b"NaN", b"-0", b"1e999", b"-1e999", b"9" * 30, b"9" * 5_000, b"0.1e-400", b"1_0", b"0x1f"),
    *(b"[" * 3_000, b"{" * 200, b'{"a":' * 3_000, b"(" * 2_000, b" " * 5_000, "１２".encode(), "\u2028".encode()),
    *(b"9999-12-31T23:59:59.999999999+23:59", b"0000-00-00", b"0001-01-01T00:00:00+14:00", b"2026-02-30T25:61:61Z"),
    *(b"!!python/object:os.system", b"&a [*a]", b"<<: *a", b"---\n...", b"%YAML 9.9\n", b"!!binary x", b"!!int []"),
)
"""Bytes that parsers of JSON, YAML, times and model answers stumble over."""


@contextmanager
def within(seconds: float, what: object) -> Iterator[None]:
    """Check that a block takes no more than that of the processor, which is the same on a busy machine."""
    started = time.process_time()
    yield
    taken = time.process_time() - started
    assert taken < seconds, f"{taken:.2f} s for {str(what)[:80]!r}"


class Mutator:
    """Draws variations of valid examples.

    Args:
        examples: valid inputs of the parser.
        seed: draws the same variations again.
    """

    def __init__(self, examples: Sequence[bytes], seed: int = 0) -> None:
        self._examples = examples
        self._random = random.Random(seed)

    def draw(self, count: int) -> Iterator[bytes]:
        """Yield so many variations, each with one to eight changes."""
        for _ in range(count):
            data = self._random.choice(self._examples)
            for _ in range(self._random.choice((1, 1, 1, 2, 3, 8))):
                data = self._changed(data)
            yield data

    def _changed(self, data: bytes) -> bytes:
        start, end = sorted(self._random.randint(0, len(data)) for _ in range(2))
        match self._random.randrange(8):
            case 0:
                return data[:start] + bytes([self._random.randrange(256)]) + data[start + 1 :]
            case 1:
                return data[:start] + data[end:]
            case 2:
                return data[:start] + data[start:end] * self._random.randint(2, 4) + data[end:]
            case 3:
                return data[:start]
            case 4:
                other = self._random.choice(self._examples)
                return data[:start] + other[self._random.randint(0, len(other)) :]
            case 5:
                return data[:start] + self._random.choice(_ODD) + data[end:][:start]
            case _:
                return data[:start] + self._random.choice(_ODD) + data[start:]


UNITS: Final = (
    *("x", " ", "\n", "9", "-", ".", "#", "'", '"', "`", "\\", "[", "]", "{", "}", "(", "<", ">", ":", ",", "&", "*"),
    *("[]", "{}", '{"', '"}', "[{", "}]", '":', "', '", "```", "```json\n", "</", "<think>", "</think>", "&lt;"),
    *(
        '{"a":',
        '{"a":1},',
        '"a": "b",',
        "1.",
        "- ",
        "not ",
        "no, ",
        "user ",
        "says ",
        "http://",
        "www.",
        "a@",
        "用户",
        "我",
    ),
    *(
        "不",
        "“",
        "”",
        "「",
        "，",
        "。",
        "吗",
        "?",
        "a: b\n",
        "- a\n",
        "a'",
        "'a",
        "\\u0000",
        "\\ud83e",
        "é",
        "🦜",
        "\u0661",
        "\x00",
    ),
)
"""What a text is made of, repeated, that is to cost the square of its length."""


def long_texts(length: int) -> Iterator[str]:
    """Yield texts of about that length, each of one unit, plain and with a beginning or an end of another kind."""
    for unit in UNITS:
        text = unit * (length // len(unit))
        yield text
        yield f'{{"facts": "{text}'
        yield f"{text}!"
