"""What every command shares: options, consoles, safe printing, errors in a sentence, exit codes."""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

    from streams.settings import Settings

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_REFUSED: Final = 3
EXIT_INTERRUPTED: Final = 130
EXIT_READER_LEFT: Final = 141
"""As shells report a program that wrote into a pipe which nobody reads any more: 128 and the number of SIGPIPE."""

_UNFOLDED: Final = 1_000
"""Columns of what is printed into a pipe."""

P = ParamSpec("P")
R = TypeVar("R")

_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


SETTINGS_ERROR: Final = "streams.settings.names.SettingsError"
PIPELINE_FILE_ERROR: Final = "streams.pipeline_file.PipelineFileError"

_LISTS: Final = {
    SETTINGS_ERROR: ("the settings are wrong:", EXIT_USAGE),
    PIPELINE_FILE_ERROR: ("the pipeline file cannot be used:", EXIT_USAGE),
}
"""Errors whose message has a line for each problem."""

SENTENCES: Final = frozenset(
    {
        "profilestream_client.errors.ClientError",
        "sinks.errors.SinkRejected",
        "sinks.errors.SinkUnavailable",
        "streams.cli.common.CommandFailed",
        "streams.embedded.child.ServiceFailed",
        "streams.errors.DependencyDown",
        "streams.kafka.KafkaUnavailable",
        "streams.metrics_server.MetricsUnavailable",
        PIPELINE_FILE_ERROR,
        "streams.restore.RestoreRefused",
        "streams.running.WorkerCrashed",
        "streams.topics.TopicsError",
    }
)
"""Errors whose message is made for people; by name, because importing all of them would take a second."""

_NO_STORE: Final = frozenset({"sinks.errors.SinkUnavailable", "profilestream_client.errors.StoreUnavailable"})


class CommandFailed(Exception):
    """The command cannot do what it was asked; the message is one sentence with the next step."""


class Group(click.Group):
    """A group that names the commands that may have been meant, where there is none of the name given."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name."""
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-")) and self.get_command(ctx, name) is None:
            found = f"there is no command '{printable(name)}'{did_you_mean(name, self.list_commands(ctx))}"
            ctx.fail(f"{found}: `{ctx.command_path} --help` lists them.")
        return super().resolve_command(ctx, args)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the names that are like this one, for the middle of a sentence; nothing where none is."""
    close = difflib.get_close_matches(name, list(known))
    return f" (did you mean {' or '.join(close)}?)" if close else ""


@dataclass(frozen=True)
class Options:
    """Where a command's settings come from."""

    data_dir: Path | None
    settings_file: Path | None

    def load(self, overrides: Mapping[str, object] | None = None, sources: Mapping[str, str] | None = None) -> Settings:
        """Read the settings, with `overrides` on top; those are given where services are about to be started.

        Args:
            overrides: nested like the settings.
            sources: which option some of these were given by, by full name.

        Raises:
            SettingsError: when they are wrong.
            CommandFailed: when no `profilestream up` runs in the folder that was named.
        """
        from streams.registry import find, running_folders
        from streams.settings import load_settings

        if overrides is None and self.data_dir is not None and find(self.data_dir) is None:
            raise CommandFailed(
                f"no `profilestream up` is running in {self.data_dir}: start it, or name another folder"
            )
        if overrides is None and self.data_dir is None and len(folders := running_folders()) > 1:
            others = ", ".join(map(str, folders[1:]))
            complain(f"using the `profilestream up` in {folders[0]}; others run in {others} (choose with --data-dir)")

        return load_settings(
            data_dir=self.data_dir, settings_file=self.settings_file, overrides=overrides, sources=sources
        )


def settings_options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options ``--data-dir`` and ``--settings``, which it receives as `options`."""

    @click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the `profilestream up` that is meant.  [default: any that runs]",
    )
    @click.option(
        "--settings",
        "settings_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Settings file.  [default: ./profilestream.yaml, if there]",
    )
    @functools.wraps(command)
    def with_options(*args: Any, data_dir: Path | None, settings_file: Path | None, **kwargs: Any) -> R:
        return command(*args, options=Options(data_dir, settings_file), **kwargs)

    return with_options


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line, for programs.")


def stdout_console() -> Console:
    """Return the console for results; text is printed as it is, never read as markup."""
    return _console(stderr=False)


def stderr_console() -> Console:
    """Return the console for progress and remarks."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            """Remarks are given up where nobody reads them; a command whose results are not read has no more to do."""
            if not stderr:
                raise BrokenPipeError
            self.quiet = True

    # What goes into a pipe or a file is for programs such as grep: nothing of it is folded.
    piped = not stderr and "COLUMNS" not in os.environ and not (sys.stdout is not None and sys.stdout.isatty())
    return Plain(stderr=stderr, highlight=False, markup=False, emoji=False, width=_UNFOLDED if piped else None)


def print_json(record: object) -> None:
    """Print a record as one line of JSON in UTF-8."""
    from schemas.codec import encode

    click.echo(encode(record))


def printable(text: str) -> str:
    """Return text with everything escaped that could command a terminal or turn its writing direction."""
    return _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def place_of_line(file: Path | str, number: int) -> str:
    """Return a line of input as a message names it; the file ``-`` is standard input."""
    return f"{name_of_input(file)}, line {number}" if str(file) == "-" else f"{name_of_input(file)}:{number}"


def name_of_input(file: Path | str) -> str:
    """Return a file of input as a message names it; ``-`` is standard input."""
    return "standard input" if str(file) == "-" else printable(str(file))


def whose(tenant_id: str, user_id: str) -> str:
    """Return a user and the tenant as a sentence names them."""
    return printable(f"{user_id} in tenant {tenant_id}")


def complain(sentence: str) -> None:
    """Print an error on standard error, if anybody reads it."""
    with contextlib.suppress(BrokenPipeError):
        click.echo(f"profilestream: {sentence}", err=True)


def _hint(names: set[str]) -> str:
    """Return what to do about a store that does not answer, where nothing of ours runs that would be it."""
    if not names & _NO_STORE or "sinks.errors.EmbedderUnavailable" in names:
        return ""
    from streams.registry import find

    return "" if find() else "; start one, for example with `profilestream up`"


def explain(error: Exception) -> tuple[str, int]:
    """Return the sentence for an error that ended a command, and the exit code."""
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    for name in names & _LISTS.keys():
        title, code = _LISTS[name]
        return title + "".join(f"\n  {printable(problem)}" for problem in str(error).splitlines()), code
    if names & SENTENCES:
        return printable(str(error)) + _hint(names), EXIT_FAILED
    if isinstance(error, ModuleNotFoundError):
        return (
            f"the Python package {error.name} is missing: install it, or all that one machine needs with "
            "pip install 'profilestream[embedded]'"
        ), EXIT_FAILED
    detail = printable(" ".join(str(error).split()))[:300]
    return (
        f"unexpected error, {type(error).__name__}: {detail} (`profilestream -v ...` shows where it came from)"
    ), EXIT_FAILED


def on_terminal() -> bool:
    """Whether progress can be shown: standard error is a terminal."""
    return sys.stderr.isatty()
