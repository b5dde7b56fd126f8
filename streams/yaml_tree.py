"""`TreeLoader`: reads YAML that is a tree, and not a deep one."""

from __future__ import annotations

from typing import Final

import yaml

_MAX_DEPTH: Final = 16
"""Lists and mappings in one another; a configuration needs five."""


class TreeLoader(yaml.SafeLoader):
    """Composes nodes that are a tree and not a deep one: a small file could otherwise stand for an endless one."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose the next node."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            self._refuse(event, "references to other places (`*name`) are not supported here: write it out")
        if self._depth == _MAX_DEPTH:
            self._refuse(event, f"more than {_MAX_DEPTH} lists and mappings in one another")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    @staticmethod
    def _refuse(event: yaml.Event, what: str) -> None:
        raise yaml.MarkedYAMLError(problem=what, problem_mark=event.start_mark)  # type: ignore[arg-type]
