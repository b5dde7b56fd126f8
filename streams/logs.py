"""Log lines of a worker: one format, on standard error, and of the libraries only what an operator can act on."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_QUIET: Final = {"aiokafka": logging.ERROR, "faust": logging.WARNING, "mode": logging.WARNING}
"""Libraries that log what they retry by themselves."""

_CHATTY: Final = (
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "openai",
    "qdrant_client",
    "clickhouse_connect",
    "urllib3",
)
"""Clients that log every request."""


class _WithoutCancellation(logging.Filter):
    """Leaves out the traces of tasks that were cancelled because the program ends."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be printed."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, asyncio.CancelledError) and "reason=CancelledError" not in record.getMessage()


def configure_logs(level: int = logging.INFO) -> None:
    """Set up logging for this process."""
    logging.basicConfig(level=level, format=_FORMAT, force=True)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_WithoutCancellation())
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(level, least))
    for name in (
        "httpx",
        "httpx2",
        "httpcore",
        "httpcore2",
        "openai",
        "qdrant_client",
        "clickhouse_connect",
        "urllib3",
    ):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    # Faust's services log their own start and stop under the name of the module that defines them.
    for name in ("streams.faust_app", "streams.tables"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
