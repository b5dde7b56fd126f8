"""The report of a load run: what adds up and what does not, JSON, and the page."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from html.parser import HTMLParser
from io import StringIO
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from benchmarks.load.charts import Chart, Line, tick_step
from benchmarks.load.following import End, Latency, Seen, model_seconds
from benchmarks.load.machine import Machine, this_machine
from benchmarks.load.markdown import markdown
from benchmarks.load.measure import Reading, read_metrics, total
from benchmarks.load.page import page
from benchmarks.load.plan import Plan
from benchmarks.load.report import (
    Account,
    Finding,
    LaneLatency,
    ModelUse,
    Moment,
    Percentiles,
    Report,
    RunReport,
    Steady,
    lane_latencies,
    problems,
)
from benchmarks.load.terminal import print_report
from benchmarks.load.traffic import Message
from schemas.codec import decode, encode
from schemas.stages import ModelCall, StageName

HOSTILE = "<script>alert(1)</script>&\"'"
VOID = {"meta"}


def report(name: str = "load", problem: str = "") -> Report:
    machine = Machine(
        at=datetime(2026, 1, 2, tzinfo=UTC),
        processor=name,
        cores=2,
        memory_gib=16.0,
        system="Linux",
        python="3.11",
        versions={"profilestream": "0.1.0"},
        commit="abc",
        load=0.1,
    )
    ten = Percentiles(count=3, p50=10.0, p95=20.0, p99=30.0, most=31.0)
    moments = tuple(
        Moment(
            at=float(second),
            sent=100.0 * second,
            consumed=90.0,
            flushes=5.0,
            lag=10.0 * second,
            windowed=50.0,
            running={"summary": 3.0, "merge": 0.0},
            rss=(200.0, 210.0),
            p50=None if second == 2 else 10.0,
            p99=None if second == 2 else 30.0,
        )
        for second in range(1, 5)
    )
    run = RunReport(
        name=name,
        plan={**Plan(name=name).described(), "processor": name},
        settings={"embedding.kind": name},
        send_seconds=1.0,
        seconds=4.0,
        messages_per_second=250.0,
        flushes_per_second=5.0,
        deltas_per_second=3.0,
        steady_flushes_per_second=5.5,
        latency=(LaneLatency(lane="memo", total=ten, added=ten),),
        model=ModelUse(
            calls={"summary": 4}, requests=5, calls_per_flush=2.0, requests_per_second=9.0, ideal=10.0, share=0.55
        ),
        cpu={"worker 1": 2.0},
        cpu_us_per_message=2_000.0,
        peak_rss_mib=210.0,
        peak_lag=40.0,
        account=Account(
            sent=1_000,
            accounted=1_000,
            flushes={"memo applied": 20},
            triggers={"messages": 20},
            deltas=12,
            archived={"deltas": 12, "events": 20},
            repeats=0,
            retries=0,
            dead_letters=0,
            problems=(problem,) if problem else (),
        ),
        moments=moments,
    )
    finding = Finding(what=name, value="1,000", target="at least 2,000", met=False)
    return Report(command=f"profilestream bench {name}", machine=machine, findings=(finding,), runs=(run,))


class _Nesting(HTMLParser):
    """Checks that every element is closed, in order; collects what would load something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: Counter[str] = Counter()
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] += 1
        self.references += [name for name, _ in attrs if name in {"src", "href", "srcset", "action", "xlink:href"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> _Nesting:
    parser = _Nesting()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_the_report_is_the_same_after_json() -> None:
    assert decode(encode(report()), Report) == report()


def test_the_page_is_well_formed_and_draws_every_chart() -> None:
    names = parsed(page(report())).names
    assert names["svg"] == names["figure"] == names["figcaption"] == 5
    assert names["script"] == 0


def test_the_page_loads_nothing() -> None:
    text = page(report())
    assert parsed(text).references == []
    assert not re.search(r"https?://|url\(|@import", text)
    assert "default-src 'none'" in text


def test_the_page_has_colours_for_light_and_dark() -> None:
    text = page(report())
    light, dark = text.split("@media (prefers-color-scheme: dark)")
    defined = [set(re.findall(r"--(\w+):", part.split("body {")[0])) for part in (light, dark)]
    assert defined[0] == defined[1]
    assert defined[0] >= {"ink", "paper", "c0", "c7"}
    assert set(re.findall(r"var\(--(\w+)\)", text)) <= defined[0]


def test_text_of_the_report_is_never_markup() -> None:
    text = page(report(HOSTILE, HOSTILE))
    assert parsed(text).names["script"] == 0
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text


def test_every_figure_says_where_and_how_it_was_measured() -> None:
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page(report()))
    for caption in captions:
        for part in ("2 cores", "profilestream 0.1.0", "commit abc", "seed: 1", "embedding.kind=load"):
            assert part in caption


def test_the_terminal_says_what_was_missed_and_what_does_not_add_up() -> None:
    out = StringIO()
    print_report(Console(file=out, width=120, markup=False), report("[red]load", "3 messages are gone"))
    text = out.getvalue()
    assert "at least 2,000" in text
    assert "missed" in text
    assert "does not add up: [red]load: 3 messages are gone" in text
    assert "every message is in exactly one flush" not in text


def test_the_terminal_says_when_everything_adds_up() -> None:
    out = StringIO()
    print_report(Console(file=out, width=120, markup=False), report())
    assert "every message is in exactly one flush" in out.getvalue()


def sent(*numbers: int) -> list[Message]:
    return [Message(number, b"default:anna", b"{}") for number in numbers]


def test_an_account_that_adds_up_has_no_problems() -> None:
    seen = Seen(messages=Counter({0: 1, 1: 2}), events=2, deltas=3)
    assert problems(sent(0, 1, 1), seen, {"deltas": 3, "events": 2}) == []


@pytest.mark.parametrize(
    ("windows", "problem"),
    [
        ({0: 1}, "1 messages are not in as many windows as they were sent: message 1 in 0"),
        ({0: 2, 1: 1}, "1 messages are not in as many windows as they were sent: message 0 in 2"),
        ({0: 1, 1: 1, 9: 1}, "1 messages are not in as many windows as they were sent: message 9 in 1"),
    ],
)
def test_a_message_that_is_lost_or_twice_or_unknown_is_a_problem(windows: dict[int, int], problem: str) -> None:
    assert problems(sent(0, 1), Seen(messages=Counter(windows)), {"deltas": 0, "events": 0}) == [problem]


def test_strays_and_what_the_archive_lacks_are_problems() -> None:
    seen = Seen(messages=Counter({0: 1}), strays=1, events=2, deltas=3)
    assert problems(sent(0), seen, {"deltas": 2, "events": 2}) == [
        "1 messages in windows were sent by nobody",
        "the archive has 2 deltas, the topic 3",
    ]


def test_percentiles_are_in_milliseconds() -> None:
    found = Percentiles.of(value / 1000 for value in range(101))
    assert found is not None
    assert (found.count, found.p50, found.p95, found.p99, found.most) == (101, 50.0, 95.0, 99.0, 100.0)
    assert Percentiles.of([]) is None
    one = Percentiles.of([0.25])
    assert one is not None
    assert (one.p50, one.p99, one.most) == (250.0, 250.0, 250.0)


def test_the_steady_rate_leaves_out_the_first_and_the_last_fifth() -> None:
    # 20 come at once, 60 at ten a second, 21 at once again.
    at = [0.0] * 20 + [number / 10 for number in range(61)] + [100.0] * 20
    steady = Steady.of(End(moment, 7 if moment in {0.0, 100.0} else 2) for moment in at)
    assert steady.flushes == pytest.approx(10.0)
    assert steady.requests == pytest.approx(20.0)
    nothing = Steady(0.0, 0.0)
    assert Steady.of([]) == Steady.of([End(1.0, 1)]) == Steady.of([End(1.0, 1), End(1.0, 1)]) == nothing


def call(stage: StageName, seconds: float) -> ModelCall:
    return ModelCall(stage=stage, model="scripted", outcome="ok", duration_ms=1000 * seconds)


def test_the_models_time_counts_stages_that_ask_at_the_same_time_once() -> None:
    memo = [call("summary", 1.0), call("extract", 2.0), call("tag", 3.0), call("merge", 0.5), call("merge", 0.5)]
    assert model_seconds(memo) == pytest.approx(1.0 + 3.0 + 1.0)
    assert model_seconds([call("facts", 1.0), call("preferences", 2.0), call("relation", 0.5)]) == pytest.approx(2.5)
    assert model_seconds([]) == 0.0


METRICS = """\
# TYPE profilestream_messaging_client_consumed_messages counter
profilestream_messaging_client_consumed_messages_total{stage="window"} 40.0
profilestream_messaging_client_consumed_messages_total{stage="summary"} 4.0
# TYPE profilestream_messaging_consumer_lag gauge
profilestream_messaging_consumer_lag{stage="window",messaging_destination_partition_id="0"} 5.0
profilestream_messaging_consumer_lag{stage="window",messaging_destination_partition_id="1"} 7.0
# TYPE profilestream_archive_rows counter
profilestream_archive_rows_total{table="profile_deltas"} 10.0
profilestream_archive_rows_total{table="flush_events"} 3.0
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1000.0
# TYPE other gauge
other 9.0
"""


def test_metrics_are_read_and_added_up_over_labels_and_workers() -> None:
    one = read_metrics(METRICS)
    assert (one.consumed, one.lag, one.rows, one.rss) == (
        {"window": 40.0, "summary": 4.0},
        {"window": 12.0},
        13.0,
        1000.0,
    )
    assert read_metrics("") == Reading()
    both = total([one, one])
    assert (both.consumed["window"], both.lag["window"], both.rows, both.rss) == (80.0, 24.0, 26.0, 2000.0)


def test_a_chart_is_an_image_with_a_name_and_gaps_where_nothing_was_measured() -> None:
    line = Line("a & b", [(0.0, 1.0), (1.0, 2.0), (2.0, None), (3.0, 4.0), (4.0, 8.0)])
    root = ElementTree.fromstring(Chart("<title>", "ms", [line]).svg())
    assert root.attrib["aria-label"] == "<title>, ms"
    drawn = [element.attrib["points"] for element in root.iter("polyline")]
    assert len(drawn) == 3  # two pieces, and the line of the legend
    assert [text.text for text in root.iter("text")][-1] == "a & b"
    assert drawn[1].split()[-1] == "628.0,12.0"  # the highest value at the right edge is at the top


def test_a_chart_without_values_is_empty() -> None:
    assert Chart("t", "u", []).empty
    assert Chart("t", "u", [Line("a", [(1.0, None)])]).empty
    assert not Chart("t", "u", [Line("a", [(1.0, 0.0)])]).empty
    ElementTree.fromstring(Chart("t", "u", [Line("a", [(1.0, 0.0)])]).svg())


@pytest.mark.parametrize(
    ("top", "step"), [(1.0, 0.2), (5.0, 1.0), (7.0, 2.0), (10.0, 2.0), (42.0, 10.0), (1_234.0, 500.0)]
)
def test_ticks_are_round(top: float, step: float) -> None:
    assert tick_step(top) == pytest.approx(step)


def test_this_machine_says_what_it_is() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert machine.versions["profilestream"]
    assert f"{machine.cores} cores" in str(machine)
    assert msgspec.convert(msgspec.to_builtins(machine), Machine) == machine


def test_latencies_count_from_a_time_on() -> None:
    seen = [
        Latency(at=100.0, lane="facts", seconds=9.0, model=0.0),
        Latency(at=110.0, lane="memo", seconds=0.5, model=0.4),
        Latency(at=110.0, lane="facts", seconds=0.2, model=0.0),
        Latency(at=120.0, lane="facts", seconds=0.1, model=0.0),
    ]
    facts, memo = lane_latencies(seen, 110.0)
    assert (facts.lane, facts.total.count, facts.total.most) == ("facts", 2, 200.0)
    assert (memo.lane, memo.total.count, memo.total.most) == ("memo", 1, 500.0)
    assert round(memo.added.most) == 100
    assert lane_latencies(seen, 130.0) == ()


def test_a_page_of_markdown_has_what_the_terminal_shows() -> None:
    text = markdown(report("load"), "How fast it is")
    assert text.startswith("# How fast it is\n\n```sh\nprofilestream bench load\n```\n")
    assert "| load | at least 2,000 | **1,000, missed** |" in text
    assert "## load" in text
    assert "| throughput | 250 messages/s to archived deltas, 5 flushes/s, 3 deltas/s, over 4.0 s" in text
    assert "commit abc" in text
    assert "**Does not add up:** load: lost.\n" in markdown(report("load", problem="lost"), "x")
