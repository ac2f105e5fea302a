"""Pop consumption as operations: what the service ``pop`` offers (`Broker.service`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from gantrymq.errors import GantryError
from gantrymq.interfaces.client_channel import ClientChannel
from gantrymq.model.access import Principal

__all__ = ["InvisibleTime", "PopAck", "PopAnswer", "PopRequest", "PopService", "PoppedBatch"]


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
    order_counts: str | None = None  # of an ordered pop: deliveries before this one, as in orderCountInfo

    def acks(self, group: str) -> Iterator[PopAck]:
        """Iterate over what acknowledges each message, in the order of the records."""
        for topic, kind, queue_id, start, offsets in self.batches:
            shared = (
                f"{start} {self.pop_ms} {self.invisible_ms} {self.revive_queue} {kind} {self.broker_name} {queue_id}"
            )
            for offset in offsets:
                yield PopAck(group, topic, queue_id, offset, f"{shared} {offset}")


class PopAck(NamedTuple):
    """A popped message, as named by whoever acknowledges it or changes its invisible time."""

    group: str
    topic: str  # the topic that was read
    queue_id: int
    queue_offset: int
    receipt_handle: str  # POP_CK
    principal: Principal | None = None


class InvisibleTime(NamedTuple):
    """A changed invisible time; the message has a new receipt handle with these values."""

    pop_ms: int
    invisible_ms: int
    revive_queue: int


class PopService(Protocol):
    """The service ``pop``."""

    async def serve_pop(
        self, request: PopRequest, client: ClientChannel, respond: Callable[[PopAnswer | GantryError], None]
    ) -> None:
        """Pop messages and call *respond* once: before this returns, or later if the pop waits.

        It gets ConnectionLost if *client* is closed while the pop waits. Errors of the first attempt are raised.
        """

    async def receive(self, request: PopRequest, client: ClientChannel) -> PopAnswer:
        """Pop messages, waiting as long as the request allows.

        Raises:
            RequestError: a check failed, with RocketMQ's code.
            ConnectionLost: *client* was closed while the pop waited.
        """

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

    async def forward_to_dead_letters(self, message: PopAck, log_offset: int) -> None:
        """Store a copy of a message in the group's dead letter topic, then acknowledge it.

        *log_offset*: of its record. A failure in between leaves both: the message comes again.

        Raises:
            RequestError, StoreError: as `Messages.send_back` and `ack`.
        """
