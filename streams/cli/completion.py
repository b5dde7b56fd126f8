"""``profilestream completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
      profilestream completion bash >> ~/.bashrc
      profilestream completion zsh >> ~/.zshrc
      profilestream completion fish > ~/.config/fish/completions/profilestream.fish
    """
    from streams.cli.root import cli

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click has these three
    click.echo(kind(cli, {}, "profilestream", "_PROFILESTREAM_COMPLETE").source())
