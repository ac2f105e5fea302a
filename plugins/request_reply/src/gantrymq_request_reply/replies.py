"""Replies of consumers (324, 325): pushed to the requesting producer and stored; the response is the push's result.

As in Java, the reply is pushed first, the producer's response is awaited, and the reply is stored in any case; a reply
that cannot be stored counts as delivered if the push succeeded. Unlike in Java, the number of waiting replies is
limited.

Source: apache/rocketmq broker/.../processor/ReplyMessageProcessor.java.
"""

from __future__ import annotations

import asyncio
import logging

from gantrymq.errors import (
    BodyEmpty,
    BodyTooLarge,
    CallTimeout,
    ConnectionLost,
    GantryError,
    InvalidParameter,
    RequestRefused,
    ServiceNotAvailable,
)
from gantrymq.plugin import properties as props
from gantrymq.plugin.headers import SendMessageRequest, read_send_header
from gantrymq.plugin.interfaces import Broker, SendRequest
from gantrymq.plugin.model import ClientAnswer, OffsetIds, Role
from gantrymq.plugin.remoting import Command, Connection, RequestCode, ResponseCode, in_operation, response_to, serves
from gantrymq.plugin.settings import Setting
from gantrymq_request_reply.reply_message import REPLY_TO_CLIENT, pushed_reply, stored_reply

log = logging.getLogger(__name__)

ANSWER_S = 10.0  # timeout of a push
MOST_WAITING = 10_000  # maximum of concurrent pushes; the length of Java's reply queue

_STORE = "storeReplyMessageEnable"
SETTINGS = (Setting.flag(_STORE, True, "Store each reply in <cluster>_REPLY_TOPIC as well.", runtime=True),)


class ReplyService:
    """The service ``request_reply`` and its handlers."""

    name = "request_reply"
    roles = frozenset({Role.MASTER})

    def __init__(self) -> None:
        self._broker: Broker | None = None  # of the last start
        self._waiting: set[asyncio.Task[ClientAnswer]] = set()
        self._served: set[asyncio.Task[object] | None] = set()  # tasks that are serving replies
        self._stopped = False

    async def start(self, broker: Broker) -> None:
        """Serve replies to the producers of *broker*."""
        self._broker = broker
        self._stopped = False
        self._offset_id = OffsetIds(broker.store_host).of

    async def stop(self) -> None:
        """Cancel waiting pushes: their replies are stored, and answered with code 14."""
        self._stopped = True
        for call in self._waiting:
            call.cancel()
        while self._served:
            await asyncio.wait([task for task in self._served if task is not None])

    @serves(RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2, access=in_operation)
    async def reply(self, request: Command, connection: Connection) -> Command:
        """Answer requests 324 and 325: push a reply to the requesting producer, and store it."""
        task = asyncio.current_task()
        self._served.add(task)
        try:
            return await self._reply(request, connection)
        finally:
            self._served.discard(task)

    async def _reply(self, request: Command, connection: Connection) -> Command:
        broker = self._broker
        if broker is None:
            raise ServiceNotAvailable("service not available now: this broker is a replica and takes no replies")
        settings = broker.settings
        region = settings.text("regionId")
        trace = "true" if settings.flag("traceOn") else "false"
        ext = {"MSG_REGION": region, "TRACE_ON": trace}
        try:
            header = read_send_header(request)
            queue_id, body = self._checked(broker, header, request, connection)
        except GantryError as error:
            return response_to(request, error.response_code, str(error), ext)
        own = {**props.decode_text(header.properties or ""), "MSG_REGION": region, "TRACE_ON": trace}
        own.pop(props.POP_CK, None)
        problem: GantryError | None = None
        try:
            await self._push(broker, header, own, body, connection)
        except GantryError as error:
            problem = error
            log.warning("%s", error)
        else:
            ext |= {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"}
        if settings.flag(_STORE):
            try:
                kept = await broker.messages.put(
                    stored_reply(header, queue_id, own, body, connection.peer_packed_host, broker.store_host)
                )
            except GantryError as error:
                log.warning("a reply of %s for %s could not be stored: %s", connection.address, header.topic, error)
            else:
                ext |= {
                    "msgId": self._offset_id(kept.log_offset),
                    "queueId": str(queue_id),
                    "queueOffset": str(kept.queue_offset),
                }
        if problem is not None:
            return response_to(request, problem.response_code, str(problem), ext)
        return response_to(request, 0, None, ext)

    def _checked(
        self, broker: Broker, header: SendMessageRequest, request: Command, connection: Connection
    ) -> tuple[int, bytes | memoryview]:
        """Return queue and body of a reply. Raises RequestError with the code of a send that fails the same check."""
        body = request.body
        if not body:
            raise BodyEmpty(f"the reply for topic {header.topic} has no body; a body of 1 byte or more is needed")
        topic = broker.messages.topic_for_send(
            SendRequest(
                header.producer_group,
                header.topic,
                body,
                peer=connection.peer,
                default_topic=header.default_topic,
                default_topic_queues=header.default_topic_queue_nums,
                reconsume_times=header.reconsume_times,
                max_reconsume_times=header.max_reconsume_times,
                unit_mode=header.unit_mode,
                client_version=request.version,
                principal=connection.principal,
            )
        )
        if header.queue_id >= max(topic.write_queues, topic.read_queues):
            raise InvalidParameter(
                f"queueId {header.queue_id} is outside topic {topic.name}, which has {topic.write_queues} write and "
                f"{topic.read_queues} read queues"
            )
        limit = broker.settings.number("maxMessageSize")
        if len(body) > limit:
            raise BodyTooLarge(f"the reply has {len(body)} bytes, the most allowed is {limit} (maxMessageSize)")
        if len(self._waiting) >= MOST_WAITING:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY,
                f"{MOST_WAITING} replies wait for their producers here; send the reply again later",
            )
        if header.queue_id >= 0:
            return header.queue_id, body
        return broker.world.random.randrange(topic.write_queues) if topic.write_queues > 0 else 0, body

    async def _push(
        self,
        broker: Broker,
        header: SendMessageRequest,
        own: dict[str, str],
        body: bytes | memoryview,
        connection: Connection,
    ) -> None:
        """Push a reply to its producer.

        Raises:
            RequestRefused: the push failed (code 1).
            ServiceNotAvailable: the broker is stopping.
        """
        client_id = own.get(REPLY_TO_CLIENT)
        if client_id is None:
            raise RequestRefused(1, f"reply message properties[{REPLY_TO_CLIENT}] is null")
        producer = broker.clients.producer(client_id)
        if producer is None:
            raise RequestRefused(1, f"push reply message fail, channel of <{client_id}> not found.")
        if producer.connection.response_limiter.busy:
            raise RequestRefused(1, f"push reply message to {client_id} fail: it does not read what it is sent")
        if self._stopped:
            raise _stopping(client_id)
        reply = pushed_reply(
            header, own, body, connection.peer_packed_host, broker.store_host, broker.world.clock.now_ms()
        )
        call = asyncio.ensure_future(producer.connection.deliver_reply(reply, ANSWER_S))
        self._waiting.add(call)
        try:
            answer = await call
        except CallTimeout:
            raise RequestRefused(
                1, f"push reply message to {client_id} fail: it did not answer within {ANSWER_S:g} s"
            ) from None
        except ConnectionLost:
            raise RequestRefused(1, f"push reply message to {client_id} fail: its connection closed") from None
        except asyncio.CancelledError:
            if not self._stopped:
                raise
            raise _stopping(client_id) from None
        finally:
            self._waiting.discard(call)
        if answer.code:
            raise RequestRefused(
                1, f"push reply message to {client_id} fail: it answered {answer.code} {answer.remark}"
            )


def _stopping(client_id: str) -> ServiceNotAvailable:
    return ServiceNotAvailable(f"push reply message to {client_id} fail: the broker is stopping")
