"""The command ``profilestream``; `root` lists its commands, and each group of them has a module here."""

from streams.cli.root import main

__all__ = ["main"]
