"""Operations on messages, for plugins and for every protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from gantrymq.formats.record import RecordView
from gantrymq.interfaces.client_channel import ClientChannel
from gantrymq.interfaces.pulling import PullAnswer, PullRequest
from gantrymq.interfaces.sending import SendAnswer, SendRequest
from gantrymq.interfaces.store import GetLimit, GetResult, PutResult, StoreMessage
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig

__all__ = ["Messages"]


class Messages(Protocol):
    """Sends, pulls, reads and queries; `Broker.messages`."""

    async def send(self, request: SendRequest) -> SendAnswer:
        """Send a message with the same checks, interceptors, queue targets, gates and counters as a client's send.

        Raises:
            RequestError: a check failed (with RocketMQ's code) or the store refuses the message.
            StoreError: a gate failed.
        """

    def topic_for_send(self, request: SendRequest) -> TopicConfig:
        """Return the topic of a send, creating it like a send does; for plugins that store messages of clients.

        Raises:
            RequestError: a check of broker or topic failed, with RocketMQ's code.
        """

    async def put(self, message: StoreMessage) -> PutResult:
        """Store one message through interceptors and gates. Return once it is acknowledged and visible.

        Raises:
            RequestError: an interceptor or the store refuses it.
            StoreError: a gate failed or took too long.
        """

    def put_all(
        self, messages: Sequence[StoreMessage], *, skip_interceptors: bool = False
    ) -> Awaitable[Sequence[PutResult]]:
        """Store several messages in one append, together with the others of this loop iteration.

        Return one result per message, in order. A message that the store refuses does not affect the others: check the
        status of each result.

        Args:
            skip_interceptors: do not call interceptors; for messages that passed them before. Messages of the
                broker's own topics never pass interceptors.

        Raises:
            RequestError: an interceptor refuses a message; none is stored.
            StoreError: a gate failed or took too long.
        """

    async def pull(self, request: PullRequest, connection: ClientChannel | None = None) -> PullAnswer:
        """Pull like a client, with its checks and filter. Wait for messages as long as the request allows.

        Args:
            connection: the connection the pull belongs to; a waiting pull ends when it closes and counts against its
                limit.

        Raises:
            RequestError: a check failed, with RocketMQ's code.
            ConnectionLost: *connection* was closed while the pull was waiting.
        """

    async def get(self, queue: Queue, queue_offset: int, limit: GetLimit) -> GetResult:
        """Read messages without filter, subscription or checks."""

    def read(self, log_offset: int) -> RecordView | None:
        """Return the record at *log_offset*."""

    def on_arrival(self, callback: Callable[[Queue, int], Any], queue: Queue | None = None) -> Callable[[], None]:
        """Call *callback* with queue and new maximum offset after each publication. Its exceptions are logged.

        Args:
            queue: the queue to watch; None for all queues.

        Returns:
            A function that removes the callback.
        """

    def on_acknowledged(self, callback: Callable[[int, float], Any]) -> None:
        """Call *callback* after each batch of messages has passed its gates and is visible.

        Arguments are the number of messages and the seconds from append to acknowledgement. Exceptions are logged.
        """
