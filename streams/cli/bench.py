"""``profilestream bench``: made-up traffic through workers of its own, and what it took."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from streams.cli.common import (
    EXIT_FAILED,
    CommandFailed,
    Options,
    on_terminal,
    settings_options,
    stderr_console,
    stdout_console,
)
from streams.cli.parameters import Text

if TYPE_CHECKING:
    from benchmarks.load.plan import Plan
    from benchmarks.load.report import Report
    from streams.settings import Settings

_PRESETS: Final = ("pipeline", "model-bound", "latency", "two-workers")
_SHARE: Final = click.FloatRange(0.0, 1.0)
_STDOUT: Final = Path("-")

_output = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


@click.command()
@click.argument("preset", required=False, type=click.Choice(_PRESETS))
@click.option("--messages", type=click.IntRange(1), help="Messages to send.  [default: 20,000]")
@click.option("--users", type=click.IntRange(1), help="Users who write them.  [default: 500]")
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), help="Messages a second.  [default: as fast as it goes]"
)
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="With --rate, in place of --messages.")
@click.option(
    "--burst", type=Text(), metavar="ON:OFF", help="Seconds with and without messages in turn; --rate is the mean."
)
@click.option("--ramp", is_flag=True, help="Rise evenly from nothing to twice --rate.")
@click.option(
    "--length", type=Text(), metavar="N[:P99]", help="Characters of a message, or median and p99.  [default: 120]"
)
@click.option("--chinese", type=_SHARE, help="Share of users who write Chinese; others English.  [default: 0.3]")
@click.option("--telling", type=_SHARE, help="Share of users' messages that tell of them.  [default: 0.5]")
@click.option("--zipf", type=click.FloatRange(0.0), help="Skew: user n writes like 1/n^ZIPF.  [default: 0, all alike]")
@click.option("--late", type=_SHARE, help="Share of messages written long before they are sent.  [default: 0]")
@click.option("--duplicates", type=_SHARE, help="Share of messages sent twice.  [default: 0]")
@click.option("--seed", type=int, help="Same seed, same messages.  [default: 1]")
@click.option(
    "--model-latency", type=Text(), metavar="S[:P99]", help="A scripted model that takes this long, in place of rules."
)
@click.option("--model-errors", type=_SHARE, help="Share of its answers: 429, 500 or garbage.  [default: 0]")
@click.option("--workers", type=click.IntRange(1), help="Worker processes.  [default: 1]")
@click.option(
    "--kafka", type=Text(), metavar="WHICH", help="embedded, apache, settings, or HOST:PORT.  [default: embedded]"
)
@click.option(
    "--stores", type=click.Choice(["embedded", "settings"]), help="ClickHouse and Qdrant.  [default: embedded]"
)
@click.option(
    "--set", "sets", type=Text(), multiple=True, metavar="NAME=VALUE", help="A setting of the workers; repeatable."
)
@click.option("--json", "json_file", type=_output, metavar="FILE", help="Write the report as JSON; - prints it.")
@click.option("--html", "html_file", type=_output, metavar="FILE", help="Write it as one page with plots.")
@click.option("--markdown", "markdown_file", type=_output, metavar="FILE", help="Write it as a page without plots.")
@settings_options
@click.pass_context
def bench(
    ctx: click.Context,
    /,
    options: Options,
    preset: str | None,
    json_file: Path | None,
    html_file: Path | None,
    markdown_file: Path | None,
    **given: Any,
) -> None:
    """Send made-up traffic through workers of its own, and report what it took.

    Without PRESET the options say what is run. A preset is a benchmark with a target, on Apache Kafka (fetched by
    `make kafka`); options change it. Every message is accounted for: the exit code is 1 when something does not add
    up. What is run uses topics, a database and a collection of its own, also where --kafka and --stores name
    services that run already. Vectors are hashes, unless embedding.kind is set.

    \b
    Presets:
      pipeline     the whole pipeline with rules, one worker
      model-bound  a model of 800 ms a call, 2,000 users, 200 calls in flight
      latency      from the message that closes a window to its delta, at half load
      two-workers  two workers against one

    \b
    Examples:
      profilestream bench --messages 5000 --html report.html
      profilestream bench --rate 200 --seconds 60 --burst 5:15 --zipf 1.1
      profilestream bench --model-latency 0.8:3 --model-errors 0.02
      profilestream bench pipeline --json -
    """
    from benchmarks.load.presets import PLAIN, PRESETS
    from streams.running import run

    chosen = PRESETS[preset] if preset else PLAIN
    plan = _changed(chosen.plan, given)
    load = partial(options.load, sources={_setting(text)[0]: "--set" for text in given["sets"]})
    if (json_file, html_file, markdown_file).count(_STDOUT) > 1:
        raise click.UsageError("standard output takes one of --json, --html and --markdown: name files for the others")
    for file in (json_file, html_file, markdown_file):
        if file is not None and file != _STDOUT and not file.absolute().parent.is_dir():
            raise CommandFailed(f"the folder of {file} does not exist: make it, or name another file")
    report = run(_bench(_command(preset, given), chosen.perform, plan, options, load))
    _write(report, chosen.help.rstrip("."), json_file, html_file, markdown_file)
    if report.problems:
        ctx.exit(EXIT_FAILED)


def _command(preset: str | None, given: Mapping[str, Any]) -> str:
    """Return what measures the same again."""
    words = ["profilestream", "bench", *([preset] if preset else [])]
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if name == "sets":
            words += [word for each in value for word in ("--set", each)]
        elif value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return shlex.join(words)


def _changed(plan: Plan, given: Mapping[str, Any]) -> Plan:
    """Return a plan with what was said on the command line in place of what it has."""
    from dataclasses import replace

    from benchmarks.load.model import ModelPlan

    said = {name: value for name, value in given.items() if value is not None}
    names = ("messages", "users", "chinese", "telling", "zipf", "late", "duplicates", "seed")
    traffic: dict[str, Any] = {name: said[name] for name in names if name in said}
    if "length" in said:
        traffic["length"] = _spread("--length", said["length"])
    pace = replace(
        plan.pace,
        rate=said.get("rate", plan.pace.rate),
        burst=_burst(said["burst"]) if "burst" in said else plan.pace.burst,
        ramp=said["ramp"] or plan.pace.ramp,
    )
    if pace.rate is None and (pace.burst or pace.ramp or "seconds" in said):
        raise click.UsageError("--seconds, --burst and --ramp need --rate")
    if pace.burst and pace.ramp:
        raise click.UsageError("--burst and --ramp exclude each other")
    if "seconds" in said:
        if "messages" in said:
            raise click.UsageError("--seconds and --messages exclude each other")
        traffic["messages"] = max(1, round(said["seconds"] * (pace.rate or 0.0)))
    model = plan.model
    if "model_latency" in said:
        model = ModelPlan(latency=_spread("--model-latency", said["model_latency"]))
    if "model_errors" in said:
        model = replace(model or ModelPlan(), errors=said["model_errors"])
    return replace(
        plan,
        traffic=replace(plan.traffic, **traffic),
        pace=pace,
        model=model,
        workers=said.get("workers", plan.workers),
        kafka=said.get("kafka", plan.kafka),
        stores=said.get("stores", plan.stores),
        settings={**plan.settings, **dict(map(_setting, said["sets"]))},
    )


def _spread(option: str, text: str) -> Any:
    from benchmarks.load.spread import Spread

    try:
        return Spread.parse(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from error


def _burst(text: str) -> tuple[float, float]:
    head, colon, tail = text.partition(":")
    try:
        on, off = float(head), float(tail)
    except ValueError:
        on = off = 0.0
    if not colon or on <= 0 or off <= 0:
        raise click.UsageError(f"--burst: {text!r} is not ON:OFF in seconds, as 5:15")
    return on, off


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or "." not in name:
        raise click.UsageError(f"--set: {text!r} is not NAME=VALUE, as lanes.concurrency=200")
    return name, value


async def _bench(
    command: str, perform: Callable[..., Any], plan: Plan, options: Options, load: Callable[..., Settings]
) -> Report:
    import tempfile

    from benchmarks.load.machine import this_machine
    from benchmarks.load.report import Report
    from benchmarks.load.run import Bench
    from benchmarks.load.terminal import shown_progress
    from streams.running import stop_signals
    from streams.settings.names import DATA_DIR_VARIABLE, FILE_VARIABLE

    machine = this_machine()
    named = {DATA_DIR_VARIABLE: options.data_dir, FILE_VARIABLE: options.settings_file}
    variables = {name: str(path.absolute()) for name, path in named.items() if path is not None}
    with (
        tempfile.TemporaryDirectory(prefix="profilestream-bench-") as folder,
        shown_progress(stderr_console(), on_terminal=on_terminal()) as show,
        stop_signals() as stop,
    ):
        benches = Bench(load, variables, show)
        runs = iter(range(1, 100))

        async def one(plan: Plan) -> Any:
            return await benches.run(plan, Path(folder) / str(next(runs)))

        performing = asyncio.ensure_future(perform(plan, one))
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait({performing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if stop.is_set():  # also where a worker, which the terminal interrupts as well, ended first
            performing.cancel()
            await asyncio.gather(performing, return_exceptions=True)
            raise KeyboardInterrupt
        reports, findings = performing.result()
    return Report(command=command, machine=machine, findings=tuple(findings), runs=tuple(reports))


def _write(
    report: Report, title: str, json_file: Path | None, html_file: Path | None, markdown_file: Path | None
) -> None:
    from benchmarks.load.markdown import markdown
    from benchmarks.load.page import page
    from benchmarks.load.terminal import print_report
    from schemas.codec import encode

    printed = False
    forms: tuple[tuple[Path | None, Callable[[], bytes]], ...] = (
        (json_file, lambda: encode(report) + b"\n"),
        (html_file, lambda: page(report).encode() + b"\n"),
        (markdown_file, lambda: markdown(report, title).encode()),
    )
    for file, content in forms:
        if file is None:
            continue
        data = content()
        if file == _STDOUT:
            printed = True
            click.echo(data, nl=False)
            continue
        try:
            file.write_bytes(data)
        except OSError as error:
            raise CommandFailed(f"{file} cannot be written ({error.strerror}): name another file") from error
    print_report(stderr_console() if printed else stdout_console(), report)
