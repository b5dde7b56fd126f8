"""The root command: imports a command's module when that command is used, ends every error in a sentence."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import select
import sys
import traceback
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import click

from streams.cli.common import EXIT_INTERRUPTED, EXIT_READER_LEFT, CommandFailed, Group, complain, explain


class _Lazy(NamedTuple):
    module: str
    help: str


_COMMANDS: Final = {
    "demo": _Lazy("demo", "Show everything at work on a conversation, from start to search."),
    "up": _Lazy("up", "Run the embedded services and a worker in the foreground."),
    "worker": _Lazy("worker", "Run a worker on the services that the settings name."),
    "restore": _Lazy("worker", "Rebuild the table of profiles from the archive."),
    "publish": _Lazy("publish", "Send chat messages from files of JSON lines."),
    "deltas": _Lazy("deltas", "Print profile changes, and follow them as they happen."),
    "profile": _Lazy("profile", "Print what is known of a user."),
    "history": _Lazy("profile", "Print how a user's profile came about."),
    "events": _Lazy("query", "Print what a user talked about, by time, tag and words."),
    "query": _Lazy("query", "Run a ready query on the archive, or list them."),
    "search": _Lazy("search", "Find what is known of users by meaning and by words."),
    "similar-users": _Lazy("similar_users", "Find users whose profiles are like a user's."),
    "context": _Lazy("context", "Print what is known of a user as text for a prompt."),
    "deadletters": _Lazy("deadletters", "See what could not be processed, and have it processed again."),
    "flush": _Lazy("flush", "Close a user's window now."),
    "forget": _Lazy("forget", "Remove all that is known of a user."),
    "migrate": _Lazy("upkeep", "Bring the archive's tables to this release's form."),
    "reindex": _Lazy("reindex", "Fill the vector index from the archive, for another embedding model."),
    "verify": _Lazy("upkeep", "Rebuild every profile from its deltas and compare."),
    "config": _Lazy("config", "Check or print the file that says what a profile may hold."),
    "completion": _Lazy("completion", "Print the completion script of a shell."),
    "bench": _Lazy("bench", "Send made-up traffic through workers and report what it took."),
    "doctor": _Lazy("doctor", "Print the settings, check every service, say what to do."),
}


class _ReaderLeft(Exception):
    """Nobody reads the output any more; no `OSError`, of which click makes exit codes of its own."""


class LazyGroup(Group):
    """A group that imports the module of a command when the command is used, so that ``--help`` is instant."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments before a command's name; some of them print."""
        with _telling_whose_pipe():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        with _telling_whose_pipe():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands that are installed."""
        return [name for name, lazy in _COMMANDS.items() if importlib.util.find_spec(_module(lazy))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, or None when there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(importlib.import_module(_module(_COMMANDS[cmd_name])), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)  # noqa: S101 - the table above is wrong otherwise
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name].help) for name in self.list_commands(ctx)])


def _module(lazy: _Lazy) -> str:
    return f"streams.cli.{lazy.module}"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="profilestream")
@click.option("-v", "--verbose", is_flag=True, help="Log to standard error, and show where an error came from.")
def cli(verbose: bool) -> None:
    """Chat messages in, user profile changes out.

    Commands use the services of a running `profilestream up`, or those that the settings name: variables
    PROFILESTREAM_..., a file profilestream.yaml (see `profilestream doctor`). Times are printed in local time (that of
    the variable TZ, where it is set), and read so unless they have an offset; with --json they are in UTC.

    \b
    Exit codes:
      0  done
      1  an error, or a service that does not answer
      2  wrong command line or wrong settings
      3  done, but some of the input was refused
      130  interrupted
      141  whoever read the output has left, as with `| head`
    """
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    else:
        logging.getLogger().addHandler(logging.NullHandler())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (_ReaderLeft, BrokenPipeError):
        code = EXIT_READER_LEFT
        _drop_output()
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    try:
        code = cli.main(arguments, prog_name="profilestream", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        with contextlib.suppress(BrokenPipeError):
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except (_ReaderLeft, BrokenPipeError):
        raise
    except Exception as error:
        if {"-v", "--verbose"} & set(arguments):
            traceback.print_exc()
        sentence, code = explain(error)
        complain(sentence)
        return code


@contextlib.contextmanager
def _telling_whose_pipe() -> Iterator[None]:
    """Tell a reader who has left, which is no error, from a service that has."""
    try:
        yield
    except BrokenPipeError as error:
        if _output_is_read():
            raise CommandFailed("a service has closed its connection: see with `profilestream doctor`") from error
        raise _ReaderLeft from error


def _output_is_read() -> bool:
    poll = select.poll()
    for number in _output_numbers():
        poll.register(number, 0)  # asks for nothing: an end that is gone is told all the same
    return not any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _drop_output() -> None:
    """Give what is still to be written, when the process ends, to nobody."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in _output_numbers():
        os.dup2(nowhere, number)


def _output_numbers() -> list[int]:
    numbers = []
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):  # closed from the start, or no file
            numbers.append(stream.fileno())
    return numbers
