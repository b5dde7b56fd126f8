"""The root command: imports a command's module when that command is used, ends every error in a sentence."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
import traceback
from typing import Final, NamedTuple

import click

from streams.cli.common import EXIT_FAILED, EXIT_INTERRUPTED, complain, explain


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


class LazyGroup(click.Group):
    """A group that imports the module of a command when the command is used, so that ``--help`` is instant."""

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
    PROFILESTREAM_..., a file profilestream.yaml (see `profilestream doctor`).

    \b
    Exit codes:
      0  done
      1  an error, or a service that does not answer
      2  wrong command line or wrong settings
      3  done, but some of the input was refused
      130  interrupted
    """
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    else:
        logging.getLogger().addHandler(logging.NullHandler())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = cli.main(arguments, prog_name="profilestream", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read the output has left
        sys.exit(EXIT_FAILED)
    except Exception as error:
        if {"-v", "--verbose"} & set(arguments):
            traceback.print_exc()
        sentence, code = explain(error)
        complain(sentence)
        sys.exit(code)
