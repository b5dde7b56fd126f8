"""Client of profilestream for applications: publish chat messages, subscribe to profile changes, read a context.

async with Client("localhost:9092") as client:
    await client.publish([ChatMessage(user_id="anna", role="user", content="I moved to Lyon.")])
    async with client.subscribe(user="anna") as deltas:
        async for delta in deltas:
            print(delta.version, delta.op, delta.topic, delta.before, delta.after)
            print((await client.context("anna")).text)
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from profilestream_client.client import Client
    from profilestream_client.connection import Connection
    from profilestream_client.errors import (
        ClientError,
        InvalidMessage,
        KafkaUnavailable,
        PositionLost,
        PublishFailed,
        StoreRefused,
        StoreUnavailable,
        TopicMissing,
    )
    from profilestream_client.packing import Event, Item, LeftOut, Packed, PackingOptions, pack
    from profilestream_client.position import Position
    from profilestream_client.publishing import Published
    from profilestream_client.records import (
        DEFAULT_TENANT,
        MAX_MESSAGE_BYTES,
        ChatMessage,
        FactDetail,
        PreferenceDetail,
        ProfileDelta,
    )
    from profilestream_client.stores import Stores
    from profilestream_client.subscription import Filter, Subscription
    from profilestream_client.tokens import estimate_tokens
    from profilestream_client.versions import Gap

__all__ = [
    "DEFAULT_TENANT",
    "MAX_MESSAGE_BYTES",
    "ChatMessage",
    "Client",
    "ClientError",
    "Connection",
    "Event",
    "FactDetail",
    "Filter",
    "Gap",
    "InvalidMessage",
    "Item",
    "KafkaUnavailable",
    "LeftOut",
    "Packed",
    "PackingOptions",
    "Position",
    "PositionLost",
    "PreferenceDetail",
    "ProfileDelta",
    "PublishFailed",
    "Published",
    "StoreRefused",
    "StoreUnavailable",
    "Stores",
    "Subscription",
    "TopicMissing",
    "estimate_tokens",
    "pack",
]

_MODULES: Final = {
    "client": ("Client",),
    "connection": ("Connection",),
    "errors": (
        "ClientError",
        "InvalidMessage",
        "KafkaUnavailable",
        "PositionLost",
        "PublishFailed",
        "StoreRefused",
        "StoreUnavailable",
        "TopicMissing",
    ),
    "packing": ("Event", "Item", "LeftOut", "Packed", "PackingOptions", "pack"),
    "position": ("Position",),
    "publishing": ("Published",),
    "records": (
        "DEFAULT_TENANT",
        "MAX_MESSAGE_BYTES",
        "ChatMessage",
        "FactDetail",
        "PreferenceDetail",
        "ProfileDelta",
    ),
    "stores": ("Stores",),
    "subscription": ("Filter", "Subscription"),
    "tokens": ("estimate_tokens",),
    "versions": ("Gap",),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}
"""Where each name is made: its module is imported when the name is first used, for a program that needs one part of
the package, such as a single module of it, is not to wait for all others."""

if not TYPE_CHECKING:  # a type checker is to know which names there are

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found: object = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
