"""The kinds of sends that are measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gantrymq.client import Message, Producer

MODES = ("sync", "async", "oneway", "batch")


def messages_of(mode: str, batch: int) -> int:
    """Return the number of messages per call."""
    return batch if mode == "batch" else 1


def call_of(producer: Producer, mode: str, topic: str, body: bytes, batch: int) -> Callable[[], Awaitable[object]]:
    """One call: *sync* waits for `send`, *async* for the result of `send_async`, *oneway* for the socket."""

    def sync() -> Awaitable[object]:
        return producer.send(Message(topic, body))

    def begun() -> Awaitable[object]:
        return producer.send_async(Message(topic, body))

    def oneway() -> Awaitable[object]:
        return producer.send_oneway(Message(topic, body))

    def batched() -> Awaitable[object]:
        return producer.send_batch([Message(topic, body) for _ in range(batch)])

    return {"sync": sync, "async": begun, "oneway": oneway, "batch": batched}[mode]
