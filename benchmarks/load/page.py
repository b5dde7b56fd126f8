"""The report as one page of HTML that needs nothing else: no network, no script, light and dark."""

from __future__ import annotations

from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from benchmarks.load.charts import Chart, Line
from benchmarks.load.report import Moment, Report, RunReport
from benchmarks.load.terminal import figures

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ report.command }}</title>
<style>
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5c6675; --paper: #fff; --grid: #dfe3e8; --good: #17743a;
  --bad: #b3261e; --c0: #1f6feb; --c1: #c4570b; --c2: #1a7f4b; --c3: #8250df; --c4: #bf3989; --c5: #4d6b8a;
  --c6: #8a6d00; --c7: #0b7a80; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa4b2; --paper: #14181f; --grid: #2c333d;
  --good: #5fd38a; --bad: #ff8a80; --c0: #6cb0ff; --c1: #ffa657; --c2: #56d494; --c3: #c297ff; --c4: #ff8ccb;
  --c5: #a4bdd6; --c6: #e3c34c; --c7: #5cd3d9; } }
body { margin: 2rem auto; max-width: 84rem; padding: 0 1rem; font: 15px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
p.where, figcaption { color: var(--soft); }
table { border-collapse: collapse; } td, th { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0; }
th { font-weight: 600; } td.name { color: var(--soft); white-space: nowrap; }
.met { color: var(--good); } .missed, .problem { color: var(--bad); font-weight: 600; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1.5rem; }
figure { margin: 0; } figure h3 { font-size: 1rem; margin: .5rem 0; } figcaption { font-size: .75rem; }
svg { width: 100%; height: auto; } svg .grid { stroke: var(--grid); } svg polyline { fill: none; stroke-width: 1.6; }
svg text { fill: var(--soft); font-size: 11px; } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
{% for number in range(8) -%}
svg .line{{ number }} { stroke: var(--c{{ number }}); } svg circle.line{{ number }} { fill: var(--c{{ number }}); }
{% endfor -%}
</style>
</head>
<body>
<h1>{{ report.command }}</h1>
<p class="where">{{ report.machine }}</p>
<p class="where">{% for name, version in report.machine.versions.items() %}{{ name }} {{ version }}
{%- if not loop.last %}, {% endif %}{% endfor %}</p>
<table>
<tr><th>what</th><th>value</th><th>target</th><th></th></tr>
{% for finding in report.findings -%}
<tr><td>{{ finding.what }}</td><td>{{ finding.value }}</td><td>{{ finding.target }}</td>
<td>{% if finding.met %}<span class="met">met</span>{% elif finding.met is false %}<span class="missed">missed</span>
{%- endif %}</td></tr>
{% endfor -%}
</table>
{% for problem in report.problems -%}
<p class="problem">Does not add up: {{ problem }}</p>
{% else -%}
<p class="met">Every message is in exactly one flush, and the archive has every delta.</p>
{% endfor -%}
{% for run, figures, charts, caption in runs -%}
<h2>{{ run.name }}</h2>
<table>
{% for name, value in figures -%}
<tr><td class="name">{{ name }}</td><td>{{ value }}</td></tr>
{% endfor -%}
</table>
<div class="charts">
{% for chart in charts -%}
<figure><h3>{{ chart.title }}, {{ chart.unit }}</h3>{{ drawn(chart) }}<figcaption>{{ caption }}</figcaption></figure>
{% endfor -%}
</div>
{% endfor -%}
</body>
</html>
"""


def page(report: Report) -> str:
    """Return the page; whatever the report holds is text in it, and never markup."""
    template = Environment(autoescape=True).from_string(_PAGE)
    runs = [(run, figures(run), charts(run), _caption(report, run)) for run in report.runs]
    return template.render(report=report, runs=runs, drawn=_drawn)


def charts(run: RunReport) -> list[Chart]:
    """Return what is drawn of a run."""
    moments = run.moments

    def line(name: str, value: str) -> Line:
        return Line(name, [(moment.at, getattr(moment, value)) for moment in moments])

    memory = [
        Line(f"worker {number + 1}", [(moment.at, moment.rss[number]) for moment in moments])
        for number in range(len(moments[0].rss) if moments else 0)
    ]
    found = [
        Chart("Throughput", "a second", [line("sent", "sent"), line("taken", "consumed"), line("flushes", "flushes")]),
        Chart("Lag", "messages", [line("not yet taken", "lag"), line("in open windows", "windowed")]),
        Chart("Latency without the model", "ms", [line("p50", "p50"), line("p99", "p99")]),
        Chart("In work", "records", _running(moments)),
        Chart("Memory", "MiB", memory),
    ]
    return [chart for chart in found if not chart.empty]


def _running(moments: tuple[Moment, ...]) -> list[Line]:
    """Return a line for each stage that ever had something to do, the busiest first."""
    stages = {stage for moment in moments for stage in moment.running}
    busiest = {stage: max(moment.running.get(stage, 0.0) for moment in moments) for stage in stages}
    ordered = sorted((stage for stage in stages if busiest[stage]), key=lambda stage: (-busiest[stage], stage))
    return [Line(stage, [(moment.at, moment.running.get(stage, 0.0)) for moment in moments]) for stage in ordered[:5]]


def _caption(report: Report, run: RunReport) -> str:
    plan = ", ".join(f"{name}: {value}" for name, value in run.plan.items())
    settings = ", ".join(f"{name}={value}" for name, value in run.settings.items()) or "defaults"
    return f"{report.machine}. {plan}. Settings: {settings}."


def _drawn(chart: Chart) -> Markup:
    return Markup(chart.svg())  # noqa: S704 - the chart has escaped its texts
