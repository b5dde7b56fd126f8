"""``python -m benchmarks``: the same as ``profilestream bench``."""

import sys

from streams.cli import main

main(["bench", *sys.argv[1:]])
