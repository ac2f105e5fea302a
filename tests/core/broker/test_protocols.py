"""Listeners with a protocol of a plugin, in a simulated world."""

from __future__ import annotations

import asyncio
import logging

import attrs
import line_echo
import pytest
from broker_desk import ADDRESS, START_MS, run_broker, settings_for

from gantrymq.broker import BrokerServer
from gantrymq.broker.registering.register_messages import RegisterMessages
from gantrymq.errors import ConfigError, RequestNotSupported
from gantrymq.model.role import Role
from gantrymq.plugins import PluginInfo, PluginState, load_plugins
from gantrymq.remoting import admission
from gantrymq.remoting.codes import FLAG_ONEWAY
from gantrymq.remoting.command import Command, decode, encode, request
from gantrymq.remoting.frame import FrameDecoder
from gantrymq_testing.simulated import simulate

HOST, PORT = "10.0.0.1", 8081
LISTENERS = {"listeners": f"sdk=echo://{HOST}:{PORT}"}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ASKING = b"\0\0\0\x04\x01\0\0\0\0\0\0\x03\x01\x05\0\0\0\x01\x82\x84\x86"


@pytest.fixture(name="with_echo")
def plugins_with_echo(plugins):
    """The store, and the plugin of `line_echo`."""
    line_echo.made.clear()
    loaded = load_plugins(extra=[("echo", line_echo)], installed=False)
    return attrs.evolve(plugins, protocols=loaded.protocols)


@pytest.fixture(name="run")
def run_with_echo(with_echo):
    """``run(main)`` runs ``await main(desk, echo)`` against a broker with the listener ``sdk``."""

    def run(main, **values):
        return run_broker(with_echo, lambda desk: main(desk, line_echo.made[-1]), **{**LISTENERS, **values})

    return run


class Raw(asyncio.Protocol):
    """A client that keeps what it reads."""

    def __init__(self):
        self.read, self.closed, self.changed = b"", False, asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.read += data
        self.changed.set()

    def connection_lost(self, exc):
        self.closed = True
        self.changed.set()

    async def until(self, condition):
        """Wait for *condition*, which is checked after each event."""
        while not condition():
            self.changed.clear()
            await self.changed.wait()
        return self.read

    async def to_end(self):
        return await self.until(lambda: self.closed)

    async def line(self):
        return await self.until(lambda: self.read.endswith(b"\n"))


async def connect(world, data=b"", *, port=PORT):
    """A connection to the listener, which has sent *data*."""
    _, raw = await world.network.connect(HOST, port, Raw)
    if data:
        raw.transport.write(data)
    return raw


async def answered(world, data, *, port=PORT):
    """All bytes that a client which sends *data* reads until the broker closes the connection."""
    return await (await connect(world, data, port=port)).to_end()


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno > logging.DEBUG and "closed" in each.message]


def test_clients_of_the_protocol_are_served(run):
    async def main(desk, echo):
        raw = await connect(desk.world, b"ECHO one\ntw")
        assert await raw.line() == b"ECHO one\n"
        raw.transport.write(b"o\n")
        assert await raw.until(lambda: raw.read.count(b"\n") == 2) == b"ECHO one\ntwo\n"
        (accepted,) = echo.accepted
        assert accepted[1:] == (("127.0.0.1", raw.transport.get_extra_info("sockname")[1]), "sdk", False, "")
        assert echo.listeners == {"sdk": f"{HOST}:{PORT}"}
        assert echo.broker.metrics.snapshot().broker == "broker-a"
        silent = await connect(desk.world)
        assert echo.broker.metrics.snapshot().connections == 1
        raw.transport.close()
        silent.transport.close()
        while echo.open:
            await desk.clock.sleep(0.01)
        assert echo.broker.metrics.snapshot().connections == 0
        assert "lost" in echo.events

    run(main)


def test_first_bytes_may_come_one_by_one_after_a_proxy_header(run):
    async def main(desk, echo):
        raw = await connect(desk.world)
        for byte in b"PROXY TCP4 192.0.2.7 10.0.0.1 5555 80\r\nECHO x\n":
            raw.transport.write(bytes([byte]))
            await desk.clock.sleep(0.01)
        assert await raw.line() == b"ECHO x\n"
        assert [each.peer for each in echo.accepted] == [("192.0.2.7", 5555)]

    run(main)


def test_a_proxy_header_of_an_untrusted_peer_is_refused(with_echo, caplog):
    async def main(world):
        broker = BrokerServer(world, settings_for(with_echo, **LISTENERS), with_echo)
        await broker.start()
        away = attrs.evolve(world, network=world.network.on_host("192.0.2.9"))
        assert await answered(away, b"PROXY TCP4 192.0.2.7 10.0.0.1 5555 80\r\nECHO x\n") == b""
        await broker.stop()
        await world.workers.close()
        assert line_echo.made[-1].accepted == []

    simulate(1, main, start_ms=START_MS)
    (line,) = warnings(caplog)
    assert "is not a proxy; if it is one, add 192.0.2.9 to proxyProtocolAddresses" in line


@pytest.mark.parametrize(
    "data",
    [b"", b"PROXY UNKNOWN\r\n", b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"],
    ids=["nothing", "PROXY UNKNOWN", "PROXY LOCAL"],
)
def test_probes_leave_no_line_and_no_connection(run, caplog, data):
    async def main(desk, echo):
        for _ in range(3):
            raw = await connect(desk.world, data)
            await desk.clock.sleep(0.1)
            raw.transport.close()
            await desk.clock.sleep(1)
        assert echo.accepted == [] and not raw.read
        assert await (await connect(desk.world, b"ECHO x\n")).line() == b"ECHO x\n"

    caplog.set_level(logging.INFO)
    run(main, maxConnections=1)
    assert warnings(caplog) == []


@pytest.mark.parametrize(("data", "lines"), [(b"", 0), (b"ECH", 1)])
def test_a_client_without_complete_first_bytes_is_closed_after_the_handshake_timeout(run, caplog, data, lines):
    async def main(desk, echo):
        raw = await connect(desk.world, data)
        before = desk.clock.monotonic()
        assert await raw.to_end() == b""
        assert 9.9 < desk.clock.monotonic() - before < 10.1
        slow = await connect(desk.world, b"ECHO ")
        await desk.clock.sleep(60)  # served: the protocol decides
        slow.transport.write(b"x\n")
        assert await slow.line() == b"ECHO x\n"

    run(main)
    said = [each.split(": ", 1)[1] for each in warnings(caplog)]
    assert said == ["closed: no complete first bytes within 10 s"] * lines


def test_connections_count_with_those_of_remoting(run, caplog):
    async def main(desk, echo):
        raw = await connect(desk.world, b"ECHO x\n")
        await raw.line()
        assert (await desk.ask(28)).code == 0  # GET_BROKER_RUNTIME_INFO: the second of two connections
        assert await answered(desk.world, b"ECHO y\n") == b""
        raw.transport.close()
        await desk.clock.sleep(1)
        assert await (await connect(desk.world, b"ECHO z\n")).line() == b"ECHO z\n"

    run(main, maxConnections=2)
    assert "refused: 2 connections are open, which is the limit" in caplog.text


def test_clients_wait_until_requests_are_served(with_echo):
    async def main(world):
        class Slow:
            name = "slow"

            async def start(self, broker):
                self.raw = await connect(world, b"ECHO x\n")
                await world.clock.sleep(30)
                assert not self.raw.read and not self.raw.closed
                assert line_echo.made[-1].events == []

            async def stop(self):
                line_echo.made[-1].events.append("service stops")

        slow = Slow()
        plugins = attrs.evolve(with_echo, services=(slow,))
        broker = BrokerServer(world, settings_for(plugins, **LISTENERS), plugins)
        await broker.start()
        assert await slow.raw.line() == b"ECHO x\n"
        silent = await connect(world)
        await world.clock.sleep(0.1)
        await broker.stop()
        await world.workers.close()
        assert await slow.raw.to_end() == b"ECHO x\nbye\n"
        assert await silent.to_end() == b""
        assert line_echo.made[-1].events == ["start", "stop with 1 open", "service stops", "lost"]
        with pytest.raises(ConnectionRefusedError):
            await connect(world)

    simulate(1, main, start_ms=START_MS)


def test_a_client_that_begins_while_the_protocol_stops_is_closed(with_echo):
    async def main(world):
        broker = BrokerServer(world, settings_for(with_echo, **LISTENERS), with_echo)
        await broker.start()
        raw = await connect(world, b"EC")
        await world.clock.sleep(0.1)
        echo = line_echo.made[-1]

        async def stop():
            raw.transport.write(b"HO x\n")
            with pytest.raises(ConnectionRefusedError):
                await connect(world)
            assert await raw.to_end() == b""

        echo.stop = stop
        await broker.stop()
        await world.workers.close()
        assert echo.accepted == []

    simulate(1, main, start_ms=START_MS)


def test_connections_that_the_protocol_leaves_open_are_closed_with_the_broker(with_echo):
    async def main(world):
        broker = BrokerServer(world, settings_for(with_echo, **LISTENERS), with_echo)
        await broker.start()
        raw = await connect(world, b"ECHO x\n")
        await raw.line()

        async def fail():
            raise LookupError("the protocol does not stop")

        line_echo.made[-1].stop = fail
        await broker.stop()
        await world.workers.close()
        assert await raw.to_end() == b"ECHO x\n"

    simulate(1, main, start_ms=START_MS)


@pytest.mark.parametrize("failing", ["accept", "data_received"])
def test_exceptions_of_the_protocol_are_logged_and_counted_and_close_the_connection(run, caplog, failing):
    async def main(desk, echo):
        echo.refusing = failing == "accept"
        assert await answered(desk.world, b"ECHO fail\n") == b""
        echo.refusing = False
        assert await (await connect(desk.world, b"ECHO x\n")).line() == b"ECHO x\n"
        return dict(echo.broker.metrics.snapshot().plugin_errors)

    assert run(main) == {("listener protocol", "echo"): 1}
    (record,) = [each for each in caplog.records if "serving the connection failed" in each.message]
    assert record.exc_info[0] is LookupError


def test_the_protocol_runs_in_every_role(run):
    async def main(desk, echo):
        for role in (Role.REPLICA, Role.ACTING_MASTER, Role.MASTER):
            await echo.broker.role.change(role, 1)
            assert await (await connect(desk.world, b"ECHO x\n")).line() == b"ECHO x\n"
        assert echo.events == ["start"]

    run(main)


def test_registrations_have_the_advertised_address(run):
    async def main(desk, echo):
        messages = RegisterMessages(desk.world, desk.server.identity, desk.tables.topics)
        (ext,) = [message.ext async for message, _ in messages.whole(None)]
        assert ext["listenerAddrs"] == "sdk=broker.example:18081"
        assert echo.listeners == {"sdk": "broker.example:18081"}

    run(main, advertisedAddresses="sdk=broker.example:18081")


# --- other protocols ------------------------------------------------------------------------------------------------

PLACE = "this port belongs to listener sdk, which speaks echo"


def test_a_remoting_request_is_answered_with_the_right_port(run, caplog):
    async def main(desk, echo):
        whole = await answered(desk.world, encode(request(105, {"topic": "T"}, b"x" * 100)))
        (frame,) = FrameDecoder().feed(whole)
        return decode(frame)

    advice = (
        f"the peer speaks the remoting protocol, and {PLACE}; clients of the remoting protocol connect to this broker "
        f"at {ADDRESS}"
    )
    answer = run(main)
    assert (answer.code, answer.remark) == (3, advice)
    assert advice in caplog.text


@pytest.mark.parametrize(
    "data",
    [
        encode(Command(105, flag=FLAG_ONEWAY)),
        encode(Command(105, flag=1)),
        b"\0\0\0\x08\x00\x00\x00\x04{bad",
        b"\0\0\0\x01\x00\x00\x00\x04",
    ],
    ids=["oneway", "response", "header", "length"],
)
def test_other_frames_are_closed_without_an_answer(run, caplog, data):
    async def main(desk, echo):
        return await answered(desk.world, data)

    assert run(main) == b""
    assert "closed: the peer speaks the remoting protocol" in caplog.text


def test_http_1_gets_a_response(run, caplog):
    async def main(desk, echo):
        return await answered(desk.world, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

    head, _, body = run(main).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert body.startswith(b"This port speaks the protocol echo, not HTTP/1.\n")
    assert f"closed: the peer speaks HTTP/1, and {PLACE}" in caplog.text


def test_http_2_gets_a_goaway(run, caplog):
    async def main(desk, echo):
        return await answered(desk.world, PREFACE + ASKING)

    text = f"the peer speaks HTTP/2, and {PLACE}"
    assert run(main).endswith(b"\0\0\0\x01" + text.encode())
    assert f"closed: {text}" in caplog.text


def test_unknown_bytes_are_closed(run, caplog):
    async def main(desk, echo):
        return await answered(desk.world, b"SSH-2.0-x\r\n")

    assert run(main) == b""
    assert f"closed: the peer sends other bytes than its clients, and {PLACE}" in caplog.text


def test_tls_without_a_certificate_is_closed_with_the_settings_to_set(run, caplog):
    async def main(desk, echo):
        return await answered(desk.world, b"\x16\x03\x01\x02\x00\x01")

    assert run(main, **{"tls.test.mode.enable": "false"}) == b""
    assert "closed: the peer wants TLS, and this server has no certificate: set tls.server.certPath" in caplog.text


@pytest.mark.parametrize(("listeners", "made"), [("", 0), (LISTENERS["listeners"], 1)])
def test_the_self_signed_certificate_of_such_a_listener_is_made_at_the_start(with_echo, monkeypatch, listeners, made):
    found = []
    monkeypatch.setattr(admission, "self_signed_available", lambda: True)
    monkeypatch.setattr(admission, "_with_self_signed", lambda context, now_ms: found.append(now_ms))

    async def main(desk):
        assert len(found) == made

    run_broker(with_echo, main, listeners=listeners)


def test_a_certificate_that_cannot_be_made_does_not_stop_the_start(run, monkeypatch, caplog):
    def fail(context, now_ms):
        raise OSError(28, "No space left on device")

    async def main(desk, echo):
        assert await answered(desk.world, b"\x16\x03\x01\x02\x00\x01") == b""
        return await (await connect(desk.world, b"ECHO one\n")).line()

    monkeypatch.setattr(admission, "self_signed_available", lambda: True)
    monkeypatch.setattr(admission, "_with_self_signed", fail)
    assert run(main) == b"ECHO one\n"
    assert "no certificate could be made: [Errno 28] No space left on device" in caplog.text


# --- gRPC at a remoting port ----------------------------------------------------------------------------------------


def goaway_of(plugins, **values):
    async def main(desk):
        return await answered(desk.world, PREFACE + ASKING, port=10911)

    return run_broker(plugins, main, **values).rpartition(b"\0\0\0\x01")[2].decode()


def test_grpc_at_a_remoting_port_is_told_the_address_of_the_listener(with_echo):
    plugins = attrs.evolve(with_echo, protocols={"grpc": with_echo.protocols["echo"]})
    listeners = f"sdk=grpc://{HOST}:0,b=remoting://{HOST}:0,two=grpc+tls://{HOST}:0"
    with pytest.raises(ConfigError, match=r"listener two has the protocol grpc\+tls, and this server has no cert"):
        goaway_of(plugins, listeners=listeners, **{"tls.test.mode.enable": "false"})
    assert goaway_of(plugins, listeners=listeners.rpartition(",")[0], advertisedAddresses="sdk=b.example:7") == (
        "the peer speaks HTTP/2, as gRPC does, and this port speaks the RocketMQ remoting protocol; gRPC clients of "
        "this broker connect to b.example:7 (listener sdk)"
    )


def test_without_such_a_listener_it_is_told_how_to_set_one_up(plugins):
    assert goaway_of(plugins).startswith(
        "the peer speaks HTTP/2, as gRPC does, and this port speaks the RocketMQ remoting protocol; gRPC clients need "
        "a listener of a broker for gRPC, such as listeners=sdk=grpc://0.0.0.0:8081 with the plugin gantrymq-grpc; "
        "install it with: pip install gantrymq-grpc"
    )


# --- settings -------------------------------------------------------------------------------------------------------


def created(plugins, **values):
    """Create a broker without starting it."""

    async def main(world):
        BrokerServer(world, settings_for(plugins, **values), plugins)
        await world.workers.close()

    simulate(1, main, start_ms=START_MS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "a=http://h:1",
            "a has the protocol http, and this server has only remoting, remoting+tls, echo, echo+tls; choose one of "
            "these, or install the plugin that has it",
        ),
        (
            "a=echo://h:1,sdk=grpc+tls://h:1",
            "sdk has the protocol grpc, and this server has only remoting, remoting+tls, echo, echo+tls; install the "
            "plugin with: pip install gantrymq-grpc ",
        ),
    ],
)
def test_an_unknown_protocol_stops_the_start_before_anything_opens(with_echo, text, problem):
    with pytest.raises(ConfigError) as refused:
        created(with_echo, listeners=text)
    assert line_echo.made == []
    assert str(refused.value).startswith(f"the test: listeners: {problem}")


def test_a_service_that_is_missing_stops_the_start_with_what_to_do(with_echo, monkeypatch):
    async def start(echo, broker, listeners):
        broker.service("pop")

    async def main(desk):
        raise AssertionError("the broker must not start")

    monkeypatch.setattr(line_echo.Echo, "start", start)
    with pytest.raises(RequestNotSupported, match="^no installed plugin offers the service pop; install it with: pip"):
        run_broker(with_echo, main, **LISTENERS)
    info = PluginInfo("pop", "gantrymq-pop", "1", PluginState.LEFT_OUT)
    with pytest.raises(RequestNotSupported, match="is of the plugin pop, which plugins= leaves out; add it there"):
        run_broker(attrs.evolve(with_echo, infos=(info,)), main, **LISTENERS)


def test_a_plugin_that_is_left_out_is_named(plugins):
    info = PluginInfo("grpc", "gantrymq-grpc", "1", PluginState.LEFT_OUT)
    with pytest.raises(ConfigError, match="the plugin grpc is left out by plugins=, add it there$"):
        created(attrs.evolve(plugins, infos=(info,)), listeners="a=grpc://h:1")


def test_without_such_a_listener_the_factory_is_not_called(with_echo):
    created(with_echo, listeners="a=remoting://h:1")
    assert line_echo.made == []


def test_tls_that_is_required_must_not_be_disabled(with_echo):
    async def main(world):
        values = {"listeners": "a=echo+tls://h:1", "tls.server.mode": "disabled"}
        broker = BrokerServer(world, settings_for(with_echo, **values), with_echo)
        with pytest.raises(ConfigError, match=r"^listener a has the protocol echo\+tls, and tls.server.mode=disabled"):
            await broker.start()
        await world.workers.close()

    simulate(1, main, start_ms=START_MS)
