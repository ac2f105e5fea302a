"""Request-reply: a message that its consumer answers.

    answer = await producer.request(Message("Prices", b"apples"), timeout_s=3)          # requester
    await producer.send(reply_to(question, b"12"))                                      # responder, in a consumer

Sources: apache/rocketmq client/.../impl/producer/DefaultMQProducerImpl.java (request), RequestFutureHolder.java,
client/.../utils/MessageUtil.java, client/.../impl/ClientRemotingProcessor.java (receiveReplyMessage).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Final

import attrs

from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.errors import CallTimeout, ClientError
from gantrymq.formats.compression import decompress_or_raw
from gantrymq.model import properties as names
from gantrymq.model.sys_flag import COMPRESSED
from gantrymq.remoting.command import Command
from gantrymq.world import World

CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"
_TRACE_CONTEXT: Final = ("traceparent", "tracestate")  # of W3C; a reply belongs to the trace of its request


async def request_and_wait(
    message: Message,
    timeout_s: float,
    send: Callable[[Message], Awaitable[object]],
    *,
    world: World,
    client_id: str,
    replies: MutableMapping[str, asyncio.Future[ReceivedMessage]],
) -> ReceivedMessage:
    """Send *message* as a request with *send* and return its reply.

    Args:
        message: is not modified.
        timeout_s: maximum time to wait for the reply, in seconds.
        send: sends the request.
        world: of the client.
        client_id: of the client, to which the broker pushes the reply.
        replies: expected replies of the client, by correlation id.

    Raises:
        CallTimeout: no reply within *timeout_s*.
    """
    correlation_id = f"{world.random.getrandbits(128):032x}"
    asked = {CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id, TTL: str(int(timeout_s * 1000))}
    answer: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
    replies[correlation_id] = answer
    timer = world.clock.call_later(timeout_s, answer.cancel)
    try:
        await send(attrs.evolve(message, system_properties={**message.system_properties, **asked}))
        await asyncio.wait((answer,))
    finally:
        timer.cancel()
        del replies[correlation_id]
    if answer.cancelled():
        raise CallTimeout(f"no reply to the request to {message.topic} within {timeout_s:g} s")
    return answer.result()


def reply_to(question: ReceivedMessage, body: bytes) -> Message:
    """Return the reply to *question*, with its trace context; send it with any producer.

    Raises:
        ClientError: *question* is not a request, or came from a broker without request-reply.
    """
    found = question.properties
    if not found.get(names.CLUSTER) or not found.get(REPLY_TO_CLIENT):
        raise ClientError(
            f"message {question.message_id} is not a request that can be answered: no client waits for a reply"
        )
    asked = {name: found[name] for name in (CORRELATION_ID, REPLY_TO_CLIENT, TTL) if found.get(name)}
    return Message(
        found[names.CLUSTER] + _REPLY_SUFFIX,
        body,
        properties={name: found[name] for name in _TRACE_CONTEXT if name in found},
        system_properties={**asked, names.MSG_TYPE: names.REPLY_TYPE},
    )


def read_reply(pushed: Command) -> ReceivedMessage:
    """Decode the reply in a broker's push (326)."""
    fields = pushed.ext or {}

    def number(name: str) -> int:
        text = fields.get(name, "")
        return int(text) if text.lstrip("-").isdecimal() else 0

    sys_flag = number("sysFlag")
    body, problem = decompress_or_raw(pushed.payload, sys_flag)
    return ReceivedMessage(
        topic=fields.get("topic", ""),
        body=body,
        properties=names.decode_text(fields.get("properties", "")),
        flag=number("flag"),
        queue_id=number("queueId"),
        queue_offset=-1,
        log_offset=-1,
        store_size=0,
        sys_flag=sys_flag if problem else sys_flag & ~COMPRESSED,
        born_timestamp=number("bornTimestamp"),
        born_host=fields.get("bornHost", ""),
        store_timestamp=number("storeTimestamp"),
        store_host=fields.get("storeHost", ""),
        reconsume_times=number("reconsumeTimes"),
        body_crc=0,
        prepared_offset=0,
        offset_id="",
        body_problem=problem,
    )
