"""The client library: asyncio, pure Python, for our servers and for Java ones.

A name is loaded when it is first used, so that a program that only sends does not wait for the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gantrymq.client.admin import Admin, QueueStats
    from gantrymq.client.producer import Producer
    from gantrymq.client.pull_result import PulledRecords, PullResult, PullStatus
    from gantrymq.client.reader import Reader
    from gantrymq.client.results import SendFailed, SendResult, SendStatus
    from gantrymq.client.subscription import Subscription
    from gantrymq.remoting.tls_contexts import TlsClient

__all__ = [
    "Admin",
    "Producer",
    "PullResult",
    "PullStatus",
    "PulledRecords",
    "QueueStats",
    "Reader",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "Subscription",
    "TlsClient",
]

_HOMES: Final = {
    "Admin": "gantrymq.client.admin",
    "Producer": "gantrymq.client.producer",
    "Reader": "gantrymq.client.reader",
    "PullResult": "gantrymq.client.pull_result",
    "PullStatus": "gantrymq.client.pull_result",
    "PulledRecords": "gantrymq.client.pull_result",
    "QueueStats": "gantrymq.client.admin",
    "SendFailed": "gantrymq.client.results",
    "SendResult": "gantrymq.client.results",
    "SendStatus": "gantrymq.client.results",
    "Subscription": "gantrymq.client.subscription",
    "TlsClient": "gantrymq.remoting.tls_contexts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
