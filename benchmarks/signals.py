"""How well and how fast signals are found: ``python -m benchmarks.signals [--record] [--json]``.

Quality is measured on the labelled sentences in ``benchmarks/labelled``. A label says which signals a careful reader
sees in a sentence, not which the detector finds. Sentences that are ``held_out`` were written after the word
lists. "Any signal" is the question that costs or spares a call: whether a sentence has one at all.

Speed is measured on messages of 100 characters, in one thread, by processor time, many short runs of each kind in
turn. The best run says what the detector takes; the others what a processor with other work to do adds to it (see the
documentation of `timeit.Timer.repeat`).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from typing import Final, NamedTuple, get_args

import msgspec

from agents.signals import SignalDetector
from benchmarks.load.machine import this_machine
from benchmarks.load.report import Finding
from benchmarks.recorded import Result, Table, add_options, finish
from schemas.flushes import FactSignal, PreferenceSignal, Signals
from schemas.pipeline import Language

LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
ANY: Final = "any signal"
ALL: Final = "all signals"

CHARACTERS: Final = 100
"""Length of the messages that speed is measured on."""

TARGET: Final = 100_000
"""Messages a second on one core that every kind of message has to reach."""

_ROUNDS: Final = 60
_MESSAGES: Final = 1_000

_SAMPLES: Final[dict[Language, dict[str, str]]] = {
    "zh": {
        "none": "请把下面的会议纪要整理成三段，第一段写背景，第二段写结论，第三段写分工，标题居中。",
        "one": "你好，我叫小陈。请把下面的会议纪要整理成三段，第一段写背景，第二段写结论，第三段写分工。",
        "many": "我在杭州工作，老板姓张，平时喜欢简短的回复。我女儿刚上小学，周末要陪她练琴；我对花生过敏，"
        "不要推荐坚果。请把这些考虑进去，安排一份两天的行程，第一天看湖，第二天看山，预算三千元，酒店靠近地铁站。",
    },
    "en": {
        "none": "Please turn the minutes below into three sections: background, results, and who does what. ",
        "one": "Hi, my name is Ann. Please turn the minutes below into three sections: background and results. ",
        "many": "I live in Leeds, my wife hates olives, I have two kids, I prefer short answers at weekends. ",
    },
}

_HOW_MANY: Final = {"none": "no signal", "one": "one signal", "many": "five and more"}


class Labelled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sentence and the signals that it holds."""

    text: str
    facts: tuple[FactSignal, ...]
    preferences: tuple[PreferenceSignal, ...]
    held_out: bool = False

    @property
    def signals(self) -> Signals:
        """The label as what a detector would answer."""
        return Signals(facts=self.facts, preferences=self.preferences)


def labelled(language: Language) -> list[Labelled]:
    """Return the labelled sentences of a language."""
    file = resources.files("benchmarks").joinpath("labelled", f"signals_{language}.jsonl")
    return [msgspec.json.decode(line, type=Labelled) for line in file.read_bytes().splitlines()]


@dataclass
class Score:
    """How often something was found rightly and wrongly, and how often missed."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    def count(self, expected: bool, found: bool) -> None:
        """Count one decision."""
        self.right += expected and found
        self.wrong += found and not expected
        self.missed += expected and not found

    @property
    def precision(self) -> float:
        """Share of what was found that is right; 1 where nothing was found."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """Share of what is there that was found; 1 where nothing is there."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def scores(sentences: Iterable[Labelled], detect: Callable[[str], Signals]) -> dict[str, Score]:
    """Return the scores for each signal, for `ALL` of them together and for `ANY`."""
    kinds: tuple[str, ...] = (*get_args(FactSignal), *get_args(PreferenceSignal))
    table = {name: Score() for name in (ANY, ALL, *kinds)}
    for sentence in sentences:
        expected, found = _kinds(sentence.signals), _kinds(detect(sentence.text))
        table[ANY].count(bool(expected), bool(found))
        for kind in kinds:
            table[kind].count(kind in expected, kind in found)
            table[ALL].count(kind in expected, kind in found)
    return table


def _kinds(signals: Signals) -> set[str]:
    return set(chain[str](signals.facts, signals.preferences))


def sample(language: Language, kind: str) -> str:
    """Return a message of `CHARACTERS` characters with ``none``, ``one`` or ``many`` signals in it."""
    filling = _SAMPLES[language]["none"]
    return (_SAMPLES[language][kind] + filling * CHARACTERS)[:CHARACTERS]


class Speed(NamedTuple):
    """Messages that were read in a second of processor time: in the best run, and in the median of all."""

    best: float
    median: float


def speeds(
    texts: Sequence[str], detect: Callable[[str], Signals], rounds: int = _ROUNDS, messages: int = _MESSAGES
) -> list[Speed]:
    """Return how fast each text is read; in every round each is read `messages` times."""
    rates: list[list[float]] = [[] for _ in texts]
    for _ in range(rounds):
        for text, measured in zip(texts, rates, strict=True):
            started = time.process_time()
            for _ in range(messages):
                detect(text)
            measured.append(messages / (time.process_time() - started))
    return [Speed(max(measured), statistics.median(measured)) for measured in rates]


def measure() -> Result:
    """Return quality and speed by language."""
    machine = this_machine()
    detector = SignalDetector()
    quality: dict[str, dict[str, Score]] = {}
    for language in LANGUAGES:
        sentences = labelled(language)
        for part, held_out in ((language, False), (f"{language}, held out", True)):
            chosen = [sentence for sentence in sentences if sentence.held_out is held_out]
            quality[part] = scores(chosen, detector.detect)
    kinds = [(language, kind) for language in LANGUAGES for kind in _SAMPLES[language]]
    fast = dict(zip(kinds, speeds([sample(*kind) for kind in kinds], detector.detect), strict=True))
    return Result(
        title="How well and how fast signals are found",
        command="python -m benchmarks.signals",
        machine=machine,
        settings={
            "sentences": "benchmarks/labelled/signals_*.jsonl; those held out were written after the word lists",
            "messages": f"of {CHARACTERS} characters, {_ROUNDS} runs of {_MESSAGES:,} of each kind in turn",
            "measured": "processor time of one thread",
        },
        findings=tuple(
            Finding(
                what=f"{language}, {_HOW_MANY[kind]}: messages a second on one core, best (median)",
                value=f"{speed.best:,.0f} ({speed.median:,.0f})",
                target=f"at least {TARGET:,}",
                met=speed.best >= TARGET,
            )
            for (language, kind), speed in fast.items()
        ),
        tables=tuple(_table(part, by_name) for part, by_name in quality.items()),
        data={
            "quality": {part: dict(map(_figures, by_name.items())) for part, by_name in quality.items()},
            "speed": {f"{language}, {kind}": speed._asdict() for (language, kind), speed in fast.items()},
        },
    )


def _table(part: str, by_name: dict[str, Score]) -> Table:
    return Table(
        title=f"Labelled sentences: {part}",
        columns=("signal", "there", "found rightly", "wrongly", "precision", "recall", "F1"),
        rows=tuple(
            (
                name,
                *(f"{count:,}" for count in (score.right + score.missed, score.right, score.wrong)),
                *(f"{share:.3f}" for share in (score.precision, score.recall, score.f1)),
            )
            for name, score in by_name.items()
        ),
    )


def _figures(named: tuple[str, Score]) -> tuple[str, dict[str, float]]:
    name, score = named
    counts = {"right": score.right, "wrong": score.wrong, "missed": score.missed}
    shares = {"precision": score.precision, "recall": score.recall, "f1": score.f1}
    return name, {**counts, **{share: round(value, 3) for share, value in shares.items()}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 when a kind of message is read more slowly than the target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.signals", description=main.__doc__)
    add_options(parser, "signals.md")
    options = parser.parse_args(arguments)
    return finish(measure(), options)


if __name__ == "__main__":
    sys.exit(main())
