"""How a setting is called: in messages, in a settings file, and as an environment variable."""

from __future__ import annotations

from typing import Final

ENV_PREFIX: Final = "PROFILESTREAM_"
FILE_VARIABLE: Final = "PROFILESTREAM_SETTINGS"
"""Names the settings file."""
DATA_DIR_VARIABLE: Final = "PROFILESTREAM_DATA_DIR"
"""Names the folder in which `profilestream up` keeps its state."""
TEST_PREFIX: Final = "PROFILESTREAM_TEST_"
"""Variables that the test suite reads; no settings."""


class SettingsError(Exception):
    """Wrong settings: the message names every one of them, a line each.

    Attributes:
        problems: those lines.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def variable(name: str) -> str:
    """Return the environment variable of a setting: ``PROFILESTREAM_KAFKA__GROUP_ID`` of ``kafka.group_id``."""
    return ENV_PREFIX + name.replace(".", "__").upper()
