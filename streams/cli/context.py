"""``profilestream context``: what is known of a user, under a token budget, for a prompt."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote, urlsplit

import click
import msgspec

from streams.cli.common import (
    EXIT_REFUSED,
    Options,
    complain,
    json_option,
    place_of_line,
    print_json,
    printable,
    settings_options,
    whose,
)
from streams.cli.parameters import LOCAL_TIME, Moment, Text, tenant_option, user_argument

if TYPE_CHECKING:
    from datetime import datetime

    from profilestream_client import ChatMessage, Packed, PackingOptions, Stores

    from sinks.embeddings import Embedder
    from streams.settings import Settings

_TURNS: Final = 200
"""Turns of a conversation that are looked at: the last ones."""


class _Turn(msgspec.Struct, frozen=True):
    """What matters of a line of the conversation; it may be a whole chat message."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str
    message_id: str | None = None


@click.command()
@user_argument
@tenant_option
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=500,
    show_default=True,
    help="Tokens (o200k) at the most, headings included.",
)
@click.option(
    "--chat",
    "file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="The last turns of the conversation, JSON lines with role and content; - reads standard input. Events are "
    "then chosen by what the user said in it.  [default: the newest events]",
)
@click.option(
    "--prefer",
    type=Text(),
    multiple=True,
    metavar="TOPIC",
    help="A topic that comes first; give it again for the next.",
)
@click.option(
    "--only", type=Text(), multiple=True, metavar="TOPIC", help="Nothing but this topic; give it again for another."
)
@click.option("--per-topic", type=click.IntRange(min=1), metavar="N", help="The newest N of each topic at the most.")
@click.option(
    "--events-share",
    type=click.FloatRange(0, 1),
    default=0.4,
    show_default=True,
    help="Part of the budget that is kept for events; what one part does not use is the other's.",
)
@click.option(
    "--since", type=Moment(), metavar="WHEN", help=f"Only events from then on: 2h, 30d, or a time ({LOCAL_TIME})."
)
@click.option("--until", type=Moment(), metavar="WHEN", help="Only events before then, likewise.")
@click.option(
    "--min-similarity",
    type=click.FloatRange(-1, 1),
    help="With --chat: only events at least as near in meaning.  [default: where the embedding model begins to tell]",
)
@json_option
@settings_options
@click.pass_context
def context(
    ctx: click.Context,
    user: str,
    tenant: str,
    budget: int,
    file: Path | None,
    prefer: tuple[str, ...],
    only: tuple[str, ...],
    per_topic: int | None,
    events_share: float,
    since: datetime | None,
    until: datetime | None,
    min_similarity: float | None,
    as_json: bool,
    options: Options,
) -> None:
    """Print what is known of USER as text for a prompt, within a budget of tokens.

    Preferred topics come first, then what was said last; what does not fit is left out as a whole. Turns of the
    conversation that have a message_id and are not processed yet are counted in the text. With --json it is one object
    that also says what is in it, what is not, and why.

    \b
    Examples:
      profilestream context anna
      profilestream context anna --budget 300 --prefer work --per-topic 3
      tail -n 6 chat.jsonl | profilestream context anna --chat -
      profilestream context anna --json | jq -r '.left_out[].reason'
    """
    from profilestream_client import PackingOptions

    wanted = PackingOptions(
        budget=budget,
        prefer=prefer,
        only=only,
        per_topic=per_topic,
        events_share=events_share,
        since=since,
        until=until,
        min_similarity=min_similarity,
    )
    if file is None and min_similarity is not None:
        raise click.UsageError("--min-similarity needs --chat: without it nothing is compared.")
    settings = options.load()
    chat, refused = _read_chat(file) if file else ([], 0)
    found = asyncio.run(_packed(settings, user, tenant, wanted, chat))
    if as_json:
        print_json({"tenant_id": tenant, "user_id": user, **msgspec.structs.asdict(found)})
    elif found.text:
        click.echo(found.text)
    elif found.left_out:
        complain(f"nothing of what is known of {whose(tenant, user)} fits: raise --budget, or widen what is asked for")
    else:
        complain(f"nothing is known of {whose(tenant, user)} yet")
    if refused:
        ctx.exit(EXIT_REFUSED)


def _read_chat(file: Path) -> tuple[list[ChatMessage], int]:
    """Return the last turns of a conversation, and how many lines are none; each of those is named."""
    from profilestream_client import MAX_MESSAGE_BYTES, ChatMessage

    from schemas.codec import InvalidRecord, decode
    from streams.lines import Line, LineSplitter

    turns: deque[ChatMessage] = deque(maxlen=_TURNS)
    refused = 0
    splitter = LineSplitter(MAX_MESSAGE_BYTES)

    def take(line: Line) -> int:
        if line.data is not None and not line.data.strip():
            return 0
        try:
            if line.data is None:
                raise InvalidRecord(f"{line.size} bytes are more than the {MAX_MESSAGE_BYTES} that a turn may have")
            turn = decode(line.data, _Turn)
        except InvalidRecord as error:
            complain(f"{place_of_line(file, line.number)} is skipped: {printable(str(error))}")
            return 1
        turns.append(ChatMessage(user_id="", role=turn.role, content=turn.content, message_id=turn.message_id))
        return 0

    with contextlib.closing(io.FileIO(0, closefd=False) if str(file) == "-" else io.FileIO(file)) as stream:
        while chunk := stream.read(1 << 18):
            refused += sum(take(line) for line in splitter.feed(chunk))
    refused += sum(take(line) for line in splitter.finish())
    return list(turns), refused


async def _packed(
    settings: Settings, user: str, tenant: str, wanted: PackingOptions, chat: list[ChatMessage]
) -> Packed:
    from profilestream_client import ClientError
    from profilestream_client.context import read_context

    from sinks.errors import SinkRejected, SinkUnavailable
    from streams.stores import make_embedder
    from streams.tokens import count_tokens

    if not chat:
        return await read_context(_stores(settings), user, tenant=tenant, options=wanted, count_tokens=count_tokens)
    embedder = make_embedder(settings.embedding)
    near = wanted
    if wanted.min_similarity is None:
        near = msgspec.structs.replace(wanted, min_similarity=embedder.similarity_floor)
    try:
        return await read_context(
            _stores(settings, embedder),
            user,
            tenant=tenant,
            options=near,
            chat=chat,
            embed=embedder.embed_query,
            count_tokens=count_tokens,
        )
    except (ClientError, SinkUnavailable, SinkRejected) as error:
        found = await read_context(
            _stores(settings), user, tenant=tenant, options=wanted, chat=chat, count_tokens=count_tokens
        )
        complain(f"events are the newest, not those that are near to the conversation: {printable(str(error))}")
        return found
    finally:
        await embedder.close()


def _stores(settings: Settings, embedder: Embedder | None = None) -> Stores:
    """Return where to read, and the collection that holds the vectors of this embedder."""
    from profilestream_client import Stores

    clickhouse, qdrant = settings.clickhouse, settings.qdrant
    collection = qdrant.collection
    if embedder is not None:
        from sinks.vectors.layout import collection_name

        collection = collection_name(collection, embedder.name, embedder.dimension)
    login = urlsplit(clickhouse.url)
    return Stores(
        clickhouse_url=clickhouse.url,
        clickhouse_user=unquote(login.username) if login.username else clickhouse.user,
        clickhouse_password=unquote(login.password) if login.password else clickhouse.password.get_secret_value(),
        clickhouse_database=clickhouse.database,
        qdrant_url=qdrant.url,
        qdrant_api_key=qdrant.api_key.get_secret_value(),
        qdrant_collection=collection,
        timeout=clickhouse.timeout,
    )
