"""What the model costs: calls and tokens of every stage, for files of conversations, with a scripted model.

``python -m benchmarks.model_cost --budgets 256,512,1024,2048 FILE...`` windows the messages of each user as the worker
does, and runs every window through all the stages, with the real client and real HTTP, against a server on loopback
that answers by the rules. It prints calls and tokens for 1,000 messages, by stage and with the static part of the
prompts apart, beside those of the anchor: a pipeline that always makes three calls a flush. Where it measures as the
anchor was measured (windows that only 1,024 tokens close, no event tags) it ends with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from agents.extract import extract
from agents.llm import LLMProcessor
from agents.merge import merge_flush
from agents.policy import MergePolicy
from agents.processor import SlotName
from agents.slots import slot_definitions
from agents.summary import summarise
from agents.tag import tag
from benchmarks.load.machine import Machine, this_machine
from benchmarks.load.report import Finding
from benchmarks.model_server import ModelServer, Request
from benchmarks.recorded import Result, Table, add_options, finish
from benchmarks.scripted_answers import ScriptedModel
from schemas.flushes import BatchMessage, FlushBatch, FlushRef
from schemas.ids import flush_id
from schemas.messages import ChatMessage, decode_message
from schemas.pipeline import EventTagDefinition, Language, PipelineConfig
from schemas.profiles import Profile, ProfileState, unify
from streams.settings import ModelSettings
from streams.tokens import count_tokens
from streams.windows import Closed, WindowPolicy, Windows

ROUTINE: Final = ("summary", "extract", "tag", "merge")
DEFAULT_BUDGET: Final = 1024

_TOKENS: Final = ("static", "payload", "completion")
_LOG: Final = "benchmark"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TAGS: Final = (
    EventTagDefinition(name="emotion", description="how the user feels"),
    EventTagDefinition(name="goal", description="what the user wants to reach"),
)


@dataclass(frozen=True)
class Anchor:
    """What a pipeline of three calls a flush spends on the same files, at a budget of 1,024 tokens without event tags.

    Attributes:
        calls: for 1,000 messages.
        static: prompt tokens that every call repeats, for 1,000 messages.
    """

    calls: int
    static: int


ANCHORS: Final[dict[Language, Anchor]] = {
    "en": Anchor(calls=138, static=144_500),
    "zh": Anchor(calls=143, static=150_000),
}
MOST_CALLS_A_FLUSH: Final = 3
MOST_CALLS: Final = 100
"""For 1,000 messages."""

MOST_OF_STATIC: Final = 0.6
"""Share of the anchor's static tokens."""


@dataclass
class Stage:
    """What one stage has cost: calls, and o200k tokens."""

    calls: int = 0
    static: int = 0
    payload: int = 0
    completion: int = 0


@dataclass
class Cost:
    """What all flushes of some files have cost.

    Attributes:
        most_calls: routine calls of the flush that had most of them.
    """

    messages: int = 0
    flushes: int = 0
    most_calls: int = 0
    stages: dict[str, Stage] = field(default_factory=dict)
    calls_a_flush: Counter[int] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    deltas: Counter[str] = field(default_factory=Counter)

    @property
    def routine(self) -> Stage:
        """The sum over the stages that every flush may go through."""
        total = Stage()
        for stage in (self.stages[name] for name in ROUTINE if name in self.stages):
            total.calls += stage.calls
            total.static += stage.static
            total.payload += stage.payload
            total.completion += stage.completion
        return total

    def per_thousand(self, value: int) -> float:
        """Return a figure for 1,000 messages."""
        return 1000 * value / self.messages


async def measure(messages: Sequence[ChatMessage], config: PipelineConfig, policy: WindowPolicy, *, idle: bool) -> Cost:
    """Run the messages through windows and stages, and return what it cost."""
    cost = Cost(messages=len(messages))
    model = ScriptedModel(config)

    async def answer(request: Request) -> dict[str, Any]:
        said = await model(request)
        stage = cost.stages.setdefault(request.stage or "", Stage())
        stage.calls += 1
        stage.static += count_tokens(request.system)
        stage.payload += count_tokens(request.user)
        stage.completion += count_tokens(json.dumps(said, ensure_ascii=False))
        return said

    async with ModelServer(answer) as server:
        settings = ModelSettings(processor="llm", base_url=server.url, name="scripted")
        processor = LLMProcessor(settings, config)
        try:
            await _run(messages, config, processor, Windows(policy), cost, idle=idle)
        finally:
            await processor.close()
    return cost


async def _run(
    messages: Sequence[ChatMessage],
    config: PipelineConfig,
    processor: LLMProcessor,
    windows: Windows[BatchMessage],
    cost: Cost,
    *,
    idle: bool,
) -> None:
    states: dict[str, ProfileState] = {}
    definitions = slot_definitions(config)
    allowed = frozenset(definitions) if config.profile_strict_mode else None
    tags = {unify(each.name) for each in config.event_tags}
    policy = MergePolicy(pipeline_version="benchmark", allowed=allowed)
    for batch in _batches(messages, windows, idle=idle):
        user = batch.ref.user_id
        state = states.get(user) or ProfileState(profile=Profile(tenant_id=batch.ref.tenant_id, user_id=user))
        known: list[SlotName] = [slot.key for slot in state.profile.slots]
        memo = await summarise(batch, processor, known)
        extracted, tagged = await asyncio.gather(extract(memo, processor, known, allowed), tag(memo, processor, tags))
        state = await merge_flush(
            state, extracted, tagged, processor=processor, policy=policy, now=batch.ref.last_occurred_at
        )
        states[user] = state
        assert state.event is not None
        calls = sum(call.stage in ROUTINE for call in state.event.calls)
        cost.flushes += 1
        cost.most_calls = max(cost.most_calls, calls)
        cost.calls_a_flush[calls] += 1
        cost.outcomes[state.event.outcome] += 1
        cost.deltas.update(delta.op for delta in state.deltas)


def _batches(messages: Sequence[ChatMessage], windows: Windows[BatchMessage], *, idle: bool) -> list[FlushBatch]:
    """Window the messages; the clock stands still, or, with `idle`, goes by when they were written."""
    closed: list[Closed[BatchMessage]] = []
    now = 0.0
    for offset, message in enumerate(messages):
        held = BatchMessage(
            message_id=message.message_id or str(offset),
            offset=offset,
            role=message.role or "user",
            content=message.content,
            occurred_at=message.occurred_at or _EPOCH,
            session_id=message.session_id,
        )
        if idle:
            now = held.occurred_at.timestamp()
            closed += windows.due(now)
        tokens = count_tokens(message.content)
        closed += windows.add(message.key, held, tokens=tokens, session=message.session_id, now=now)
    closed += windows.close_all("flush")
    return [_batch(window) for window in closed]


def _batch(window: Closed[BatchMessage]) -> FlushBatch:
    tenant_id, user_id = window.key.decode().split(":", 1)
    messages = tuple(window.items)
    first, last = messages[0].offset, messages[-1].offset
    times = [message.occurred_at for message in messages]
    ref = FlushRef(
        flush_id=flush_id(_LOG, tenant_id, user_id, "memo", 0, first, last),
        tenant_id=tenant_id,
        user_id=user_id,
        lane="memo",
        log_id=_LOG,
        partition=0,
        first_offset=first,
        last_offset=last,
        trigger=window.trigger,
        opened_at=min(times),
        closed_at=max(times),
        first_occurred_at=min(times),
        last_occurred_at=max(times),
        message_count=len(messages),
        token_count=window.tokens,
    )
    return FlushBatch(ref=ref, messages=messages)


def findings(cost: Cost, language: Language) -> list[Finding]:
    """Return the figures that have targets, beside those of the anchor."""
    anchor = ANCHORS[language]
    calls = cost.per_thousand(cost.routine.calls)
    static = cost.per_thousand(cost.routine.static)
    share = static / anchor.static
    return [
        Finding(
            what="routine calls of the flush that made most",
            value=f"{cost.most_calls}",
            target=f"at most {MOST_CALLS_A_FLUSH}",
            met=cost.most_calls <= MOST_CALLS_A_FLUSH,
        ),
        Finding(
            what="calls for 1,000 messages",
            value=f"{calls:.1f} (anchor {anchor.calls})",
            target=f"at most {MOST_CALLS}",
            met=calls <= MOST_CALLS,
        ),
        Finding(
            what="static prompt tokens for 1,000 messages",
            value=f"{static:,.0f}: {share:.1%} of the anchor's {anchor.static:,}",
            target=f"at most {MOST_OF_STATIC:.0%} of the anchor's",
            met=share <= MOST_OF_STATIC,
        ),
    ]


def _load(file: Path) -> list[ChatMessage]:
    with file.open("rb") as lines:
        messages = [decode_message(line) for line in lines if line.strip()]
    return [message for message in messages if message.type == "message"]


def _language(messages: Sequence[ChatMessage]) -> Language:
    text = "".join(message.content for message in messages)
    return "zh" if sum("\u4e00" <= character <= "\u9fff" for character in text) > len(text) / 4 else "en"


@dataclass(frozen=True)
class Run:
    """What one file has cost at one budget."""

    file: str
    budget: int
    language: Language
    cost: Cost

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return f"{self.file} ({self.language})"

    def data(self) -> dict[str, Any]:
        """Return it for programs."""
        counted: dict[str, Any] = msgspec.to_builtins(self.cost, str_keys=True)
        about = {"file": self.file, "budget": self.budget, "language": self.language}
        return {**about, **counted, "routine": asdict(self.cost.routine)}


def result(runs: Sequence[Run], options: argparse.Namespace, machine: Machine) -> Result:
    """Return what was counted, for a report; only what was counted as the anchor was has targets."""
    comparable = not (options.tags or options.idle)
    windows = "ten idle minutes, by `occurred_at`, and the budget" if options.idle else "the budget alone"
    return Result(
        title="What a model costs",
        command=_command(options),
        machine=machine,
        settings={
            "files": ", ".join(f"{run.file}, {run.cost.messages:,} messages" for run in _first_of_each(runs)),
            "windows closed by": windows,
            "event tags": "two" if options.tags else "none",
            "model": "scripted: it answers by the rules, so what a file says decides how often a stage is asked",
            "counted": "o200k tokens; static is the system prompt, which every call of a stage repeats",
        },
        findings=tuple(
            replace(finding, what=f"{run.name}: {finding.what}")
            for run in runs
            if comparable and run.budget == DEFAULT_BUDGET
            for finding in findings(run.cost, run.language)
        ),
        tables=(
            _sizes(runs),
            *map(_stages, runs),
        ),
        data={"runs": [run.data() for run in runs]},
        timed=False,
    )


def _first_of_each(runs: Sequence[Run]) -> list[Run]:
    return list({run.file: run for run in reversed(runs)}.values())[::-1]


def _command(options: argparse.Namespace) -> str:
    budgets = ",".join(map(str, options.budgets))
    flags = "".join(f" --{name}" for name in ("idle", "tags") if getattr(options, name))
    return f"python -m benchmarks.model_cost --budgets {budgets}{flags} {' '.join(file.name for file in options.files)}"


def _sizes(runs: Sequence[Run]) -> Table:
    """Return a row for each run: what 1,000 messages cost in all routine stages."""
    rows = []
    for run in runs:
        cost, routine = run.cost, run.cost.routine
        static, payload, completion = (
            cost.per_thousand(value) for value in (routine.static, routine.payload, routine.completion)
        )
        rows.append(
            (
                f"{run.name}, {run.budget:,}",
                f"{cost.flushes:,}",
                f"{routine.calls / cost.flushes:.2f}",
                f"{cost.per_thousand(routine.calls):,.1f}",
                *(f"{value:,.0f}" for value in (static, payload, completion, static + payload + completion)),
            )
        )
    return Table(
        title="For 1,000 messages, by window budget",
        columns=("file, budget", "flushes", "calls a flush", "calls", *_TOKENS, "all tokens"),
        rows=tuple(rows),
    )


def _stages(run: Run) -> Table:
    cost = run.cost
    rows = [
        (
            name,
            f"{cost.per_thousand(stage.calls):,.1f}",
            *(f"{cost.per_thousand(value):,.0f}" for value in (stage.static, stage.payload, stage.completion)),
        )
        for name, stage in (*cost.stages.items(), ("routine", cost.routine))
    ]
    return Table(
        title=f"{run.name}, budget {run.budget:,}: for 1,000 messages, by stage",
        columns=("stage", "calls", *_TOKENS),
        rows=tuple(rows),
    )


def _budgets(text: str) -> tuple[int, ...]:
    budgets = tuple(int(part) for part in text.split(","))
    if min(budgets) < 1:
        raise ValueError(text)
    return budgets


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.model_cost", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON lines of chat messages")
    parser.add_argument(
        "--budgets", type=_budgets, default=(DEFAULT_BUDGET,), metavar="N,N", help="tokens of a window, one or several"
    )
    parser.add_argument("--idle", action="store_true", help="close windows after ten idle minutes, by `occurred_at`")
    parser.add_argument("--tags", action="store_true", help="with event tags")
    add_options(parser, "model_cost.md")
    options = parser.parse_args(arguments)
    machine = this_machine()
    runs: list[Run] = []
    for file in options.files:
        messages = _load(file)
        config = PipelineConfig(language=_language(messages), event_tags=_TAGS if options.tags else ())
        for budget in options.budgets:
            print(f"{file.name}, windows of {budget:,} tokens ...", file=sys.stderr, flush=True)
            cost = asyncio.run(measure(messages, config, WindowPolicy(tokens=budget), idle=options.idle))
            runs.append(Run(file.name, budget, config.language, cost))
            print(
                f"{cost.messages:,} messages, {cost.flushes:,} flushes {dict(cost.outcomes)}, calls a flush "
                f"{dict(sorted(cost.calls_a_flush.items()))}, deltas {dict(cost.deltas)}",
                file=sys.stderr,
            )
    return finish(result(runs, options, machine), options)


if __name__ == "__main__":
    sys.exit(main())
