"""Log lines of a worker: one format, on standard error, and of the libraries only what an operator can act on."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_LEAST: Final = {
    # What these log below is retried by themselves.
    "aiokafka": logging.ERROR,
    "faust": logging.WARNING,
    "mode": logging.WARNING,
    # Faust's services log their own start and stop under the name of the module that defines them.
    "streams.faust_app": logging.WARNING,
    "streams.tables": logging.WARNING,
    # Clients that log every request.
    "httpx": logging.WARNING,
    "httpx2": logging.WARNING,
    "httpcore": logging.WARNING,
    "httpcore2": logging.WARNING,
    "openai": logging.WARNING,
    "qdrant_client": logging.WARNING,
    "clickhouse_connect": logging.WARNING,
    "urllib3": logging.WARNING,
}
"""The least level that is printed of a logger, whatever the level of all."""


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
    for name, least in _LEAST.items():
        logging.getLogger(name).setLevel(max(level, least))
