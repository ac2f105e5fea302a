"""Routing of requests to handlers: all requests of one socket read in one pass, one handler per request code.

GantryErrors become error responses here. Any other exception of a handler is a bug: it is logged with its traceback,
and the peer gets SYSTEM_ERROR.

Source: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java (processRequestCommand).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Final

from gantrymq.broker.access import AccessControl
from gantrymq.broker.wire.request_access import RequestAccess
from gantrymq.broker.wire.responses import refusal
from gantrymq.errors import GantryError, GoAway, RequestNotSupported, ServerFault, install_command
from gantrymq.model.access import Action, Principal, Requirement, requirements
from gantrymq.remoting.codes import FLAG_ONEWAY, VERSION_5_3_1, RequestCode, broker_port_message, request_name
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.sends import SEND_CODES, SendCommand
from gantrymq.remoting.serving import AccessRule, Handler, HandlerOfMany, access_rule, handler_of_many

log = logging.getLogger(__name__)

_ENDS: Final = int(RequestCode.END_TRANSACTION)  # one-way ones are served together, before the sends of the same read

_LONG: Final = frozenset(  # codes with potentially long responses
    {
        RequestCode.QUERY_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_PRODUCER_INFO,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.PEEK_MESSAGE,
    }
)

NOT_BUILT: Mapping[int, str] = {
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: "static topics are",
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: "RocksDB is",
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: "RocksDB is",
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: "the control of cold data is",
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: "the control of cold data is",
    RequestCode.SET_COMMITLOG_READ_MODE: "choosing how the log is read ahead is",
}

IN_PLUGINS: Mapping[int, str] = {  # request code to the distribution that serves it
    **dict.fromkeys(range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1), "gantrymq-access"),
    **dict.fromkeys((RequestCode.END_TRANSACTION, RequestCode.RESUME_CHECK_HALF_MESSAGE), "gantrymq-transaction"),
    **dict.fromkeys((RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2), "gantrymq-request-reply"),
    **dict.fromkeys(range(RequestCode.POP_MESSAGE, RequestCode.POP_ROLLBACK + 1), "gantrymq-pop"),
    **dict.fromkeys(
        (
            RequestCode.BATCH_ACK_MESSAGE,
            RequestCode.QUERY_ASSIGNMENT,
            RequestCode.SET_MESSAGE_REQUEST_MODE,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        ),
        "gantrymq-pop",
    ),
    **dict.fromkeys((RequestCode.POP_LITE_MESSAGE, RequestCode.LITE_SUBSCRIPTION_CTL), "gantrymq-lite"),
    **dict.fromkeys(range(RequestCode.GET_BROKER_LITE_INFO, RequestCode.TRIGGER_LITE_DISPATCH + 1), "gantrymq-lite"),
    RequestCode.GET_BROKER_EPOCH_CACHE: "gantrymq-replication",
    RequestCode.QUERY_CONSUME_QUEUE: "gantrymq-filter-sql92",
    **dict.fromkeys(
        range(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG + 1),
        "gantrymq-access-plain",
    ),
    **dict.fromkeys(
        (RequestCode.RECALL_MESSAGE, RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS),
        "gantrymq-schedule",
    ),
    **dict.fromkeys(
        (
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
            RequestCode.CLEAN_UNUSED_TOPIC,
            RequestCode.DELETE_EXPIRED_COMMITLOG,
            RequestCode.GET_COLD_DATA_FLOW_CTR_INFO,
            RequestCode.GET_CONSUME_STATS,
            RequestCode.GET_BROKER_CONSUME_STATS,
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            RequestCode.QUERY_CORRECTION_OFFSET,
            RequestCode.CLONE_GROUP_OFFSET,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            RequestCode.GET_ALL_PRODUCER_INFO,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
            RequestCode.QUERY_TOPICS_BY_CONSUMER,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        ),
        "gantrymq-diagnosis",
    ),
}


class RequestRouter:
    """Handlers by request code."""

    def __init__(self, left_out: Mapping[str, str] | None = None) -> None:
        """*left_out*: installed plugins that the setting ``plugins`` leaves out, by distribution."""
        self._left_out = left_out or {}
        self._handlers: dict[int, Handler] = {}
        self._together: HandlerOfMany | None = None  # for sends
        self._many: dict[int, HandlerOfMany] = {}  # for other codes
        self._decisions_last = False
        self._before: Callable[[], object] = _nothing
        self._after: Callable[[Connection], object] = _nothing
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[Connection] = set()
        self._connected: Callable[[Connection], object] = _nothing
        self._lost: Callable[[Connection], object] = _nothing
        self._turning_away = False
        self._access: RequestAccess | None = None
        self._rules: dict[int, AccessRule] = {}

    @property
    def connections(self) -> int:
        """Number of open connections that have sent a request."""
        return len(self._connections)

    def add(self, handlers: Mapping[int, Handler]) -> None:
        """Add handlers; existing ones for the same codes are replaced."""
        if not SEND_CODES.isdisjoint(handlers):
            self._together = None
        self._handlers.update(handlers)
        for code, each in handlers.items():
            self._many.pop(code, None)
            if (many := handler_of_many(each)) is not None:
                self._many[code] = many
        self._rules.update({code: access_rule(each) or _for_operators for code, each in handlers.items()})

    def add_together(self, handler: HandlerOfMany) -> None:
        """Try *handler* first for `SendCommand` requests, until another handler for sends is added."""
        self._together = handler

    def answer_before_decisions(self) -> None:
        """Serve the send of a client before the decision of a transaction that came with it, and answer it first."""
        self._decisions_last = True

    def control(self, access: AccessControl) -> None:
        """Identify the sender of each request from now on, and check what its handler states."""
        self._access = RequestAccess(access)

    def around(self, before: Callable[[], object], after: Callable[[Connection], object]) -> None:
        """Call *before* and *after* around the requests of each read."""
        self._before, self._after = before, after

    def on_connections(self, opened: Callable[[Connection], object], closed: Callable[[Connection], object]) -> None:
        """Call *opened* with each connection at its first request, and *closed* when it is closed."""
        self._connected, self._lost = opened, closed

    def turn_away(self) -> None:
        """Redirect clients that support it to other brokers from now on (1500, GO_AWAY)."""
        self._turning_away = True

    def requests(self, connection: Connection, commands: Sequence[Command]) -> None:
        """Serve all requests of one read, in order."""
        if connection not in self._connections:
            self._connections.add(connection)
            self._connected(connection)
            connection.on_close(self._connection_lost)
        self._before()
        try:
            self._serve(connection, commands)
        finally:
            self._after(connection)

    def _serve(self, connection: Connection, commands: Sequence[Command], *, sorted_out: bool = False) -> None:
        handlers, access = self._handlers, self._access
        together = None if self._turning_away else self._together
        together_by_code = {} if self._turning_away or access is not None else self._many
        behind = 0  # requests before this index are served
        for index, asked in enumerate(commands):
            if index < behind:
                continue
            if index and connection.full:
                connection.put_back(commands[index:])
                return
            try:
                if together is not None and type(asked) is SendCommand:
                    behind = index + together(commands, index, connection)
                    if behind > index:
                        continue
                if asked.code == _ENDS and together is not None and not sorted_out and asked.is_oneway:
                    left = commands[index:]
                    ends = [each for each in left if each.code == _ENDS and each.flag & FLAG_ONEWAY]
                    others = [each for each in left if each.code != _ENDS or not each.flag & FLAG_ONEWAY]
                    pair = len(commands) == 2 and SendCommand in map(type, commands)
                    if self._decisions_last and pair and len(ends) == 1:  # the producer waits for the send only
                        connection.put_back(ends)
                        self._serve(connection, others, sorted_out=True)
                    else:
                        self._serve(connection, ends + others, sorted_out=True)
                    return
                if asked.code in together_by_code:
                    behind = index + together_by_code[asked.code](commands, index, connection)
                    if behind > index:
                        continue
                handler = handlers.get(asked.code)
                if self._turning_away and asked.version > VERSION_5_3_1:
                    raise GoAway("this broker is stopping; use another one")
                if access is not None and not access.admitted(asked, connection, self._rules.get(asked.code)):
                    connection.hold(commands[index:])
                    return
                response = _unknown(asked, self._left_out) if handler is None else handler(asked, connection)
            except GantryError as error:
                response = refusal(asked, error)
            except Exception as error:
                response = _bug(asked, error)
            if response is None:
                continue
            if isinstance(response, Command):
                if not asked.is_oneway:
                    connection.reply(asked, response)
            elif inspect.isawaitable(response):
                self._run(self._later(asked, connection, connection.principal, response))

    def _connection_lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._lost(connection)

    async def close(self) -> None:
        """Wait for requests in progress; those whose sender is not identified yet are refused."""
        if self._access is not None:
            await self._access.close()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _later(
        self,
        asked: Command,
        connection: Connection,
        principal: Principal | None,
        response: Awaitable[Command | None],
    ) -> None:
        work = _InTurn(response, connection, principal)
        try:
            answer = await (connection.response_limiter.run(work) if asked.code in _LONG else work)
        except GantryError as error:
            answer = refusal(asked, error)
        except Exception as error:
            answer = _bug(asked, error)
        if answer is not None and not asked.is_oneway and not connection.closed:
            connection.reply(asked, answer)


class _InTurn:
    """A response whose work may start after other requests of the connection were served.

    The principal is set again when the work starts: a coroutine reads it before its first await.
    """

    def __init__(
        self, response: Awaitable[Command | None], connection: Connection, principal: Principal | None
    ) -> None:
        self._response, self._connection, self._principal = response, connection, principal

    def __await__(self) -> Generator[Any, None, Command | None]:
        self._connection.principal = self._principal
        return self._response.__await__()

    def close(self) -> None:
        """Close the coroutine; without effect once it has ended."""
        if (close := getattr(self._response, "close", None)) is not None:
            close()


def _for_operators(asked: Command) -> Sequence[Requirement]:
    """Access rule of handlers without a statement."""
    return requirements(Action.UPDATE)


def _nothing(*_: object) -> None:
    """Do nothing."""


def _unknown(asked: Command, left_out: Mapping[str, str]) -> Command:
    what = NOT_BUILT.get(asked.code)
    if what is not None:
        sentence = f"request {asked.code} {request_name(asked.code)}: {what} not implemented in this version"
        return refusal(asked, RequestNotSupported(sentence))
    plugin = IN_PLUGINS.get(asked.code)
    if plugin is not None:
        sentence = f"request {asked.code} {request_name(asked.code)} is served by "
        if plugin in left_out:
            sentence += f"plugin {left_out[plugin]}, which plugins= leaves out; add it there, and restart the broker"
        else:
            sentence += f"a plugin that is not installed; install it with: {install_command(plugin)}"
        return refusal(asked, RequestNotSupported(sentence))
    elsewhere = broker_port_message(asked.code)
    if elsewhere is not None:
        return refusal(asked, RequestNotSupported(elsewhere))
    known = f" ({request_name(asked.code)})" if asked.code in RequestCode._value2member_map_ else ""
    return refusal(asked, RequestNotSupported(f" request type {asked.code}{known} not supported"))


def _bug(asked: Command, error: Exception) -> Command:
    log.error("serving request %d %s failed", asked.code, request_name(asked.code), exc_info=error)
    return refusal(asked, ServerFault())
