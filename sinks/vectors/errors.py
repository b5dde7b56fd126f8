"""Turns what Qdrant's client raises into the two errors of a sink, each with a sentence for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from sinks.errors import SinkRejected, SinkUnavailable
from sinks.vectors.qdrant import (
    QdrantException,
    ResourceExhaustedResponse,
    ResponseHandlingException,
    UnexpectedResponse,
)


@contextmanager
def sink_errors(url: str, collection: str) -> Iterator[None]:
    """Run requests to a server about a collection.

    Raises:
        SinkUnavailable: when they are worth trying again.
        SinkRejected: when they are not.
    """
    server = f"Qdrant at {url}"
    try:
        yield
    except ResourceExhaustedResponse as error:
        raise SinkUnavailable(
            f"{server} is too busy ({error}): it is asked again", float(error.retry_after_s)
        ) from error
    except ResponseHandlingException as error:
        if isinstance(error.source, httpx.TransportError):
            cause = type(error.source).__name__
            raise SinkUnavailable(
                f"{server} does not answer ({cause}): is it running, and is qdrant.url right?"
            ) from error
        raise SinkRejected(f"{server} does not answer like Qdrant: check qdrant.url") from error
    except UnexpectedResponse as error:
        raise _refusal(server, collection, error) from error
    except QdrantException as error:  # too busy as well, with a wait that the client cannot read
        raise SinkUnavailable(f"{server} is too busy ({error}): it is asked again") from error
    except (ValueError, AssertionError) as error:  # an answer that is not JSON, or has no result in it
        raise SinkRejected(f"{server} does not answer like Qdrant: check qdrant.url") from error


def _refusal(server: str, collection: str, error: UnexpectedResponse) -> SinkUnavailable | SinkRejected:
    status = error.status_code or 0
    told = f"{server} answered {status} ({_reason(error)})"
    if status in {408, 429} or status >= 500:
        return SinkUnavailable(f"{told}: it is asked again")
    if status == 404:
        return SinkUnavailable(f"{told}: a worker creates collection {collection} when it starts")
    if status in {401, 403}:
        return SinkRejected(f"{told}: check qdrant.api_key")
    return SinkRejected(f"{told}: check qdrant.url and that collection {collection} is only used by us")


def _reason(error: UnexpectedResponse) -> str:
    """Return the server's own words, on one line."""
    try:
        words = str(error.structured()["status"]["error"])
    except (ValueError, KeyError, TypeError):
        words = error.reason_phrase
    return " ".join(words.split())[:300]
