"""A send as an operation: what is asked and what is answered, whatever protocol brought it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gantrymq.errors import StoreError
from gantrymq.interfaces.store import PutResult

__all__ = ["SendAnswer", "SendRequest"]


class SendRequest(NamedTuple):
    """A send as a producer asks for it."""

    group: str  # of the producer
    topic: str
    body: bytes | memoryview | None
    properties: str = ""  # NAME 0x01 VALUE 0x02 ..., as the wire has them
    queue_id: int = -1  # negative: the broker picks one
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0  # ms; 0 without born_host: now
    born_host: bytes = b""  # packed, see model.hosts; empty: the broker's own
    peer: tuple[str, int] = ("", 0)  # for sentences
    default_topic: str = "TBW102"  # whose settings a topic that is made by this send takes
    default_topic_queues: int = 4
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    unit_mode: bool = False
    batch: bool = False  # the body holds several messages, see formats.batch_body
    client_version: int = 479  # of the client's protocol (V5_3_3): some rules follow it


class SendAnswer(NamedTuple):
    """A send that is stored."""

    queue_id: int
    unique_id: str | None  # None for a batch of an old client: its entries have ids of their own
    batch_id: str | None  # of an inner batch: its messages are one record
    results: Sequence[PutResult]  # of each message; one for an inner batch
    unconfirmed: StoreError | None = None  # stored, but a gate took longer than ``syncFlushTimeout``
    fields: Mapping[str, str] | None = None  # more for the answer's header, see `MovedMessage`
