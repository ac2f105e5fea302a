"""Popping in threads: each method waits for the one of `gantrymq.client.PopConsumer` with its name.

with Client("127.0.0.1:9876") as client:
    for message in client.pop_consumer("packing", "Orders"):
        print(message.body)
"""

from __future__ import annotations

from gantrymq.client.message import ReceivedMessage
from gantrymq.client.pop.consumer import PopConsumer as AsyncPopConsumer
from gantrymq.client.sync.base import SyncBaseClient
from gantrymq.client.sync.streams import MessageStream

__all__ = ["PopConsumer"]


class PopConsumer(SyncBaseClient[AsyncPopConsumer]):
    """For any number of threads. Errors are those of `gantrymq.client.PopConsumer`."""

    def __iter__(self) -> MessageStream[ReceivedMessage]:
        """Messages one by one, until the consumer is closed; each loop has its own."""
        self._portal.check_caller()
        return self._client.track(MessageStream(self._portal, self._wrapped.__aiter__))

    def pop(
        self, max_count: int | None = None, *, poll_s: float | None = None, invisible_s: float | None = None
    ) -> tuple[ReceivedMessage, ...]:
        """Messages of any queue, hidden from others from now on; none when the time is over."""
        return self._portal.call(lambda: self._wrapped.pop(max_count, poll_s=poll_s, invisible_s=invisible_s))

    def ack(self, *messages: ReceivedMessage) -> None:
        """*messages* are consumed; done when their brokers have it, in one request for those of each."""
        self._portal.call(lambda: self._wrapped.ack(*messages))

    def nack(self, message: ReceivedMessage, delay_s: float | None = None) -> None:
        """*message* was not consumed and comes again in *delay_s* seconds."""
        self._portal.call(lambda: self._wrapped.nack(message, delay_s))

    def change_invisible_time(self, message: ReceivedMessage, invisible_s: float) -> None:
        """*message* comes again *invisible_s* seconds from now, unless it is acknowledged before."""
        self._portal.call(lambda: self._wrapped.change_invisible_time(message, invisible_s))
