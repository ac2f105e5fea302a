"""The client for threads: `gantrymq.client` without asyncio.

    from gantrymq.client.sync import Client, Message

    with Client("127.0.0.1:9876") as client:
        client.producer("shop").send(Message("Orders", b"one apple"))

Messages, results, settings and errors are those of `gantrymq.client`; both packages may be imported together.
"""

from __future__ import annotations

from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.client.sync.client import Client
from gantrymq.client.sync.idempotent import Idempotent, idempotent
from gantrymq.client.sync.streams import MessageStream
from gantrymq.client.sync.twins import (
    Admin,
    Consumer,
    LitePullConsumer,
    PopConsumer,
    Producer,
    Reader,
    TransactionProducer,
)

__all__ = [
    "Admin",
    "Client",
    "Consumer",
    "Idempotent",
    "LitePullConsumer",
    "Message",
    "MessageStream",
    "PopConsumer",
    "Producer",
    "Reader",
    "ReceivedMessage",
    "TransactionProducer",
    "idempotent",
]
