"""A report as a page of Markdown: the form in which ``benchmarks/results`` keeps figures."""

from __future__ import annotations

from benchmarks.load.report import Report
from benchmarks.load.terminal import figures
from benchmarks.recorded import Result, Table
from benchmarks.recorded import markdown as page_of


def markdown(report: Report, title: str) -> str:
    """Return a report as a page.

    Args:
        report: what was measured.
        title: what it is about.
    """
    return page_of(
        Result(
            title=title,
            command=report.command,
            machine=report.machine,
            settings={},
            findings=report.findings,
            tables=tuple(Table(title=run.name, columns=("", ""), rows=tuple(figures(run))) for run in report.runs),
            problems=tuple(report.problems),
        )
    )
