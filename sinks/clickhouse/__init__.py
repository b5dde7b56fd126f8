"""The archive in ClickHouse: every profile delta and flush event, and what is read back from them."""

from sinks.clickhouse.archive import ClickHouseArchive

__all__ = ["ClickHouseArchive"]
