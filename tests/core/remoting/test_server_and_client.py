"""Server and client over real loopback sockets with free ports, on a manual clock."""

import asyncio
import functools
import socket

import attrs
import pytest

from gantrymq.errors import CallTimeout, ConnectFailed, ConnectionLost, LocalProtocolError
from gantrymq.remoting.busy_poll import REQUESTS_TO_START
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import Command, decode, encode, request
from gantrymq.remoting.frame import FrameDecoder
from gantrymq.remoting.limits import Limits
from gantrymq.remoting.server import RemotingServer

LIMIT_S = 20  # nothing here takes longer unless it hangs


def in_loop(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), LIMIT_S))

    return run


def echo(connection, command):
    if command.code != 1:
        connection.reply(command, Command(0, ext={"code": str(command.code)}, body=command.body))


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what it waits for sets no event
        await asyncio.sleep(0)


class Pair:
    def __init__(self, world, serve, limits=None, **client):
        self.server = RemotingServer(world, serve, limits=limits, name="test")
        self.client = RemotingClient(world, **client)

    async def __aenter__(self):
        self.address = "{}:{}".format(*await self.server.start("127.0.0.1", 0))
        return self

    async def __aexit__(self, *_):
        await self.client.close()
        await self.server.stop()
        assert self.server.connections == []


@in_loop
async def test_calls_of_many_tasks_share_one_connection(world, recorder):
    handler = recorder(echo)
    async with Pair(world, handler) as pair:
        answers = await asyncio.gather(
            *[pair.client.call(pair.address, request(100 + n, body=bytes(n * 1000))) for n in range(50)]
        )
        assert [(a.ext["code"], len(a.payload)) for a in answers] == [(str(100 + n), n * 1000) for n in range(50)]
        assert len(pair.server.connections) == 1
        assert pair.server.connections[0].peer[0] == "127.0.0.1"


@in_loop
async def test_a_large_body_goes_both_ways_and_one_over_the_limit_is_refused_here(world, recorder):
    async with Pair(world, recorder(echo)) as pair:
        body = bytes(range(256)) * 60_000
        assert (await pair.client.call(pair.address, request(10, body=body))).body == body
        with pytest.raises(LocalProtocolError):
            await pair.client.call(pair.address, request(10, body=bytes(17 << 20)))
        assert pair.server.unfinished_bytes == 0


@in_loop
async def test_the_server_asks_the_client_on_the_same_connection(world, recorder):
    def answer_late(connection, command):
        async def ask():
            told = await connection.call(request(221, {"group": "g"}), 3.0)
            connection.oneway(request(40, {"consumerGroup": "g"}))
            connection.reply(command, Command(0, ext=told.ext))

        connection.notes["task"] = asyncio.get_running_loop().create_task(ask())

    on_client = recorder(lambda c, m: c.reply(m, Command(0, ext={"from": "client"})))
    async with Pair(world, recorder(answer_late), handler=on_client) as pair:
        assert (await pair.client.call(pair.address, request(223))).ext == {"from": "client"}
        await until(lambda: len(on_client.batches) >= 1 and sum(map(len, on_client.batches)) == 2)
        assert [c.code for batch in on_client.batches for c in batch] == [221, 40]


@in_loop
async def test_binary_headers_are_answered_in_kind(world, recorder):
    async with Pair(world, recorder(echo), serialize=1) as pair:
        assert (await pair.client.call(pair.address, request(105))).serialize == 1
        assert (await pair.client.call(pair.address, request(200050))).serialize == 0


@in_loop
async def test_a_call_without_an_answer_times_out_and_the_connection_stays(world, recorder, clock):
    handler = recorder(echo)
    async with Pair(world, handler) as pair:
        call = asyncio.ensure_future(pair.client.call(pair.address, request(1), 3.0))
        await until(lambda: handler.batches)
        clock.advance(3.1)
        with pytest.raises(CallTimeout):
            await call
        assert (await pair.client.call(pair.address, request(2))).code == 0
        assert len(pair.server.connections) == 1


@in_loop
async def test_a_connection_lost_fails_its_calls_and_is_opened_again(world, recorder):
    handler = recorder(echo)
    lost = []
    async with Pair(world, handler) as pair:
        pair.client.on_close(lambda address, connection: lost.append(address))
        call = asyncio.ensure_future(pair.client.call(pair.address, request(1)))
        await until(lambda: handler.batches)
        handler.connections[0].abort()
        with pytest.raises(ConnectionLost):
            await call
        assert lost == [pair.address]
        assert pair.client.connected(pair.address) is None
        assert (await pair.client.call(pair.address, request(2))).code == 0
        assert pair.client.connected(pair.address) is not None
        pair.client.connected(pair.address).close()
        await until(lambda: not pair.server.connections)


@in_loop
async def test_go_away_is_met_by_a_new_connection(world, recorder, clock):
    answers = iter((1500, 0))
    handler = recorder(lambda c, m: c.reply(m, Command(next(answers))))
    async with Pair(world, handler) as pair:
        assert (await pair.client.call(pair.address, request(10))).code == 0
        assert handler.connections[0] is not handler.connections[1]
        assert len(pair.server.connections) == 2
        clock.advance(3.1)
        await until(lambda: len(pair.server.connections) == 1)


@in_loop
async def test_nobody_listens(world):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        client = RemotingClient(world)
        results = await asyncio.gather(*[client.call(address, request(1)) for _ in range(3)], return_exceptions=True)
        assert {type(result) for result in results} == {ConnectFailed}
        with pytest.raises(LocalProtocolError):
            await client.call("nowhere", request(1))
        with pytest.raises(ConnectFailed):
            await client.oneway(address, request(1))
        await client.close()
        with pytest.raises(ConnectFailed, match="closed"):
            await client.call(address, request(1))


@in_loop
async def test_connecting_takes_no_longer_than_its_limit_and_ends_with_the_client(world, clock):
    class Stuck:
        async def connect(self, host, port, factory):
            await asyncio.Event().wait()

    stuck = RemotingClient(attrs.evolve(world, network=Stuck()))
    call = asyncio.ensure_future(stuck.call("10.0.0.1:1", request(1)))
    await until(lambda: clock.timers)
    clock.advance(3.1)
    with pytest.raises(ConnectFailed, match="within 3 s"):
        await call
    call = asyncio.ensure_future(stuck.call("10.0.0.1:1", request(1)))
    await until(lambda: stuck._attempts)
    await stuck.close()
    with pytest.raises(ConnectFailed):
        await call


@in_loop
async def test_connections_over_the_limit_are_closed_at_once(world, recorder, caplog):
    async with Pair(world, recorder(echo), Limits(max_connections=2)) as pair:
        host, port = pair.server.address
        streams = [await asyncio.open_connection(host, port) for _ in range(2)]
        await until(lambda: len(pair.server.connections) == 2)
        reader, writer = await asyncio.open_connection(host, port)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        assert "2 connections are open, which is the limit" in caplog.text
        writer.close()
        streams[0][1].write(encode(Command(105, opaque=1)))
        assert await streams[0][0].readexactly(4)
        for _, open_writer in streams:
            open_writer.close()


@in_loop
async def test_a_slow_reader_is_throttled_and_slows_nobody_else(world, recorder):
    handler = recorder(echo)
    async with Pair(world, handler, Limits(pause_reading_bytes=64 * 1024)) as pair:
        reader, writer = await asyncio.open_connection(*pair.server.address, limit=1024)
        reader._transport.pause_reading()
        total = 400

        async def flood():
            for n in range(total):
                writer.write(encode(Command(10, opaque=n, body=bytes(100_000))))
                await writer.drain()

        flooding = asyncio.ensure_future(flood())
        await until(lambda: any(c._paused for c in pair.server.connections))
        for _ in range(5):
            assert (await pair.client.call(pair.address, request(2))).code == 0
        slow = pair.server.connections[0]
        await until(lambda: slow._paused)  # not for a moment, while the kernel takes more of its answers
        assert slow.unwritten_bytes < 2_000_000
        assert sum(map(len, handler.batches)) < total
        reader._transport.resume_reading()
        decoder, got = FrameDecoder(), 0
        while got < total:
            data = await reader.read(1 << 20)
            assert data, f"closed after {got} answers"
            got += len(decoder.feed(data))
        await flooding
        writer.close()


@in_loop
async def test_stop_lets_answers_out_and_cuts_off_who_does_not_read(world, recorder, clock):
    handler = recorder(echo)
    server = RemotingServer(world, handler, limits=Limits(max_unwritten_bytes=1 << 30))
    host, port = await server.start("127.0.0.1", 0)
    assert server.address == (host, port)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(encode(Command(10, opaque=1, body=b"x")))
    await until(lambda: handler.batches)
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.setblocking(False)
    await asyncio.get_running_loop().sock_connect(deaf, (host, port))
    await until(lambda: len(server.connections) == 2)
    for _ in range(4):
        server.connections[1].reply(1, Command(0, body=bytes(8 << 20)))
    stopping = asyncio.ensure_future(server.stop(grace_s=1.0))
    await until(lambda: len(server.connections) == 1)
    assert decode(FrameDecoder().feed(await reader.read())[0]).body == b"x"
    assert not stopping.done()
    clock.advance(1.1)
    await stopping
    assert server.address is None
    writer.close()
    deaf.close()
    await server.stop()


@in_loop
@pytest.mark.parametrize("window_s", [0.0003, 0.0])
async def test_a_server_stays_awake_for_a_client_that_asks_one_thing_after_the_other(world, recorder, clock, window_s):
    turns = []
    world = attrs.evolve(world, processors=lambda: 2.0, yield_processor=lambda: turns.append(clock.now))
    async with Pair(world, recorder(echo), Limits(busy_poll_s=window_s)) as pair:
        for _ in range(REQUESTS_TO_START + 1):
            assert not turns
            await pair.client.call(pair.address, request(100))
        for _ in range(3):
            await asyncio.sleep(0)
        assert bool(turns) is bool(window_s)
        clock.now += 1


@pytest.mark.parametrize("policy", [None, "uvloop"])
def test_what_came_before_a_reset_is_served(world, recorder, policy):
    """A client that closes with unread responses resets the connection, and the next write fails before the next read.

    So does the official Go client, whose oneway messages are answered.
    """

    async def main():
        handler = recorder()
        server = RemotingServer(world, handler, name="test")
        with socket.create_connection(await server.start("127.0.0.1", 0)) as client:
            frames = [encode(Command(310, opaque=number, body=bytes(100))) for number in range(100)]
            client.sendall(b"".join(frames[:8]))
            await until(lambda: len(handler.seen) == 8)
            connection = handler.connections[0]
            connection.reply(0, Command(0))
            connection.flush()
            client.sendall(b"".join(frames[8:]))
        for number in range(1, 8):
            connection.reply(number, Command(0))
            connection.flush()
        await until(lambda: not server.connections)
        assert [command.opaque for command in handler.seen] == list(range(100))
        await server.stop()

    runner = asyncio.Runner(loop_factory=None if policy is None else pytest.importorskip(policy).new_event_loop)
    with runner:
        runner.run(asyncio.wait_for(main(), LIMIT_S))
