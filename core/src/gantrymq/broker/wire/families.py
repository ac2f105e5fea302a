"""Registration of all request handlers, core's and those of plugins."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Final

from gantrymq.broker.counted_plugins import counted, counted_later
from gantrymq.broker.counting.stats import Stats
from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.clients import ClientRequests
from gantrymq.broker.wire.config import ConfigRequests
from gantrymq.broker.wire.counters import CounterRequests
from gantrymq.broker.wire.groups import GroupRequests
from gantrymq.broker.wire.offsets import OffsetRequests
from gantrymq.broker.wire.pull import PullRequests
from gantrymq.broker.wire.query import QueryRequests
from gantrymq.broker.wire.router import RequestRouter
from gantrymq.broker.wire.runtime import RuntimeRequests
from gantrymq.broker.wire.send import SendRequests
from gantrymq.broker.wire.sending_back import SendingBackRequests
from gantrymq.broker.wire.topics import TopicRequests
from gantrymq.broker.wire.transactions import TransactionRequests
from gantrymq.broker.wire.unreplicated import UnreplicatedRequests
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.serving import Handler, copy_statement, handler_of_many, handlers_of, serve_together

FAMILIES: Final = (
    PullRequests,
    SendingBackRequests,
    ClientRequests,
    OffsetRequests,
    TopicRequests,
    GroupRequests,
    RuntimeRequests,
    ConfigRequests,
    CounterRequests,
    QueryRequests,
    UnreplicatedRequests,
)


def serve(router: RequestRouter, parts: Parts) -> None:
    """Add the handlers of core and plugins to *router*; a plugin's handler replaces core's."""
    sends = SendRequests(parts)
    router.add(handlers_of(sends))
    for family in FAMILIES:
        router.add(handlers_of(family(parts)))
    if parts.transactions is not None:
        ends = TransactionRequests(parts.messages)
        for code, each in handlers_of(ends).items():
            router.add({code: serve_together(copy_statement(each, partial(each)), ends.end_together)})
        if not parts.pipeline.has_gates:  # with gates, both should wait for them together
            router.answer_before_decisions()
    router.add_together(sends.send_together)
    router.around(parts.pipeline.hold, parts.pipeline.release)
    stats, plugins = parts.stats, parts.plugins
    router.add({code: counted_handler(code, each, stats) for code, each in plugins.handlers.items()})
    if parts.access.active:
        router.control(parts.access)
    router.on_connections(parts.clients.connected, parts.clients.gone)


def counted_handler(code: int, inner: Handler, stats: Stats) -> Handler:
    """Wrap the handler of request *code*; the code is its name."""

    def failed() -> None:
        stats.plugin_failed("handler", request_name(code))

    called = counted(inner, failed)

    def serve(asked: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
        answer = called(asked, connection)
        return answer if answer is None or not inspect.isawaitable(answer) else _CountedAnswer(answer, failed)

    if (many := handler_of_many(inner)) is not None:
        serve_together(serve, counted(many, failed))
    return copy_statement(inner, serve)


class _CountedAnswer:
    """A response of a plugin that is awaited later, or closed if the connection is lost before."""

    def __init__(self, answer: Awaitable[Command | None], failed: Callable[[], object]) -> None:
        self._answer = answer
        self._failed = failed

    def __await__(self) -> Generator[Any, None, Command | None]:
        return counted_later(self._answer, self._failed).__await__()

    def close(self) -> None:
        """Close the coroutine; without effect once it has ended."""
        if inspect.iscoroutine(self._answer):
            self._answer.close()
