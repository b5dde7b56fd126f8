"""``python -m benchmarks.check``: fails when something costs more than a tenth more than was recorded.

It counts (`benchmarks.counted`) and times nothing, so it says the same on a slow machine. ``--update`` records what it
counts now, for a change that is meant to cost more, or costs less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.counted import Counts, everything, grown

_RECORDED: Final = Path(__file__).parent / "results" / "counted.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description=__doc__)
    parser.add_argument("--update", action="store_true", help="record what is counted now")
    parser.add_argument("--json", action="store_true", help="print what is counted as JSON")
    options = parser.parse_args(arguments)
    counts = asyncio.run(everything())
    if options.json:
        print(json.dumps(counts))
    if options.update:
        _RECORDED.write_text(json.dumps(counts, indent=2) + "\n")
        return 0
    recorded: Counts = json.loads(_RECORDED.read_text())
    problems = grown(recorded, counts)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print("if it is meant to be so, record it: python -m benchmarks.check --update", file=sys.stderr)
    elif not options.json:
        print(f"{len(counts)} figures, none of them more than a tenth over what was recorded")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
