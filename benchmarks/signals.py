"""How well and how fast signals are found: ``python -m benchmarks.signals [--json]``.

Quality is measured on the labelled sentences in ``benchmarks/labelled``. A label says which signals a careful reader
sees in a sentence, not which the detector finds. Sentences that are ``held_out`` were written after the word
lists. "Any signal" is the question that costs or spares a call: whether a sentence has one at all.

Speed is measured on messages of 100 characters, in one thread, by processor time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from itertools import chain
from typing import Final, get_args

import msgspec

from agents.signals import SignalDetector
from schemas.flushes import FactSignal, PreferenceSignal, Signals
from schemas.pipeline import Language

LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
ANY: Final = "any signal"
ALL: Final = "all signals"

CHARACTERS: Final = 100
"""Length of the messages that speed is measured on."""

TARGET: Final = 100_000
"""Messages a second on one core that every kind of message has to reach."""

_RUNS: Final = 7
_MESSAGES: Final = 10_000

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


def speed(text: str, detect: Callable[[str], Signals], runs: int = _RUNS, messages: int = _MESSAGES) -> float:
    """Return how many such messages are read in a second of processor time, the median of several runs."""
    rates: list[float] = []
    for _ in range(runs):
        started = time.process_time()
        for _ in range(messages):
            detect(text)
        rates.append(messages / (time.process_time() - started))
    return statistics.median(rates)


def measure() -> dict[str, dict[str, dict[str, object]]]:
    """Return quality and speed by language, as they are printed with ``--json``."""
    detector = SignalDetector()
    results: dict[str, dict[str, dict[str, object]]] = {"quality": {}, "speed": {}}
    for language in LANGUAGES:
        sentences = labelled(language)
        for part, chosen in (
            (language, [sentence for sentence in sentences if not sentence.held_out]),
            (f"{language}, held out", [sentence for sentence in sentences if sentence.held_out]),
        ):
            results["quality"][part] = {
                "sentences": len(chosen),
                "with_signals": sum(bool(sentence.signals) for sentence in chosen),
                **{name: _figures(score) for name, score in scores(chosen, detector.detect).items()},
            }
        results["speed"][language] = {
            kind: round(speed(sample(language, kind), detector.detect)) for kind in _SAMPLES[language]
        }
    return results


def _figures(score: Score) -> dict[str, float]:
    shares = {"precision": score.precision, "recall": score.recall, "f1": score.f1}
    return {**asdict(score), **{name: round(share, 3) for name, share in shares.items()}}


def _print(results: dict[str, dict[str, dict[str, object]]]) -> None:
    for part, figures in results["quality"].items():
        print(f"{part}: {figures['sentences']} sentences, {figures['with_signals']} with signals")
        print(f"  {'':<14}{'precision':>10}{'recall':>10}{'F1':>10}{'there':>8}")
        for name, score in figures.items():
            if isinstance(score, dict):
                there = score["right"] + score["missed"]
                print(f"  {name:<14}{score['precision']:>10.3f}{score['recall']:>10.3f}{score['f1']:>10.3f}{there:>8}")
    print(f"messages of {CHARACTERS} characters a second (target: {TARGET:,})")
    for language, rates in results["speed"].items():
        print(f"  {language}: " + ", ".join(f"{kind} {rate:,}" for kind, rate in rates.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 when a kind of message is read more slowly than the target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.signals", description=main.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    results = measure()
    if parser.parse_args(arguments).json:
        print(json.dumps(results, ensure_ascii=False, indent=2))
    else:
        _print(results)
    rates = chain.from_iterable(rates.values() for rates in results["speed"].values())
    return int(any(isinstance(rate, int) and rate < TARGET for rate in rates))


if __name__ == "__main__":
    sys.exit(main())
