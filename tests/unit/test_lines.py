"""Lines of any input, read piece by piece."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.lines import Line, LineSplitter, read_chunks


def split(data: bytes, size: int, limit: int = 10) -> list[Line]:
    splitter = LineSplitter(limit)

    def lines() -> Iterator[Line]:
        for start in range(0, len(data), size):
            yield from splitter.feed(data[start : start + size])
        yield from splitter.finish()

    return list(lines())


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\na", [b"", b"", b"a"]),
        (b"\xef\xbb\xbfa\nb", [b"a", b"b"]),
        (b"a\n\xef\xbb\xbfb", [b"a", b"\xef\xbb\xbfb"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"0123456789\n", [b"0123456789"]),
        (b"\xef\xbb\xbf0123456789\r\n", [b"0123456789"]),
        (b"01234567890\na", [None, b"a"]),
        (b"0123456789\r", [b"0123456789"]),
    ],
)
def test_lines(data: bytes, expected: list[bytes | None], size: int) -> None:
    found = split(data, size)
    assert [line.data for line in found] == expected
    assert [line.number for line in found] == list(range(1, len(expected) + 1))


def test_a_line_too_long_is_counted_and_not_kept() -> None:
    splitter = LineSplitter(10)
    for _ in range(1000):
        assert list(splitter.feed(b"x" * 1000)) == []
    assert len(splitter._rest) < 20
    assert list(splitter.feed(b"\nab\n")) == [Line(1, 1_000_000, None), Line(2, 2, b"ab")]


@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(1, 9))
def test_lines_do_not_depend_on_the_pieces(lines: list[bytes], size: int) -> None:
    data = b"\n".join(lines)
    assert split(data, size) == split(data, 10_000)


async def test_a_pipe_is_read_as_it_is_written() -> None:
    reader, writer = os.pipe()
    with io.FileIO(reader) as source:
        chunks = read_chunks(source)
        os.write(writer, b"first")
        assert await anext(chunks) == b"first"
        os.write(writer, b"second")
        assert await anext(chunks) == b"second"
        os.close(writer)
        assert [chunk async for chunk in chunks] == []


async def test_an_error_while_reading_reaches_the_reader() -> None:
    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        await anext(read_chunks(Broken()))


async def test_a_large_file_is_not_read_far_ahead_of_its_reader() -> None:
    taken = 0
    ahead = []

    class Long(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:
            ahead.append(len(ahead) + 1 - taken)
            return len(buffer) if len(ahead) <= 200 else 0

    async for _ in read_chunks(Long()):
        taken += 1
        await asyncio.sleep(0)
    assert taken == 200
    assert max(ahead) <= 5
