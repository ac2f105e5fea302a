"""Pop consumption as operations: what the service ``pop`` offers (`Broker.service`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from gantrymq.errors import GantryError
from gantrymq.formats.record import RecordView, iter_records
from gantrymq.interfaces.client_channel import ClientChannel
from gantrymq.model.access import Principal
from gantrymq.model.receipt import Receipt

__all__ = [
    "InvisibleTime",
    "LastPop",
    "PopAck",
    "PopAnswer",
    "PopRequest",
    "PopService",
    "PoppedBatch",
    "PoppedMessage",
]


class PopRequest(NamedTuple):
    """A request for messages that stay invisible to other members until they are acknowledged."""

    group: str
    topic: str
    queue_id: int = -1  # -1: all queues
    max_count: int = 32
    invisible_ms: int = 60_000
    wait_ms: int = 0  # how long to wait for messages, from *born_ms*
    born_ms: int = 0  # when the client sent the request, wall clock; 0: now
    init_mode: int = 0  # 0: a new group starts at the first message, 1: at the last
    expression: str | None = None  # None: all messages
    expression_type: str | None = None  # None: TAG
    order: bool = False
    attempt_id: str | None = None  # of an ordered pop that is repeated
    principal: Principal | None = None  # the consumer; None: the broker itself, not checked


class PoppedBatch(NamedTuple):
    """Messages popped from one queue."""

    topic: str  # the topic that was read: a retry topic if *kind* is not 0
    kind: str  # 0: the topic of the request, 1 and 2: the forms of a retry topic
    queue_id: int
    start_offset: int
    offsets: Sequence[int]
    deliveries: Mapping[int, int] = MappingProxyType({})  # earlier ones by offset, without zeros, if ordered


class PoppedMessage(NamedTuple):
    """A popped message."""

    receipt: Receipt  # with the log offset of the record
    record: RecordView
    deliveries: int  # before this one


class PopAnswer(NamedTuple):
    """The answer to a pop."""

    code: int  # 0 found, 210 no message in time, 209 too many pops wait on this broker
    remark: str
    broker_name: str
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    rest: int  # messages left in the queues that were read
    batches: Sequence[PoppedBatch] = ()
    buffers: Sequence[bytes | memoryview] = ()  # consecutive records, in the order of the batches

    def receipts(self) -> Iterator[Receipt]:
        """Iterate over the receipts of the messages, in the order of the records."""
        for _, kind, queue_id, start, offsets, _ in self.batches:
            shared = start, self.pop_ms, self.invisible_ms, self.revive_queue, kind, self.broker_name, queue_id
            for offset in offsets:
                yield Receipt(*shared, offset)

    def messages(self) -> Iterator[PoppedMessage]:
        """Iterate over the messages."""
        records = (record for buffer in self.buffers for record in iter_records(buffer))
        earlier = (batch.deliveries.get(offset) for batch in self.batches for offset in batch.offsets)
        for receipt, record, times in zip(self.receipts(), records, earlier, strict=True):
            yield PoppedMessage(
                receipt._replace(log_offset=record.log_offset),
                record,
                record.reconsume_times if times is None else times,
            )


class PopAck(NamedTuple):
    """A popped message, as named in acknowledgements and changes of its invisible time."""

    group: str
    topic: str  # the topic that was read
    queue_id: int
    queue_offset: int
    receipt_handle: str  # POP_CK
    principal: Principal | None = None

    @classmethod
    def of(cls, group: str, topic: str, receipt: Receipt, principal: Principal | None = None) -> PopAck:
        """Name the message of a receipt; *topic* is the topic of the pop request."""
        stored, handle = receipt.topic(topic, group), str(receipt._replace(log_offset=None))
        return cls(group, stored, receipt.queue_id, receipt.queue_offset, handle, principal)


class InvisibleTime(NamedTuple):
    """A changed invisible time; the message has a new receipt handle with these values."""

    pop_ms: int
    invisible_ms: int
    revive_queue: int


class LastPop(NamedTuple):
    """The last pop of a topic by a group."""

    at: float  # monotonic s; now if it still waits for messages
    by: tuple[str, int]  # the peer


class PopService(Protocol):
    """The service ``pop``."""

    async def serve_pop(
        self, request: PopRequest, client: ClientChannel, respond: Callable[[PopAnswer | GantryError], None]
    ) -> None:
        """Pop messages and call *respond* once: before this returns, or later if the pop waits.

        It gets ConnectionLost if *client* is closed before the answer; messages that were popped for it are given back.
        Errors of the first attempt are raised.
        """

    async def receive(self, request: PopRequest, client: ClientChannel) -> PopAnswer:
        """Pop messages, waiting as long as the request allows. If it is cancelled, it gives back what it popped.

        Raises:
            RequestError: a check failed, with RocketMQ's code.
            ConnectionLost: *client* was closed before the answer.
        """

    def last_pop(self, group: str, topic: str) -> LastPop | None:
        """Return the last pop of a topic by a group, None if there was none within a minute."""

    async def ack(self, message: PopAck) -> None:
        """Acknowledge a message; return once this is stored.

        Raises:
            RequestError: with RocketMQ's code; 208 if there is no such message.
        """

    async def change_invisible_time(self, message: PopAck, invisible_ms: int) -> InvisibleTime:
        """Make a message visible again *invisible_ms* from now, under a new receipt handle.

        Raises:
            RequestError, StoreError: the change could not be stored; the old handle stays valid.
        """

    def is_delivered(self, message: PopAck) -> bool:
        """Return whether a message was delivered under its handle and is neither acknowledged nor visible again.

        True if that is not known: not all checkpoints are read yet.

        Raises:
            ReceiptIllegal: the handle cannot be read, or is of another broker.
        """

    def give_back(self, messages: Sequence[PopAck]) -> None:
        """Begin to make popped messages that did not reach their consumer visible again, one second from now.

        For a protocol whose client leaves while it is sent messages. Messages that cannot be given back, which is
        logged, come again after their invisible time.
        """

    async def renew(self, message: PopAck, invisible_ms: int) -> list[int]:
        """Let all unacknowledged messages of a pop from one queue stay invisible until *invisible_ms* from now.

        *message* is any of them. Their receipt handles stay valid, also after a restart and on a new master, although
        the invisible time in them is over. Messages whose invisible time was changed are left out.

        Returns:
            The queue offsets of these messages; none if all are acknowledged, changed or redelivered.

        Raises:
            RequestError, StoreError: the new time could not be stored; the old one is in force.
        """

    async def forward_to_dead_letters(self, message: PopAck, log_offset: int) -> None:
        """Store a copy of a message in the group's dead letter topic, then acknowledge it.

        *log_offset*: of its record. A failure in between leaves both: the message comes again.

        Raises:
            ReceiptIllegal: another message is stored at *log_offset*.
            RequestError, StoreError: as `Messages.send_back` and `ack`.
        """
