"""Aliases of collections, which Qdrant Edge does not have: kept in a small file beside them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from streams.embedded.qdrant_requests import AliasAction


class AliasRefused(ValueError):
    """A change of aliases that is not possible; the message says why."""


class Aliases:
    """The aliases of a data directory: each names one collection, as if that were its own name.

    A change that returned is on disk; one that was cut short has not happened.
    """

    def __init__(self, path: Path) -> None:
        """Read the file, where there is one.

        Raises:
            OSError: when it cannot be read.
            msgspec.DecodeError: when it is damaged.
        """
        self._path = path
        self._targets: dict[str, str] = {}
        if path.exists():
            self._targets = msgspec.json.decode(path.read_bytes(), type=dict[str, str])

    def target(self, name: str) -> str:
        """Return the collection that an alias names, or the name itself."""
        return self._targets.get(name, name)

    def __contains__(self, name: object) -> bool:
        """Whether this is an alias."""
        return name in self._targets

    def of(self, collection: str | None = None) -> list[dict[str, str]]:
        """Return the aliases of one collection or of all."""
        return [
            {"alias_name": alias, "collection_name": target}
            for alias, target in sorted(self._targets.items())
            if collection in {None, target}
        ]

    def change(self, actions: Sequence[AliasAction], collections: Collection[str]) -> None:
        """Carry out all of the changes in order, or none.

        Args:
            actions: the changes.
            collections: names of those that exist.

        Raises:
            AliasRefused: when one of the changes is not possible.
            OSError: when the file cannot be written.
        """
        targets = dict(self._targets)
        for action in actions:
            _carry_out(action, targets, collections)
        self._write(targets)

    def forget(self, collection: str) -> None:
        """Take away all aliases of a collection that has been removed."""
        targets = {alias: target for alias, target in self._targets.items() if target != collection}
        if targets != self._targets:
            self._write(targets)

    def _write(self, targets: dict[str, str]) -> None:
        unfinished = self._path.with_suffix(".new")
        with unfinished.open("wb") as file:
            file.write(msgspec.json.encode(targets))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)
        self._targets = targets


def _carry_out(action: AliasAction, targets: dict[str, str], collections: Collection[str]) -> None:
    given = [part for part in (action.create_alias, action.delete_alias, action.rename_alias) if part is not None]
    if len(given) != 1:
        raise AliasRefused("each action is one of create_alias, delete_alias, rename_alias")
    if action.create_alias is not None:
        wanted = action.create_alias
        if wanted.collection_name not in collections:
            raise AliasRefused(f"Collection `{wanted.collection_name}` doesn't exist!")
        _require_free(wanted.alias_name, collections)
        targets[wanted.alias_name] = wanted.collection_name
    elif action.delete_alias is not None:
        targets.pop(action.delete_alias.alias_name, None)
    elif action.rename_alias is not None:
        renamed = action.rename_alias
        if renamed.old_alias_name not in targets:
            raise AliasRefused(f"Alias {renamed.old_alias_name} does not exists!")
        _require_free(renamed.new_alias_name, collections)
        targets[renamed.new_alias_name] = targets.pop(renamed.old_alias_name)


def _require_free(alias: str, collections: Collection[str]) -> None:
    if not alias:
        raise AliasRefused("an alias needs a name")
    if alias in collections:
        raise AliasRefused(f"Collection `{alias}` already exists!")
