"""One client of the protocol: its streams, and what the broker asks it.

    broker asks --> `GrpcClient` --> TelemetryCommand on the newest stream --> answer with the same nonce

Source: apache/rocketmq proxy/.../grpc/v2/channel/GrpcClientChannel.java.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from gantrymq.errors import CallTimeout, ConnectionLost
from gantrymq.plugin.formats import read_record
from gantrymq.plugin.interfaces import Broker, Heartbeat, LocalClient
from gantrymq.plugin.loose_json import dumps
from gantrymq.plugin.model import (
    ClientAnswer,
    DirectConsumption,
    LiteUnsubscription,
    Subscription,
    TransactionCheck,
)
from gantrymq.plugin.world import Timer
from gantrymq_grpc.conversion.messages import write_message
from gantrymq_grpc.conversion.transactions import HalfMessage, transaction_id
from gantrymq_grpc.definitions import ClientType, Code, Settings, Status, TelemetryCommand
from gantrymq_grpc.service.bodies import plain_body
from gantrymq_grpc.service.caller import Caller
from gantrymq_grpc.service.streams import Stream

log = logging.getLogger("gantrymq.grpc")

T = TypeVar("T")

CONSUME_TYPES: Final[Mapping[int, str]] = {
    ClientType.PUSH_CONSUMER: "CONSUME_PASSIVELY",
    ClientType.SIMPLE_CONSUMER: "CONSUME_ACTIVELY",
    ClientType.LITE_PUSH_CONSUMER: "CONSUME_PASSIVELY",
}
PUSH_CONSUMERS: Final = (ClientType.PUSH_CONSUMER, ClientType.LITE_PUSH_CONSUMER)
_RESULTS: Final[Mapping[int, str]] = {
    Code.OK: "CR_SUCCESS",
    Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}
_SYSTEM_ERROR: Final = 1
_ENDED: Final = (
    "the broker has ended this client: it sent no heartbeat for too long, or its user may not use the broker any more; "
    "send settings on another stream"
)


class _Commands:
    """Reports a client as busy while no command can be sent to it, so that the broker asks another one."""

    def __init__(self, client: GrpcClient) -> None:
        self._client = client

    @property
    def busy(self) -> bool:
        """Whether the client has no stream, or does not read it."""
        return not self._client.is_reachable

    async def run(self, work: Awaitable[T]) -> T:
        """Wait for *work*."""
        return await work


class GrpcClient(LocalClient):
    """One client.

    Attributes:
        client_id: as in its requests.
        settings: as it sent them.
        heartbeat: what it says about its groups.
        heard_ms: monotonic time of its last heartbeat or settings.
        settled_s: monotonic time when settings were last sent to it.
        sending_again: the timer that sends them again.
    """

    protocol = "grpc"

    def __init__(self, caller: Caller, broker: Broker, gone: Callable[[GrpcClient], None]) -> None:
        """*gone* is called once, when the client ends."""
        super().__init__(caller.call.peer)
        self.client_id = caller.client_id
        self.settings = Settings()
        self.heartbeat = Heartbeat(caller.client_id, "", 0, (), ())
        self.heard_ms = 0
        self.settled_s = -math.inf
        self.sending_again: Timer | None = None
        self.response_limiter = _Commands(self)
        self._version = ""
        self._broker = broker
        self._gone = gone
        self._streams: list[Stream] = []  # the newest is the last one
        self._asked: dict[str, asyncio.Future[tuple[Status, TelemetryCommand]]] = {}
        self._nonce = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.connected(caller)

    def connected(self, caller: Caller) -> None:
        """Note where the client is, which may change with each of its connections."""
        call = caller.call
        self.peer, self.listener = call.peer, call.listener
        self.certificate, self.encrypted = call.certificate, call.encrypted
        self.principal = caller.principal
        self._version = caller.version

    @property
    def has_stream(self) -> bool:
        """Whether a telemetry stream of the client is open."""
        return bool(self._streams)

    @property
    def is_reachable(self) -> bool:
        """Whether a command can be sent to the client now."""
        return self.has_stream and not self._streams[-1].is_full

    def use(self, stream: Stream) -> None:
        """Send commands on *stream* from now on."""
        self.forget(stream)
        self._streams.append(stream)

    def forget(self, stream: Stream) -> None:
        """Do not use a stream that has ended."""
        if stream in self._streams:
            self._streams.remove(stream)

    def close(self) -> None:
        """End the client and its streams."""
        self.leave()
        for stream in list(self._streams):
            stream.end(_ENDED)

    def leave(self) -> None:
        """End the client: its questions fail, and its groups lose it. Its streams stay open."""
        if self.closed:
            return
        super().close()
        if self.sending_again is not None:
            self.sending_again.cancel()
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(ConnectionLost(f"{self.client_id} ended before it answered"))
        self._gone(self)

    def post(self, command: TelemetryCommand) -> bool:
        """Send a command. Return False if there is no stream, or the client does not read it."""
        return self.has_stream and self._streams[-1].post(command)

    # --- what the broker asks -----------------------------------------------------------------------------------------

    def check_transaction(self, check: TransactionCheck) -> None:
        """Ask for the state of a transaction; the broker asks again later if this fails."""
        task = asyncio.get_running_loop().create_task(self._check_transaction(check))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check_transaction(self, check: TransactionCheck) -> None:
        command = TelemetryCommand()
        recover = command.recover_orphaned_transaction_command
        recover.transaction_id = transaction_id(HalfMessage(check.half_log_offset, check.half_queue_offset))
        try:
            record = read_record(check.record)
            body = await plain_body(record, self._broker.world.workers)
            write_message(recover.message, record, body, topic=check.topic, attempt=1)
        except Exception:
            log.exception("the half message of %s at log offset %d cannot be sent", check.topic, check.half_log_offset)
            return
        if not self.post(command):
            log.debug("%s has no stream to be asked for transaction %s", self.client_id, recover.transaction_id)

    def lite_unsubscribed(self, news: LiteUnsubscription) -> None:
        """Tell the client that another one has taken over a lite topic."""
        command = TelemetryCommand()
        command.notify_unsubscribe_lite_command.lite_topic = news.lite_topic
        if not self.post(command):
            log.debug("%s has no stream for the news that it lost lite topic %s", self.client_id, news.lite_topic)

    async def running_info(
        self, group: str, client_id: str, fields: Mapping[str, str], timeout_s: float
    ) -> ClientAnswer:
        """Return what the broker knows about the consumer, and the stacks of its threads if they are wanted."""
        members: dict[str, Any] = {
            "properties": {
                "PROP_CLIENT_VERSION": self._version,
                "PROP_CONSUME_TYPE": CONSUME_TYPES.get(self.settings.client_type, ""),
                "PROP_CONSUME_ORDERLY": str(self._is_ordered(group)).lower(),
            },
            "subscriptionSet": [each.to_json() for each in self._subscriptions(group)],
            "mqTable": {},
            "statusTable": {},
        }
        if fields.get("jstackEnable") == "true":
            command = TelemetryCommand()
            command.print_thread_stack_trace_command.nonce = nonce = self._next_nonce()
            status, answer = await self._ask(nonce, command, timeout_s)
            if status.code not in (Code.CODE_UNSPECIFIED, Code.OK):
                text = f"{self.client_id} refused with {status.code}: {status.message}"
                return ClientAnswer(_SYSTEM_ERROR, text, None, None)
            members["jstack"] = answer.thread_stack_trace.thread_stack_trace
        return ClientAnswer(0, None, None, dumps(members))

    async def consume_directly(
        self, message: DirectConsumption, fields: Mapping[str, str], timeout_s: float
    ) -> ClientAnswer:
        """Let a push consumer consume a message now."""
        if self.settings.client_type not in PUSH_CONSUMERS:
            text = f"{self.client_id} is no push consumer: it consumes only what it receives; ask another member"
            return ClientAnswer(_SYSTEM_ERROR, text, None, None)
        if message.record is None:
            return ClientAnswer(_SYSTEM_ERROR, "the message is not known", None, None)
        clock = self._broker.world.clock
        command = TelemetryCommand()
        verify = command.verify_message_command
        verify.nonce = self._next_nonce()
        record = read_record(message.record)
        body = await plain_body(record, self._broker.world.workers)
        write_message(verify.message, record, body, topic=record.topic, attempt=record.reconsume_times + 1)
        begun = clock.monotonic()
        status, _ = await self._ask(verify.nonce, command, timeout_s)
        members = {
            "autoCommit": True,
            "consumeResult": _RESULTS.get(status.code, "CR_THROW_EXCEPTION"),
            "order": self._is_ordered(message.group),
            "remark": status.message,
            "spentTimeMills": int((clock.monotonic() - begun) * 1000),
        }
        return ClientAnswer(0, None, None, dumps(members))

    def answered(self, command: TelemetryCommand, nonce: str) -> None:
        """Pass on the answer to a question; an answer that comes too late is dropped."""
        waiting = self._asked.pop(nonce, None)
        if waiting is not None and not waiting.done():
            waiting.set_result((command.status, command))

    async def _ask(self, nonce: str, command: TelemetryCommand, timeout_s: float) -> tuple[Status, TelemetryCommand]:
        if self.closed or not self.post(command):
            raise ConnectionLost(f"{self.client_id} cannot be asked now: {self._unreachable()}; ask again in a moment")
        waiting: asyncio.Future[tuple[Status, TelemetryCommand]] = asyncio.get_running_loop().create_future()
        self._asked[nonce] = waiting
        timer = self._broker.world.clock.call_later(timeout_s, self._expired, nonce, timeout_s)
        try:
            return await waiting
        finally:
            timer.cancel()
            self._asked.pop(nonce, None)

    def _unreachable(self) -> str:
        return "it does not read its telemetry stream" if self.has_stream else "it has no telemetry stream"

    def _expired(self, nonce: str, timeout_s: float) -> None:
        waiting = self._asked.get(nonce)
        if waiting is not None and not waiting.done():
            waiting.set_exception(CallTimeout(f"{self.client_id} did not answer within {timeout_s:g} s"))

    def _next_nonce(self) -> str:
        self._nonce += 1
        return f"{self._nonce}"

    def _subscriptions(self, group: str) -> list[Subscription]:
        online = self._broker.clients.consumer_group(group)
        return [] if online is None else list(online.subscriptions.values())

    def _is_ordered(self, group: str) -> bool:
        config = self._broker.groups.get(group)
        return config is not None and config.consume_message_orderly
