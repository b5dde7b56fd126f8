"""The report and the progress of a run on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from benchmarks.load.report import Finding, Percentiles, Report, RunReport
from benchmarks.load.run import Progress as RunProgress


@contextmanager
def shown_progress(console: Console, *, on_terminal: bool) -> Iterator[Callable[[RunProgress], None]]:
    """Give what shows how a run goes on: bars on a terminal, else a line for each thing that begins."""
    said = ""

    def say(progress: RunProgress) -> None:
        nonlocal said
        if progress.doing != said:
            said = progress.doing
            console.print(f"{said} ...")

    if not on_terminal:
        yield say
        return
    columns = (TextColumn("{task.description:<9}"), BarColumn(), TextColumn("{task.fields[says]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        sent, ended = (bars.add_task(name, total=None, says="") for name in ("sent", "processed"))

        def move(progress: RunProgress) -> None:
            say(progress)
            workers = progress.sample.workers if progress.sample else None
            running = sum(workers.running.values()) if workers else 0
            memory = sum(progress.sample.rss) / 2**20 if progress.sample else 0
            bars.update(sent, total=progress.messages, completed=progress.sent, says=f"{progress.sent:,} messages")
            bars.update(
                ended,
                total=progress.messages,
                completed=progress.ended,
                says=f"{progress.ended:,} messages, {running:,.0f} records in work, {memory:,.0f} MiB",
            )

        yield move


def print_report(console: Console, report: Report) -> None:
    """Print the findings, and a table for each run."""
    for run in report.runs:
        _print_run(console, run)
    console.print()
    console.print(Text(str(report.machine), "dim"), soft_wrap=True)
    console.print(_findings(report.findings))
    for problem in report.problems:
        console.print(Text(f"does not add up: {problem}", "bold red"), soft_wrap=True)
    if not report.problems:
        console.print("every message is in exactly one flush, and the archive has every delta", style="green")


def _print_run(console: Console, run: RunReport) -> None:
    console.print()
    console.print(Text(f"── {run.name} ", "bold"))
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in figures(run):
        table.add_row(name, Text(value))
    console.print(table)


def figures(run: RunReport) -> list[tuple[str, str]]:
    """Return what a run is about, as people read it."""
    account = run.account
    found = [
        (
            "traffic",
            f"{run.plan['messages']}; {run.plan['language']}; seed {run.plan['seed']}",
        ),
        ("processor", run.plan["processor"]),
        ("services", f"Kafka {run.plan['kafka']}, stores {run.plan['stores']}, {run.plan['workers']} worker(s)"),
        ("settings", ", ".join(f"{name}={value}" for name, value in run.settings.items()) or "the defaults"),
        (
            "throughput",
            f"{run.messages_per_second:,.0f} messages/s to archived deltas, {run.flushes_per_second:,.0f} flushes/s, "
            f"{run.deltas_per_second:,.0f} deltas/s, over {run.seconds:,.1f} s (sent within {run.send_seconds:,.1f} s)",
        ),
        ("lag", f"at most {run.peak_lag:,.0f} messages not yet taken"),
    ]
    for lane in run.latency:
        found.append((f"latency, {lane.lane}", _percentiles(lane.total)))
        if run.model is not None:
            found.append(("  without the model", _percentiles(lane.added)))
    if run.model is not None:
        use = run.model
        found.append(
            (
                "model",
                f"{sum(use.calls.values()):,} calls, {use.requests:,} requests, {use.calls_per_flush:.2f} calls a "
                f"flush; {run.steady_flushes_per_second:,.1f} flushes/s of {use.ideal:,.1f}, {use.share:.1%} of the "
                "ideal",
            )
        )
    return [
        *found,
        ("memory", f"at most {run.peak_rss_mib:,.0f} MiB in one worker"),
        ("processors", ", ".join(f"{name} {seconds:,.1f} s" for name, seconds in run.cpu.items()) or "not known here"),
        ("a message", f"{run.cpu_us_per_message:,.0f} µs of a worker's processor"),
        (
            "account",
            f"{account.accounted:,} of {account.sent:,} messages in exactly one flush; {account.deltas:,} deltas; "
            + ", ".join(f"{count:,} {name}" for name, count in account.flushes.items()),
        ),
        (
            "trouble",
            f"{account.retries:,} retries, {account.dead_letters:,} dead letters, {account.repeats:,} repeated records",
        ),
    ]


def _percentiles(values: Percentiles) -> str:
    return (
        f"p50 {values.p50:,.1f} ms, p95 {values.p95:,.1f} ms, p99 {values.p99:,.1f} ms, "
        f"most {values.most:,.1f} ms, of {values.count:,} flushes"
    )


def _findings(findings: tuple[Finding, ...]) -> Table:
    table = Table("what", "value", "target", "", box=None, pad_edge=False)
    for finding in findings:
        mark = {True: Text("met", "green"), False: Text("missed", "bold red"), None: Text("")}[finding.met]
        table.add_row(finding.what, finding.value, finding.target, mark)
    return table
