"""The requests that a page of the console sends to name servers and brokers, for a test and a benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from console_members import commit, join
from console_visitor import Page, Visitor
from polling import wait_until

from gantrymq.client import Client, Message
from gantrymq.model import names
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode, request_name

HOME_LIMIT: Final = 8
MESSAGE_LIMIT: Final = 15
_UNASKED: Final = (RequestCode.REGISTER_BROKER, RequestCode.HEART_BEAT)  # sent by brokers and clients on their own


@contextmanager
def counted_requests() -> Iterator[Counter[str]]:
    """Provide the number of requests that clients in this process send, by name."""
    sent = Counter[str]()
    original = RemotingClient.call

    async def call(self: RemotingClient, address: str, command: Any, timeout_s: float = 3.0) -> Any:
        if command.code not in _UNASKED:
            sent[request_name(command.code)] += 1
        return await original(self, address, command, timeout_s)

    RemotingClient.call = call  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        RemotingClient.call = original  # type: ignore[method-assign]


def requests_of(visitor: Visitor, path: str) -> tuple[Page, dict[str, int]]:
    """Return a page that is made without answers from before, and the number of its requests by name."""
    visitor.cluster.forget()
    visitor.cluster.kept.clear()
    with counted_requests() as sent:
        page = visitor.get(path)
    assert page.status == 200, page.text
    return page, dict(sent)


def send_traced(visitor: Visitor) -> str:
    """Send a message with a trace; return the address of its page."""
    running = visitor.running

    async def send() -> str:
        async with Client(running.namesrv, trace=True) as client:
            return (await client.producer("shop").send(Message("Orders", b"x", keys="k"))).message_id

    running.create_topic("Orders", 1)
    message_id: str = running.run(send())

    async def topics() -> tuple[str, ...]:
        return await visitor.client.admin.topics()

    wait_until(lambda: names.TRACE_TOPIC in running.run(topics()), "the topic of traces")
    return f"/messages/{message_id}?topic=Orders"


def join_group(visitor: Visitor, consumed: int) -> None:
    """Let the only group of the topic be online, with a retry topic and a committed offset."""
    join(visitor, "billing", "one", "Orders")
    commit(visitor, "billing", "Orders", consumed)
    visitor.running.create_topic(names.retry_topic("billing"), 1)
