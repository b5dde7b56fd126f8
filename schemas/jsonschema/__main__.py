"""``python -m schemas.jsonschema [RELEASE]``: write the schemas; with a number of a release, also as its own."""

from __future__ import annotations

import sys

from schemas.jsonschema import DIRECTORY, RELEASED, write

if __name__ == "__main__":
    for path in write(DIRECTORY):
        print(path)
    for release in sys.argv[1:]:
        for path in write(RELEASED / release):
            print(path)
