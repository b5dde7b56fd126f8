"""``profilestream config``: checks the pipeline file, and prints the configuration in force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from streams.cli.common import EXIT_FAILED, Group, Options, json_option, print_json, printable, settings_options

if TYPE_CHECKING:
    from schemas.pipeline import PipelineConfig

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=Group)
def config() -> None:
    """Check or print the file that says what a profile may hold.

    It is the file that the setting `pipeline_file` names: topics and slots, facts, tags, language, budgets.
    """


@config.command()
@click.argument("file", type=_FILE)
@json_option
@click.pass_context
def check(ctx: click.Context, file: Path, as_json: bool) -> None:
    """Check a pipeline file as a worker does when it starts, and name everything that is wrong with it.

    A problem is a line `file:line:column: key: what is wrong`. The exit code is 1 when there is any.

    \b
    Examples:
      profilestream config check pipeline.yaml
      profilestream config check --json pipeline.yaml
    """
    from streams.pipeline_file import PipelineFileError, load_pipeline

    try:
        found = load_pipeline(file)
    except PipelineFileError as error:
        for problem in error.problems:
            if as_json:
                print_json(problem._asdict())
            else:
                click.echo(printable(str(problem)))
        ctx.exit(EXIT_FAILED)
    _print_summary(file, found, as_json)


@config.command()
@click.argument("file", type=_FILE, required=False)
@json_option
@settings_options
def show(file: Path | None, as_json: bool, options: Options) -> None:
    """Print a configuration with every default and slot written out.

    Without FILE it is the one that the settings name. What is printed is itself a pipeline file that means the same.

    \b
    Examples:
      profilestream config show
      profilestream config show pipeline.yaml > whole.yaml
    """
    from agents.slots import written_out
    from streams.pipeline_file import load_pipeline

    path = file or options.load().pipeline_file
    whole = written_out(load_pipeline(path))
    if as_json:
        print_json(_with_defaults(whole))
    else:
        _print_yaml(whole, path)


def _print_summary(file: Path, found: PipelineConfig, as_json: bool) -> None:
    from agents.slots import slot_definitions, written_out

    whole = written_out(found)
    topics = whole.overwrite_user_profiles or ()
    slots, digest = len(slot_definitions(whole)), whole.content_hash()
    tags, catalogue = len(whole.event_tags), len(whole.tag_catalogue)
    if as_json:
        print_json(
            {
                "file": str(file),
                "topics": len(topics),
                "slots": slots,
                "tags": tags,
                "catalogue": catalogue,
                "language": whole.language,
                "hash": digest,
            }
        )
    else:
        click.echo(
            f"{printable(str(file))} is right: {len(topics)} topics, {slots} slots, {tags} event tags, "
            f"{catalogue} tags in the catalogue, language {whole.language}, hash {digest}"
        )


def _with_defaults(whole: PipelineConfig) -> dict[str, object]:
    """Return the configuration as plain values; inside its groups of keys, records leave the defaults out."""
    import msgspec

    plain: dict[str, object] = msgspec.to_builtins(whole)
    groups = {name: value for name, value in msgspec.structs.asdict(whole).items() if isinstance(value, msgspec.Struct)}
    return plain | {name: msgspec.to_builtins(msgspec.structs.asdict(group)) for name, group in groups.items()}


def _print_yaml(whole: PipelineConfig, path: Path | None) -> None:
    import yaml

    click.echo(f"# {printable(str(path)) if path else 'no file: the defaults'}, hash {whole.content_hash()}")
    text = yaml.safe_dump(_with_defaults(whole), allow_unicode=True, sort_keys=False, width=100)
    for line in text.splitlines():
        click.echo(printable(line))
