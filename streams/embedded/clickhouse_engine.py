"""chDB, ClickHouse's engine in this process, run statement by statement with the scope that HTTP gives them.

Over HTTP a statement has its own settings, parameters and database, unless it names a session. A connection of
chDB keeps all three, and costs a quarter of a millisecond: so each statement gets a fresh one, and each session
keeps one.

A result is complete before any of it is sent, so that an error always comes with its own HTTP status.

Every method blocks and may be called from any thread.
"""

from __future__ import annotations

import fcntl
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

import chdb

from streams.embedded.serving import PathUnusable

DEFAULT_FORMAT: Final = "TabSeparated"

_NAME: Final = rb"(?:\w+|`(?:[^`\\]|\\.)+`|\"(?:[^\"\\]|\\.)+\"|\{\w+:\s*Identifier\})"
_INSERT: Final = re.compile(
    rb"\s*(?P<into>INSERT\s+INTO\s+(?:TABLE\s+)?" + _NAME + rb"(?:\." + _NAME + rb")?"
    rb"(?:\s*\(\s*" + _NAME + rb"(?:\s*,\s*" + _NAME + rb")*\s*\))?)"
    rb"(?P<settings>\s*\bSETTINGS\s[\w\s=.,]+?)?"
    rb"\s*\b(?P<format>FORMAT\s+\w+)(?=\s|$)[ \t\f]*(?:\r?\n)?",
    re.IGNORECASE,
)
_FORMAT: Final = re.compile(rb"\bFORMAT\s+(\w+)\s*(?:SETTINGS\b[^()']*)?;?\s*$", re.IGNORECASE)
_ERROR_CODE: Final = re.compile(r"Code: (\d+)\.")
_VERSION: Final = re.compile(r"\s*\(version [^()]*(?:\([^()]*\))?\)\s*$")
_ERROR_NAME: Final = re.compile(r"\(([A-Z][A-Z0-9_]+)\)")
_SETTING: Final = re.compile(r"[A-Za-z_]\w*")


class EngineError(Exception):
    """ClickHouse refused or failed a statement.

    Attributes:
        code: its error code.
        name: the name of that code, such as ``UNKNOWN_TABLE``.
    """

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(f"Code: {code}. DB::Exception: {message} ({name})")
        self.code = code
        self.name = name

    @classmethod
    def of(cls, error: Exception) -> EngineError:
        """Return the ClickHouse error that an exception of chDB carries in its text."""
        text = _VERSION.sub("", str(error)).strip()
        found = _ERROR_CODE.search(text)
        if found is None:
            return cls(1002, "UNKNOWN_EXCEPTION", text)
        names = _ERROR_NAME.findall(text)
        name = names[-1] if names else "UNKNOWN_EXCEPTION"
        message = text[found.end() :].removeprefix(" DB::Exception:").strip()
        return cls(int(found[1]), name, message.removesuffix(f"({name})").rstrip())


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement as a request brings it.

    Attributes:
        sql: the statement; an INSERT has its rows behind it.
        database: where unqualified names belong; empty: the session's, or ``default``.
        settings: settings that hold for this statement only.
        parameters: values of ``{name:Type}``, in ClickHouse's escaped text form.
        format: how rows are returned unless the statement says so.
        read_only: refuse whatever changes something.
        session: a session's name, or null.
        session_timeout: seconds without a statement after which the session is forgotten.
        session_must_exist: refuse to open the session.
    """

    sql: bytes
    database: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    format: str = DEFAULT_FORMAT
    read_only: bool = False
    session: str | None = None
    session_timeout: float = 60.0
    session_must_exist: bool = False


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a statement gave.

    Attributes:
        body: the result.
        format: its format.
        read_rows: rows read.
        written_rows: rows written by an INSERT that brought them.
    """

    body: bytes
    format: str
    read_rows: int = 0
    written_rows: int = 0


@dataclass
class _Session:
    connection: Any
    used_at: float
    timeout: float
    lock: threading.Lock = field(default_factory=threading.Lock)


class Engine:
    """The engine, open on one data directory; another process cannot open the same one meanwhile."""

    def __init__(self, path: Path) -> None:
        """Open the directory, which is created when missing, and empty its temporary folder.

        Raises:
            PathUnusable: when another process has it open, or it cannot be opened.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            if _is_locked(path / "status"):
                raise PathUnusable(f"{path} is in use by another process: stop that one or choose another path")
            leftovers = [file for file in (path / "tmp").glob("*") if file.is_file()]
        except OSError as error:
            raise PathUnusable(f"{path} cannot be used as a data directory: {error.strerror}") from error
        try:
            self._root = chdb.connect(str(path))
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise PathUnusable(f"{path} cannot be opened as a ClickHouse data directory: {reason}") from error
        # Only now is the directory surely ours, and so are the files that a killed process left behind.
        for file in leftovers:
            file.unlink(missing_ok=True)
        self._sessions: dict[str, _Session] = {}
        self._sessions_lock = threading.Lock()
        self._path = str(path)
        row = self._root.query("SELECT version() AS version, timezone() AS timezone", "JSONEachRow")
        described = json.loads(row.bytes())
        self.version: str = described["version"]
        self.timezone: str = described["timezone"]

    def close(self) -> None:
        """Close every session and the engine; no statement may be running."""
        for session in self._sessions.values():
            session.connection.close()
        self._sessions.clear()
        self._root.close()

    def run(self, statement: Statement) -> Answer:
        """Run a statement.

        Raises:
            EngineError: what ClickHouse says against it.
        """
        try:
            with self._connection(statement) as connection, _scope(connection, statement):
                insert = _INSERT.match(statement.sql)
                return _query(connection, statement) if insert is None else _insert(connection, statement, insert)
        except RuntimeError as error:
            raise EngineError.of(error) from error

    @contextmanager
    def _connection(self, statement: Statement) -> Iterator[Any]:
        if statement.session is None:
            connection = chdb.connect(self._path)
            try:
                yield connection
            finally:
                connection.close()
            return
        session = self._session(statement.session, statement)
        try:
            yield session.connection
        finally:
            session.used_at = time.monotonic()
            session.lock.release()

    def _session(self, name: str, statement: Statement) -> _Session:
        """Return the session, locked for the caller, and forget those that have not been used for long."""
        now = time.monotonic()
        with self._sessions_lock:
            for other, session in list(self._sessions.items()):
                if now - session.used_at > session.timeout and session.lock.acquire(blocking=False):
                    session.connection.close()
                    del self._sessions[other]
            known = self._sessions.get(name)
            if known is None:
                if statement.session_must_exist:
                    raise EngineError(372, "SESSION_NOT_FOUND", "Session not found.")
                known = self._sessions[name] = _Session(chdb.connect(self._path), now, statement.session_timeout)
            if not known.lock.acquire(blocking=False):
                raise EngineError(373, "SESSION_IS_LOCKED", "Session is locked by a concurrent client.")
            return known


@contextmanager
def _scope(connection: Any, statement: Statement) -> Iterator[None]:
    """Apply the statement's database and settings; take the settings back where the connection is a session's."""
    if statement.database:
        connection.query(f"USE {_quoted(statement.database, '`')}", "Null")
    settings = dict(statement.settings)
    for name in settings:
        if not _SETTING.fullmatch(name):
            raise EngineError(115, "UNKNOWN_SETTING", f"Unknown setting '{name}'")
    # A session could not leave the read-only mode again.
    if statement.read_only and statement.session is None:
        settings.setdefault("readonly", "2")
    if not settings:
        yield
        return
    before = _current(connection, settings) if statement.session is not None else {}
    connection.query("SET " + ", ".join(f"{name} = {_quoted(value)}" for name, value in settings.items()), "Null")
    try:
        yield
    finally:
        if before:
            connection.query("SET " + ", ".join(f"{name} = {value}" for name, value in before.items()), "Null")


def _current(connection: Any, names: Mapping[str, str]) -> dict[str, str]:
    """Return the SQL literals that put these settings back to what they are now."""
    wanted = ", ".join(_quoted(name) for name in names)
    rows = connection.query(
        f"SELECT name, value, changed FROM system.settings WHERE name IN ({wanted})",  # noqa: S608 - quoted above
        "JSONEachRow",
    )
    settings = (json.loads(line) for line in rows.bytes().splitlines())
    return {each["name"]: _quoted(each["value"]) if each["changed"] else "DEFAULT" for each in settings}


def _insert(connection: Any, statement: Statement, found: re.Match[bytes]) -> Answer:
    """Insert the rows that follow the statement, from a file: chDB's `send_insert` hides that rows were not stored."""
    with TemporaryFile() as rows:
        rows.write(statement.sql[found.end() :])
        rows.seek(0)
        sql = f"{_text(found['into'])} FROM INFILE '/dev/fd/{rows.fileno()}'{_text(found['settings'] or b'')} "
        result = connection.query(sql + _text(found["format"]), "Null", params=dict(statement.parameters))
    return Answer(body=b"", format=statement.format, written_rows=result.rows_read())


def _query(connection: Any, statement: Statement) -> Answer:
    named = _FORMAT.search(statement.sql)
    format_ = _text(named[1]) if named else statement.format
    # A format that the statement names takes precedence over the one that is asked for here.
    result = connection.query(_text(statement.sql), statement.format, params=dict(statement.parameters))
    return Answer(body=result.bytes() or b"", format=format_, read_rows=result.rows_read())


def _is_locked(status_file: Path) -> bool:
    """Whether some process holds the file that the engine locks; asked first, as the engine's answer is vague."""
    try:
        with status_file.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _text(sql: bytes) -> str:
    try:
        return sql.decode()
    except UnicodeDecodeError:
        raise EngineError(62, "SYNTAX_ERROR", "Syntax error: the statement is not UTF-8") from None


def _quoted(text: str, quote: str = "'") -> str:
    return quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote
