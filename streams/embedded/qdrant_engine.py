"""All collections of a data directory. Every call blocks; one thread at a time may call."""

from __future__ import annotations

import fcntl
import re
import shutil
from pathlib import Path
from typing import IO, Any, Final
from uuid import uuid4

from streams.embedded import qdrant_requests as requests
from streams.embedded.qdrant_aliases import Aliases
from streams.embedded.qdrant_collection import Collection, EngineError, engine_errors
from streams.embedded.serving import PathUnusable

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")


class Engine:
    """All collections of a data directory, which it owns until `close`.

    A collection is made in, and removed from, a directory whose name starts with a dot, and renamed in
    between: after the death of the process it is there completely or not at all.
    """

    def __init__(self, path: Path) -> None:
        """Take the directory, created when missing, and load its collections.

        Raises:
            PathUnusable: when it belongs to another process, cannot be written or read.
        """
        self._root = path / "collections"
        self._collections: dict[str, Collection] = {}
        self._lock = _take(path)
        try:
            self._aliases = Aliases(path / "aliases.json")
            self._root.mkdir(exist_ok=True)
            for entry in sorted(self._root.iterdir()):
                if entry.name.startswith("."):
                    shutil.rmtree(entry)
                else:
                    self._collections[entry.name] = Collection(entry)
        except Exception as error:  # the engine's own errors are plain exceptions
            self.close()
            raise PathUnusable(f"{path} cannot be read: {error}; restore it or choose another path") from error

    def names(self) -> list[str]:
        """Return the names of all collections."""
        return sorted(self._collections)

    def collection(self, name: str) -> Collection:
        """Return a collection by its name or an alias.

        Raises:
            EngineError: 404 when there is none of that name.
        """
        try:
            return self._collections[self._aliases.target(name)]
        except KeyError:
            raise EngineError(404, f"Not found: Collection `{name}` doesn't exist!") from None

    def create(self, name: str, request: requests.CreateCollection) -> bool:
        """Make an empty collection.

        Raises:
            EngineError: when the name is taken or not a possible one.
        """
        if not _NAME.fullmatch(name):
            raise EngineError(400, f"Wrong input: {name!r} is not a possible name of a collection")
        if name in self._collections or name in self._aliases:
            raise EngineError(409, f"Wrong input: Collection `{name}` already exists!")
        unfinished = self._root / f".{uuid4()}"
        with engine_errors():
            Collection.create(unfinished, request)
            unfinished.rename(self._root / name)
            self._collections[name] = Collection(self._root / name)
        return True

    def delete(self, name: str) -> bool:
        """Remove a collection and its aliases; return whether there was one."""
        collection = self._collections.pop(name, None)
        if collection is None:
            return False
        self._aliases.forget(name)
        collection.close()
        removed = self._root / f".{uuid4()}"
        (self._root / name).rename(removed)
        shutil.rmtree(removed)
        return True

    def aliases(self, name: str | None = None) -> dict[str, Any]:
        """Return all aliases, or those of one collection.

        Raises:
            EngineError: 404 when there is no such collection.
        """
        if name is not None:
            self.collection(name)
            name = self._aliases.target(name)
        return {"aliases": self._aliases.of(name)}

    def change_aliases(self, request: requests.ChangeAliases) -> bool:
        """Carry out changes of aliases, all or none.

        Raises:
            EngineError: when one of them is not possible.
        """
        with engine_errors():
            self._aliases.change(request.actions, self._collections.keys())
        return True

    def flush(self) -> None:
        """Write everything to disk."""
        for collection in self._collections.values():
            collection.flush()

    def close(self) -> None:
        """Flush, close every collection and give the directory up."""
        while self._collections:
            self._collections.popitem()[1].close()
        self._lock.close()


def _take(path: Path) -> IO[bytes]:
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / "lock").open("ab")
    except OSError as error:
        raise PathUnusable(f"{path} cannot be used: {error.strerror}; choose another path") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise PathUnusable(f"{path} is in use by another process; stop it or choose another path") from error
    return lock
