"""The scripted model of a load run, in a process of its own: answers by the rules, late and sometimes not at all.

``python -m benchmarks.load.model --latency 0.8 --errors 0.01 --seed 1`` prints its address as one line of JSON.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass
from typing import Final

from benchmarks.load.spread import Spread
from benchmarks.model_server import ModelServer, Reply, Request
from benchmarks.scripted_answers import ScriptedModel
from schemas.codec import encode
from schemas.pipeline import PipelineConfig
from streams.running import run, stop_signals

NAME: Final = "scripted"
"""Name of the model."""

DEFAULT_LATENCY: Final = Spread(0.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """How the model answers.

    Attributes:
        latency: seconds until an answer begins.
        errors: share of requests that fail: a third each with status 429, with status 500, and with garbage.
    """

    latency: Spread = DEFAULT_LATENCY
    errors: float = 0.0


class LoadModel:
    """A script for `benchmarks.model_server.ModelServer`.

    Args:
        plan: how it answers.
        seed: of delays and errors.
    """

    def __init__(self, plan: ModelPlan, seed: int) -> None:
        self._plan = plan
        self._chance = random.Random(seed)
        self._model = ScriptedModel(PipelineConfig())

    async def __call__(self, request: Request) -> Reply:
        """Return the answer to a request."""
        delay = self._plan.latency.draw(self._chance)
        fate = self._chance.random()
        if fate < self._plan.errors / 3:
            return Reply(status=429, error="scripted overload", delay=delay)
        if fate < self._plan.errors * 2 / 3:
            return Reply(status=500, delay=delay)
        if fate < self._plan.errors:
            return Reply(content="scripted garbage", delay=delay)
        return Reply(content=await self._model(request), delay=delay)


async def serve(plan: ModelPlan, seed: int) -> None:
    """Serve until SIGTERM, having printed the address."""
    model = LoadModel(plan, seed)

    async def answer(request: Request) -> Reply:
        server.requests.clear()  # a run is long, and nobody looks at them
        return await model(request)

    server = ModelServer(answer)
    with stop_signals() as stop:
        async with server:
            sys.stdout.buffer.write(encode({"url": server.url}) + b"\n")
            sys.stdout.flush()
            await stop.wait()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load.model", description=__doc__)
    parser.add_argument("--latency", type=Spread.parse, default=DEFAULT_LATENCY, metavar="SECONDS[:P99]")
    parser.add_argument("--errors", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run(serve(ModelPlan(latency=options.latency, errors=options.errors), options.seed))


if __name__ == "__main__":
    main()
