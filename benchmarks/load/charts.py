"""Line charts as SVG: nothing but text, coloured by the style sheet of the page that they stand in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 240
_LEFT: Final = 64
_RIGHT: Final = 12
_TOP: Final = 12
_BOTTOM: Final = 44
_TICKS: Final = 5
COLOURS: Final = 8
"""Lines that have a colour of their own: classes ``line0`` to ``line7``."""


@dataclass(frozen=True, slots=True)
class Line:
    """A series of a chart.

    Attributes:
        name: in the legend.
        points: (x, y), by rising x; where y is None the line has a gap.
    """

    name: str
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn.

    Attributes:
        title: what it shows.
        unit: of the values.
        lines: at most eight.
    """

    title: str
    unit: str
    lines: Sequence[Line]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return all(y is None for line in self.lines for _, y in line.points)

    def svg(self) -> str:
        """Return it as an element that can stand in a page; x is seconds, y begins at 0."""
        right = max((x for line in self.lines for x, _ in line.points), default=0.0) or 1.0
        top = max((y for line in self.lines for _, y in line.points if y is not None), default=0.0) or 1.0
        step_x, step_y = tick_step(right), tick_step(top)
        top = math.ceil(top / step_y) * step_y
        scale_x, scale_y = (WIDTH - _LEFT - _RIGHT) / right, (HEIGHT - _TOP - _BOTTOM) / top
        label = escape(f"{self.title}, {self.unit}", quote=True)
        parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">']
        for tick in range(round(top / step_y) + 1):
            y = HEIGHT - _BOTTOM - tick * step_y * scale_y
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4:.1f}">{_number(tick * step_y)}</text>')
        for tick in range(math.floor(right / step_x + 1e-9) + 1):
            x = _LEFT + tick * step_x * scale_x
            parts.append(
                f'<text class="tick middle" x="{x:.1f}" y="{HEIGHT - _BOTTOM + 16}">{_number(tick * step_x)} s</text>'
            )
        for number, line in enumerate(self.lines[:COLOURS]):
            for piece in _pieces(line):
                coordinates = [
                    (round(_LEFT + x * scale_x, 1), round(HEIGHT - _BOTTOM - y * scale_y, 1)) for x, y in piece
                ]
                drawn = " ".join(f"{x},{y}" for x, y in coordinates)
                if len(coordinates) == 1:
                    x, y = coordinates[0]
                    parts.append(f'<circle class="line{number}" cx="{x}" cy="{y}" r="1.5"/>')
                else:
                    parts.append(f'<polyline class="line{number}" points="{drawn}"/>')
        parts += self._legend()
        return "".join([*parts, "</svg>"])

    def _legend(self) -> list[str]:
        parts: list[str] = []
        share = (WIDTH - _LEFT) / max(1, min(COLOURS, len(self.lines)))
        for number, line in enumerate(self.lines[:COLOURS]):
            x, y = _LEFT + number * share, HEIGHT - 12
            parts.append(f'<polyline class="line{number}" points="{x:.0f},{y - 4} {x + 16:.0f},{y - 4}"/>')
            parts.append(f'<text class="tick" x="{x + 20:.0f}" y="{y}">{escape(line.name)}</text>')
        return parts


def tick_step(top: float) -> float:
    """Return a round step of which about five reach `top`."""
    rough = top / _TICKS
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def _pieces(line: Line) -> list[list[tuple[float, float]]]:
    """Return the stretches of a line between its gaps."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for x, y in line.points:
        if y is not None:
            pieces[-1].append((x, y))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"
