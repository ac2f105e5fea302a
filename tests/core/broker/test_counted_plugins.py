"""Exceptions of plugins are counted by kind and name, and the broker continues."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from broker_desk import pull_ext

from gantrymq.broker.counted_plugins import (
    CountedGate,
    Listeners,
    counted,
    counted_interceptor,
    name_of,
)
from gantrymq.broker.counting.stats import Stats
from gantrymq.broker.wire.families import counted_handler
from gantrymq.errors import RequestRefused, SlaveNotAvailable, StoreError
from gantrymq.plugins import Plugins


class Interceptor:
    order = 1

    def __call__(self, message):
        if message.body == b"bad":
            raise KeyError("intercepted")
        if message.body == b"refused":
            raise RequestRefused(13, "not this one")
        return message


class Gate:
    name = "replicas"

    def __init__(self, error=None):
        self.error = error

    async def passed(self, log_offset):
        if self.error is not None:
            raise self.error


def at_once(asked, connection):
    raise KeyError("at once")


def later(asked, connection):
    async def answer():
        raise KeyError("later")

    return answer()


class Listener:
    name = "listener"

    async def start(self, broker):
        broker.messages.on_arrival(self.arrived)
        broker.messages.on_arrival(self.heard_too)
        broker.messages.on_acknowledged(self.acknowledged)
        self.heard = []

    async def stop(self):
        pass

    def arrived(self, queue, max_offset):
        raise KeyError("arrived")

    def heard_too(self, queue, max_offset):
        self.heard.append(queue.topic)

    def acknowledged(self, messages, seconds):
        raise KeyError("acknowledged")


class Filter:
    name = "FRAGILE"
    accepts_all = needs_message = False

    def compile(self, subscription):
        if subscription.expression == "no":
            raise KeyError("compile")
        return self

    def match_entry(self, tags_code, ext):
        raise KeyError("match")

    def match_message(self, record):
        return True


class Dispatcher:
    name = "index"

    def truncate(self, log_offset):
        raise KeyError("truncate")


def errors(desk):
    """The counts in the form shown to plugins."""
    broker = desk.server._plugins.services[0].broker
    return dict(broker.metrics.snapshot().plugin_errors)


class Watcher:
    name = "watcher"

    async def start(self, broker):
        self.broker = broker

    async def stop(self):
        pass


@pytest.fixture
def run(broker, plugins):
    """Run against a broker with these plugins, and one that sees the figures."""

    def with_plugins(main, *, services=(), **more):
        broker(main, plugins=Plugins(stores=plugins.stores, services=(Watcher(), *services), **more))

    return with_plugins


def test_nothing_raised_is_nothing_counted(run):
    async def main(desk):
        await desk.send("T")
        assert errors(desk) == {}

    run(main, interceptors=(Interceptor(),))


def test_an_interceptor_that_raises(run):
    async def main(desk):
        for body, code in ((b"bad", 1), (b"refused", 13), (b"good", 0)):
            assert (await desk.send("T", body)).code == code
        assert errors(desk) == {("interceptor", f"{__name__}.Interceptor"): 1}

    run(main, interceptors=(Interceptor(),))


def test_a_plain_function_that_raises_cancelled_error_has_failed():
    def cancelled(*given):
        raise asyncio.CancelledError

    stats, failures = Stats(), []
    for call, given in (
        (counted_interceptor(cancelled, stats), 1),
        (counted(cancelled, lambda: failures.append("guard")), 4),
        (counted_handler(7777, cancelled, stats), 2),
    ):
        with pytest.raises(RuntimeError, match="cancelled raised CancelledError") as failed:
            call(*[None] * given)
        assert isinstance(failed.value.__cause__, asyncio.CancelledError)
    assert failures == ["guard"]
    heard, listeners = [], Listeners("tests", lambda *failed: failures.append(failed))
    listeners.add(cancelled)
    listeners.add(heard.append)
    listeners.call(1)
    assert (failures[1:], heard) == ([("listener", name_of(cancelled))], [1])


def test_a_handler_that_raises_at_once_or_later(run):
    async def main(desk):
        for code in (2001, 7777, 7777):
            assert (await desk.ask(code)).code == 1
        assert errors(desk) == {
            ("handler", "UPDATE_COLD_DATA_FLOW_CTR_CONFIG"): 1,
            ("handler", "request 7777"): 2,
        }

    run(main, handlers={2001: at_once, 7777: later})


def tide():
    raise KeyError("no moon")


def test_a_figure_that_raises(run):
    async def main(desk):
        desk.server._plugins.services[0].broker.metrics.register(tide)
        assert errors(desk) == {}
        assert errors(desk) == {("figure", f"{__name__}.tide"): 1}

    run(main)


@pytest.mark.parametrize("error", [RuntimeError("gone"), StoreError("not confirmed")])
def test_a_gate_that_raises(run, error):
    gate = Gate(error)

    async def main(desk):
        assert (await desk.send("T")).code == 1
        assert errors(desk) == {("gate", "replicas"): 1}
        gate.error = None
        assert (await desk.send("T")).code == 0
        assert errors(desk) == {("gate", "replicas"): 1}

    run(main, gates=(gate,))


def test_a_listener_that_raises_keeps_no_other_from_hearing(run):
    listener = Listener()

    async def main(desk):
        assert (await desk.send("T")).code == 0
        assert listener.heard == ["T"]
        name = f"{__name__}.Listener"
        assert errors(desk) == {("listener", f"{name}.arrived"): 1, ("listener", f"{name}.acknowledged"): 1}

    run(main, services=(listener,))


def test_a_filter_that_raises_when_compiled_or_asked(run):
    async def main(desk):
        await desk.send("T")
        for expression, code in (("no", 1), ("yes", 23), ("yes", 23)):
            fields = {"subscription": expression, "expressionType": "FRAGILE"}
            assert (await desk.ask(11, pull_ext("T", **fields))).code == code
        assert errors(desk) == {("filter", "FRAGILE"): 2}  # switched off, it is not called again

    run(main, filters={"FRAGILE": Filter})


def test_a_dispatcher_that_is_parked(run):
    async def main(desk):
        assert errors(desk) == {("dispatcher", "index"): 1}

    run(main, dispatchers={"index": lambda context: Dispatcher()})


def test_what_guards_wrap_keeps_its_order_name_and_answer():
    stats = Stats()
    assert CountedGate(Gate(), stats).name == "replicas"
    assert counted_handler(1, lambda asked, connection: None, stats)(None, None) is None
    asyncio.run(CountedGate(SimpleNamespace(name="x", passed=lambda offset: asyncio.sleep(0)), stats).passed(0))
    assert not stats.plugin_errors


@pytest.mark.parametrize("raised", [False, True])
def test_a_gate_that_is_asked_has_its_failures_counted(raised):
    def ask(log_offset, answer):
        if raised:
            raise KeyError("asked")
        answer(SlaveNotAvailable("too few"))
        answer(KeyError("asked"))

    stats, answers = Stats(), []
    gate = CountedGate(SimpleNamespace(name="x", ask=ask), stats)
    if raised:
        with pytest.raises(KeyError):
            gate.ask(0, answers.append)
    else:
        gate.ask(0, answers.append)
        assert [type(each) for each in answers] == [SlaveNotAvailable, KeyError]
    assert sum(stats.plugin_errors.values()) == 1
    assert not hasattr(CountedGate(Gate(), stats), "ask")


def test_functions_methods_and_objects_are_named_by_where_they_were_defined():
    assert name_of(at_once) == f"{__name__}.at_once"
    assert name_of(Listener().arrived) == f"{__name__}.Listener.arrived"
    assert name_of(Interceptor()) == f"{__name__}.Interceptor"


def test_a_response_of_a_plugin_that_nobody_waits_for_is_closed():
    async def later(asked, connection):
        raise AssertionError("it was never started")

    answer = counted_handler(7777, later, Stats())(None, None)
    answer.close()  # otherwise Python warns of a coroutine that was never awaited
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        asyncio.run(asyncio.wait_for(answer, 1))
