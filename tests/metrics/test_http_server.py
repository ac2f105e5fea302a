"""The HTTP server: pages, refusals and limits."""

import asyncio

import pytest

from gantrymq.world.real import real_world
from gantrymq_metrics.http_request import MAX_HEAD_BYTES, HttpResponse
from gantrymq_metrics.http_server import MAX_CONNECTIONS, TIME_LIMIT_S, HttpServer
from gantrymq_testing.simulated import simulate


async def hello():
    return HttpResponse(200, b"hello")


LONG = [bytes([number % 251]) * 10_000 for number in range(300)]


async def long():
    return HttpResponse(200, b"", more=LONG)


async def fails():
    raise ValueError("no")


async def never():
    await asyncio.get_running_loop().create_future()


def served(work):
    """Run ``work(world, address)`` with a server of three pages."""

    async def main(world):
        server = HttpServer(world, {"/hello": hello, "/long": long, "/fails": fails, "/never": never})
        address = await server.start("127.0.0.1", 0)
        try:
            return await work(world, address)
        finally:
            await server.stop()
            await server.stop()

    return simulate(1, main)


@pytest.mark.parametrize(("path", "status", "body"), [("/hello", 200, b"hello"), ("/other", 404, b"there is /hello")])
def test_pages_are_found_by_path(http, path, status, body):
    answer = served(lambda world, address: http.get(world, address, path))
    assert (answer.status, answer.headers["Content-Length"]) == (status, str(len(answer.body)))
    assert answer.body.startswith(body)


@pytest.mark.parametrize(("path", "length"), [("/hello", b"5"), ("/long", b"3000000")])
def test_head_gets_no_body_but_its_length(http, path, length):
    async def ask(world, address):
        transport, client = await world.network.connect(*address, http.Client)
        transport.write(f"HEAD {path} HTTP/1.1\r\n\r\n".encode())
        await client.closed
        return client.got

    head, _, body = served(ask).partition(b"\r\n\r\n")
    assert (head.startswith(b"HTTP/1.1 200 OK\r\n"), body) == (True, b"")
    assert b"Content-Length: " + length + b"\r\n" in head


def test_a_long_page_waits_for_a_slow_reader(http):
    async def read_slowly(world, address):
        transport, client = await world.network.connect(*address, http.Client)
        transport.pause_reading()
        transport.write(b"GET /long HTTP/1.1\r\n\r\n")
        await world.clock.sleep(1)
        before = len(client.got)
        transport.resume_reading()
        await client.closed
        return before, client.got

    before, got = served(read_slowly)
    head, _, body = got.partition(b"\r\n\r\n")
    assert before < len(body) / 2
    assert b"Content-Length: 3000000\r\n" in head
    assert body == b"".join(LONG)


def test_a_page_that_fails_is_a_500_and_a_traceback_in_the_log(http, caplog):
    assert served(lambda world, address: http.get(world, address, "/fails")).status == 500
    assert "ValueError: no" in caplog.text


def test_what_comes_behind_the_request_is_ignored(http):
    request = b"GET /hello HTTP/1.1\r\n\r\nGET /hello HTTP/1.1\r\n\r\n"
    assert served(lambda world, address: http.ask(world, address, request)).body == b"hello"


def test_an_oversized_request_is_refused_and_closed(http):
    request = b"GET /hello HTTP/1.1\r\nCookie: " + b"c" * 10 * MAX_HEAD_BYTES
    assert served(lambda world, address: http.ask(world, address, request)).status == 431


@pytest.mark.parametrize("request_bytes", [b"", b"GET /hello HT", b"GET /never HTTP/1.1\r\n\r\n"])
def test_slow_connections_are_closed(http, request_bytes):
    async def wait(world, address):
        began = world.clock.monotonic()
        answer = await http.ask(world, address, request_bytes)
        return answer.status, world.clock.monotonic() - began

    status, seconds = served(wait)
    assert status is None
    assert TIME_LIMIT_S <= seconds < TIME_LIMIT_S + 1


def test_too_many_connections_are_closed_at_once_and_room_comes_back(http):
    async def crowd(world, address):
        idle = [(await world.network.connect(*address, http.Client))[0] for _ in range(MAX_CONNECTIONS)]
        refused = await http.get(world, address, "/hello")
        idle[0].close()
        await world.clock.sleep(1)
        return refused.status, (await http.get(world, address, "/hello")).status

    assert served(crowd) == (None, 200)


def test_a_stop_breaks_off_what_is_under_way(http):
    async def main(world):
        server = HttpServer(world, {"/never": never})
        address = await server.start("127.0.0.1", 0)
        asking = asyncio.ensure_future(http.get(world, address, "/never"))
        await world.clock.sleep(1)
        await server.stop()
        return (await asking).status, asyncio.all_tasks() - {asyncio.current_task()}

    assert simulate(1, main) == (None, set())


@pytest.mark.parametrize("loops", ["asyncio", "uvloop"])
def test_real_sockets_of_both_event_loops_are_served(http, loops):
    factory = pytest.importorskip(loops).new_event_loop

    async def main():
        world = real_world()
        server = HttpServer(world, {"/hello": hello, "/long": long})
        address = await server.start("127.0.0.1", 0)
        try:
            found = await http.get(world, address, "/hello")
            long_one = await http.get(world, address, "/long")
            refused = await http.ask(world, address, b"GET /hello HTTP/1.1\r\nCookie: " + b"c" * 10 * MAX_HEAD_BYTES)
        finally:
            await server.stop()
            await world.workers.close()
        return found.body, long_one.body, refused.status

    with asyncio.Runner(loop_factory=factory) as runner:
        body, long_body, status = runner.run(main())
    assert body == b"hello"
    assert long_body == b"".join(LONG)
    assert status in (431, None)  # unread bytes may reset the connection before the answer is seen
