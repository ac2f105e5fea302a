"""Send requests and responses, independent of the wire protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from gantrymq.errors import GantryError, StoreError
from gantrymq.interfaces.store import PutResult
from gantrymq.model.access import Principal

__all__ = ["MessageRecall", "RecallAnswer", "RecallRequest", "SendAnswer", "SendBackRequest", "SendRequest"]


class SendRequest(NamedTuple):
    """A send request of a producer."""

    group: str  # producer group
    topic: str
    body: bytes | memoryview | None
    properties: str = ""  # NAME 0x01 VALUE 0x02 ..., the wire format
    queue_id: int = -1  # negative: the broker picks one
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0  # ms; 0 without born_host: now
    born_host: bytes = b""  # packed, see model.hosts; empty: the broker's own
    peer: tuple[str, int] = ("", 0)  # for error messages
    default_topic: str = "TBW102"  # template of a topic that this send creates
    default_topic_queues: int = 4
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    unit_mode: bool = False
    batch: bool = False  # the body contains several messages, see formats.batch_body
    client_version: int = 479  # protocol version (V5_3_3); some rules depend on it
    principal: Principal | None = None  # the sender; None: the broker itself, not checked


class SendAnswer(NamedTuple):
    """The result of a stored send."""

    queue_id: int
    unique_id: str | None  # None for a batch of an old client, whose entries have their own ids
    batch_id: str | None  # id of an inner batch, which is stored as one record
    results: Sequence[PutResult]  # one per message; one in total for an inner batch
    unconfirmed: StoreError | None = None  # stored, but a gate took longer than ``syncFlushTimeout``
    fields: Mapping[str, str] | None = None  # extra fields for the response header, see `MovedMessage`


class SendBackRequest(NamedTuple):
    """A request to take a message back from a consumer."""

    group: str
    log_offset: int  # of the consumed record, which may itself be a copy for an earlier failure
    delay_level: int = 0  # of the next attempt; 0: the broker decides, negative: dead letter
    max_reconsume_times: int | None = None
    unit_mode: bool = False
    client_version: int = 479  # protocol version of the client
    principal: Principal | None = None  # the sender; None: the broker itself, not checked
    failure: str | None = None  # exception of the consumer, for a dead letter


class RecallRequest(NamedTuple):
    """A request to drop a timed message before it is due."""

    topic: str
    handle: str  # from the answer to the send
    group: str | None  # producer group
    born_host: bytes  # of the client, packed
    principal: Principal | None = None


class RecallAnswer(NamedTuple):
    """The result of a stored recall."""

    message_id: str  # unique id of the recalled message
    unconfirmed: GantryError | None = None  # stored, but a gate took too long


@runtime_checkable
class MessageRecall(Protocol):
    """A service that recalls messages, such as ``schedule``."""

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Recall a waiting timed message, see `Messages.recall`."""
