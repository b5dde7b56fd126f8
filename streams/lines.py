"""Lines of files and pipes of any size, read without blocking the event loop and never held as a whole."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

_CHUNK: Final = 256 * 1024
_CHUNKS_AHEAD: Final = 4
_PAUSE: Final = 0.05
_BOM: Final = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line without its end; `data` is None when it is longer than allowed, and `size` says how long."""

    number: int
    size: int
    data: bytes | None


class LineSplitter:
    """Splits chunks of bytes into numbered lines, and keeps no more than one line of the allowed length.

    Lines end with LF or CRLF; a byte order mark at the start is skipped.

    Args:
        limit: longest line in bytes, its end not counted.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._size = 0
        self._number = 0
        self._at_start = True

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Yield the lines that this chunk ends."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._append(part)
            yield self._take()
        self._append(rest)

    def finish(self) -> Iterator[Line]:
        """Yield the last line, when no line end follows it."""
        if self._size:
            yield self._take()

    def _append(self, part: bytes) -> None:
        self._size += len(part)
        room = self._limit + len(_BOM) + 1 - len(self._rest)  # a mark and a CR do not count
        self._rest += part[: max(room, 0)]

    def _take(self) -> Line:
        data, size = bytes(self._rest), self._size
        self._rest.clear()
        self._size = 0
        self._number += 1
        if self._at_start:
            self._at_start = False
            if data.startswith(_BOM):
                data, size = data[len(_BOM) :], size - len(_BOM)
        if len(data) == size and data.endswith(b"\r"):
            data, size = data[:-1], size - 1
        fits = len(data) == size and size <= self._limit
        return Line(self._number, size, data if fits else None)


async def read_chunks(source: io.RawIOBase) -> AsyncIterator[bytes]:
    """Yield what a blocking file or pipe gives, as soon as it gives it.

    It is read by a thread of its own that does not keep the process alive: a terminal that says nothing must not
    stop the program from ending. The source has no buffer, because a buffer's lock would be held while it waits.

    Raises:
        OSError: when it cannot be read on.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | Exception] = asyncio.Queue()
    room = threading.Semaphore(_CHUNKS_AHEAD)
    left = False

    def read() -> None:
        chunk: bytes | Exception = b"-"
        while chunk and not isinstance(chunk, Exception):
            room.acquire()
            if left:
                return
            try:
                while (got := source.read(_CHUNK)) is None:  # a pipe set to answer at once, and empty
                    time.sleep(_PAUSE)
                chunk = got
            except (OSError, ValueError) as error:
                chunk = error
            try:
                loop.call_soon_threadsafe(queue.put_nowait, chunk)
            except RuntimeError:  # the loop is closed: nobody is left to read for
                return

    threading.Thread(target=read, name="read input", daemon=True).start()
    try:
        while chunk := await queue.get():
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk
            room.release()
    finally:
        left = True
        room.release()
