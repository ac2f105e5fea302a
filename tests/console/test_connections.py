"""The HTTP server over real sockets: slow peers, too many connections, large heads, TLS. The test moves the clock."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl

import attrs
import pytest
from certificates import make_certificate
from manual_clock import ManualClock
from polling import until
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from gantrymq.errors import ConfigError
from gantrymq.remoting.certificates import RECHECK_S
from gantrymq.world.real import real_world
from gantrymq_console.access.exposure import https_certificates
from gantrymq_console.web import http_server
from gantrymq_console.web.http_server import HttpServer, Limits, limits_alone, limits_in_broker

LIMITS = Limits(connections=5)


class Site:
    """A server with one page, which answers with the length of the request's body."""

    def __init__(self, certificates=None, limits=LIMITS):
        self.clock = ManualClock()
        self.world = attrs.evolve(real_world(), clock=self.clock)
        self.failed: list[BaseException] = []
        self.server = HttpServer(self.app, self.world, certificates, limits)

    async def app(self, scope, receive, send):
        try:
            body = await Request(scope, receive).body()
        except BaseException as problem:
            self.failed.append(problem)
            raise
        size = 32 * 1024 * 1024 if scope["path"] == "/large" else 0
        await PlainTextResponse(f"{scope['scheme']} {len(body)}" + " " * size)(scope, receive, send)

    async def __aenter__(self):
        self.address = await self.server.start("127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        await self.server.stop()

    async def connect(self, **options):
        reader, writer = await asyncio.open_connection(*self.address, **options)
        return reader, writer


def run(work):
    async def limited():
        async with asyncio.timeout(30):
            await work()

    asyncio.run(limited())


async def closed(reader):
    """Wait until the server has closed, and return what it sent before."""
    with contextlib.suppress(ConnectionError):
        return await reader.read()
    return b""


async def eventually(look):
    await until(look, "change at the server", 20, poll_s=0.002)


async def ready(site, count):
    """Wait until the server knows *count* connections."""
    await eventually(lambda: len(site.server._state.connections) == count)


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: loc"], ids=["nothing", "part"])
def test_a_head_that_does_not_end_is_not_waited_for(first):
    async def work():
        async with Site() as site:
            reader, writer = await site.connect()
            writer.write(first)
            await ready(site, 1)
            for _ in range(4):  # bytes that trickle in do not extend the time
                site.clock.advance(LIMITS.head_s / 5)
                writer.write(b"x" if first else b"")
                await writer.drain()
            assert not reader.at_eof()
            site.clock.advance(LIMITS.head_s / 5)
            assert await closed(reader) == b""
            writer.close()

    run(work)


def test_a_body_that_does_not_end_is_not_waited_for():
    async def work():
        async with Site() as site:
            reader, writer = await site.connect()
            writer.write(HEAD + b"123")
            await eventually(lambda: site.server._state.tasks)
            site.clock.advance(LIMITS.head_s)
            assert site.server._state.connections, "the time of the head is over with the head"
            site.clock.advance(LIMITS.body_s)
            assert await closed(reader) == b""
            writer.close()

    run(work)


def test_the_second_request_of_a_connection_has_its_own_time():
    async def work():
        async with Site() as site:
            reader, writer = await site.connect()
            for _ in range(3):
                writer.write(HEAD + b"1234567890")
                assert (await reader.readuntil(b"http 10")).startswith(b"HTTP/1.1 200")
                site.clock.advance(LIMITS.head_s * 0.9)
            writer.write(HEAD[:20])
            (connection,) = site.server._state.connections
            await eventually(lambda: connection.conn.trailing_data[0])
            site.clock.advance(LIMITS.head_s)
            assert await closed(reader) == b""
            writer.close()

    run(work)


def test_a_response_that_is_not_read_is_given_up():
    async def work():
        async with Site() as site:
            _, writer = await site.connect(limit=1)
            writer.write(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await ready(site, 1)
            (connection,) = site.server._state.connections
            await eventually(lambda: connection._writing)
            site.clock.advance(LIMITS.write_s)
            await ready(site, 0)
            writer.close()

    run(work)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_connections_above_the_limit_are_closed_at_once(tls, tmp_path):
    certificates = (
        https_certificates(real_world(), make_certificate(tmp_path, "a"), str(tmp_path / "a.key")) if tls else None
    )

    async def work():
        async with Site(certificates) as site:
            kept = [await site.connect() for _ in range(LIMITS.connections)]
            await ready(site, LIMITS.connections)
            reader, writer = await site.connect()
            assert await closed(reader) == b""
            writer.close()
            kept.pop()[1].close()
            await ready(site, LIMITS.connections - 1)
            kept.append(await site.connect())
            await ready(site, LIMITS.connections)
            site.clock.advance(LIMITS.head_s)  # also of the handshake
            await ready(site, 0)
            for _, each in kept:
                each.close()

    run(work)


def test_one_address_cannot_lock_the_others_out(caplog):
    async def work():
        async with Site(limits=attrs.evolve(LIMITS, per_address=3)) as site:
            crowd = [await site.connect() for _ in range(8)]
            await asyncio.gather(*(closed(reader) for reader, _ in crowd[3:]))
            await ready(site, 3)
            reader, writer = await site.connect(local_addr=("127.0.0.2", 0))
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" in await reader.readline()
            for _, each in [*crowd, (reader, writer)]:
                each.close()
            site.clock.advance(60)
            await ready(site, 0)
            crowd = [await site.connect() for _ in range(4)]
            await closed(crowd[3][0])
            for _, each in crowd:
                each.close()

    run(work)
    assert [each.getMessage() for each in caplog.records if each.name.startswith("gantrymq_console")] == [
        "console: a connection from 127.0.0.1 refused: it has 3 connections, the limit of one address",
        "console: a connection from 127.0.0.1 refused: it has 3 connections, the limit of one address "
        "(4 more were refused since the line before)",
    ]


def certificate_of(folder):
    """Return the files of a new certificate, and the options of connections that trust it."""
    files = make_certificate(folder, "a"), str(folder / "a.key")
    trusting = ssl.create_default_context(cafile=files[0])
    trusting.check_hostname = False
    return files, {"ssl": trusting}


@pytest.mark.parametrize(
    ("tls", "first"),
    [(False, b""), (False, b"GET / HTTP/1.1\r\nHost: loc"), (True, b"")],
    ids=["nothing", "part", "tls"],
)
@pytest.mark.parametrize("per_address", [100, 5], ids=["all", "address"])
def test_heads_that_do_not_end_lock_nobody_out(tls, first, per_address, tmp_path):
    """Such as a probe of /healthz: a new connection replaces the one that has sent no whole head for longest."""
    files, trusting = certificate_of(tmp_path) if tls else ((), {})

    async def work():
        certificates = https_certificates(real_world(), *files) if tls else None
        async with Site(certificates, attrs.evolve(LIMITS, per_address=per_address)) as site:
            slow = []
            for number in range(LIMITS.connections):
                slow.append(await site.connect())
                slow[-1][1].write(first)
                await ready(site, number + 1)
                site.clock.advance(0.01)
            early, writer = await site.connect()
            assert await closed(early) == b""
            writer.close()
            site.clock.advance(http_server._SLOW_S)
            reader, writer = await site.connect(**trusting)
            writer.write(HEAD + b"1234567890")
            assert (await reader.readuntil(b" 10")).startswith(b"HTTP/1.1 200")
            assert await closed(slow[0][0]) == b""
            await ready(site, LIMITS.connections)
            for _, each in [*slow, (reader, writer)]:
                each.transport.abort()

    run(work)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("per_address", [100, 5], ids=["all", "address"])
def test_connections_that_are_only_kept_make_room(tls, per_address, tmp_path, caplog):
    files, trusting = certificate_of(tmp_path) if tls else ((), {})

    async def work():
        certificates = https_certificates(real_world(), *files) if tls else None
        async with Site(certificates, attrs.evolve(LIMITS, per_address=per_address)) as site:
            kept = []

            async def ask():
                kept.append(await site.connect(**trusting))
                kept[-1][1].write(HEAD + b"1234567890")
                assert (await kept[-1][0].readuntil(b" 10")).startswith(b"HTTP/1.1 200")
                site.clock.advance(0.001)

            for _ in range(LIMITS.connections + 2):
                await ask()
            for reader, _ in kept[:2]:  # those that waited for longest
                assert await closed(reader) == b""
            for _, writer in kept[2:]:
                writer.write(HEAD + b"123")  # they are in use now
            await eventually(lambda: not any(each.is_idle for each in site.server._state.connections))
            assert not [record for record in caplog.records if "refused" in record.getMessage()]
            reader, writer = await site.connect()
            assert await closed(reader) == b""
            assert [record for record in caplog.records if "refused" in record.getMessage()]
            for _, each in [*kept, (reader, writer)]:
                each.transport.abort()

    run(work)


def test_a_trusted_proxy_has_no_limit_of_its_address():
    async def work():
        limits = attrs.evolve(LIMITS, per_address=1, is_proxy=lambda address: address == "127.0.0.1")
        async with Site(limits=limits) as site:
            crowd = [await site.connect() for _ in range(LIMITS.connections)]
            await ready(site, LIMITS.connections)
            for _, each in crowd:
                each.close()

    run(work)


@pytest.mark.parametrize(
    ("descriptors", "alone", "in_broker"),
    [(64, (1, 1), (4, 2)), (256, (156, 78), (16, 8)), (1024, (924, 100), (64, 20)), (2**20, (1000, 100), (100, 20))],
)
def test_connections_are_limited_by_the_descriptors_of_the_process(descriptors, alone, in_broker):
    for limits, expected in (
        (limits_alone(descriptors, lambda _: False), alone),
        (limits_in_broker(descriptors), in_broker),
    ):
        assert (limits.connections, limits.per_address) == expected


def test_work_in_between_waits_for_requests_but_not_for_long():
    async def work():
        async with Site() as site:
            await site.server.idle()
            reader, writer = await site.connect()
            writer.write(HEAD)
            await eventually(lambda: site.server._state.tasks)
            waiting = asyncio.ensure_future(site.server.idle())
            for _ in range(5):
                await asyncio.sleep(0)
            assert not waiting.done()
            writer.write(b"1234567890")
            await reader.readuntil(b"http 10")
            await waiting
            writer.write(HEAD)
            await eventually(lambda: site.server._state.tasks)
            waiting = asyncio.ensure_future(site.server.idle())
            await asyncio.sleep(0)
            site.clock.advance(1)
            await waiting
            writer.close()

    run(work)


def test_a_large_head_and_nonsense_are_refused():
    async def work():
        async with Site() as site:
            for sent in (
                b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * (LIMITS.head_bytes + 1),
                b"\x16\x03\x01\x02\x00\x01\r\n\r\n",  # a TLS handshake
                b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: xchunked\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            ):
                reader, writer = await site.connect()
                writer.write(sent)
                found = await closed(reader)
                assert found == b"" or found.split()[1] in (b"400", b"501"), (sent, found)
                writer.close()
            assert site.failed == []

    run(work)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * LIMITS.head_bytes,
        b"GET / HTTP/1.1\r\nHost: localhost" + (b"\r\nA: " + b"x" * 1000) * 80,
        b"GET /?" + b"x" * LIMITS.head_bytes + b" HTTP/1.1\r\nHost: localhost",
    ],
)
def test_a_large_head_is_refused_also_if_it_comes_at_once(head):
    async def work():
        async with Site() as site:
            reader, writer = await site.connect()
            await until(lambda: site.server._state.connections, "connection", 20, poll_s=0.002)
            (connection,) = site.server._state.connections
            connection.data_received(head + b"\r\n\r\n")
            assert (await closed(reader)).split()[1] == b"431"
            writer.close()
            assert site.failed == []

    run(work)


def test_https_and_a_renewed_certificate(tmp_path):
    for name in "ab":
        make_certificate(tmp_path, name, f"/CN={name}")
    for kind in ("pem", "key"):
        (tmp_path / f"now.{kind}").symlink_to(tmp_path / f"a.{kind}")

    async def work():
        site = Site()
        files = str(tmp_path / "now.pem"), str(tmp_path / "now.key")
        site.server = HttpServer(site.app, site.world, https_certificates(site.world, *files), LIMITS)

        async def serial():
            context = ssl.create_default_context(cafile=str(tmp_path / "a.pem"))
            context.load_verify_locations(str(tmp_path / "b.pem"))
            context.check_hostname = False
            reader, writer = await site.connect(ssl=context)
            writer.write(HEAD + b"1234567890")
            assert await reader.readuntil(b"https 10")
            found = writer.get_extra_info("peercert")["subject"][0][0][1]
            writer.close()
            return found

        def renew(name):
            for kind in ("pem", "key"):
                (tmp_path / f"new.{kind}").symlink_to(tmp_path / f"{name}.{kind}")
                os.replace(tmp_path / f"new.{kind}", tmp_path / f"now.{kind}")
                os.utime(tmp_path / f"{name}.{kind}", (hash(name) % 1000, hash(name) % 1000))

        async with site:
            assert await serial() == "a"
            renew("b")
            assert await serial() == "a"
            site.clock.advance(RECHECK_S)
            assert await serial() == "b"
            (tmp_path / "c.pem").write_text("nonsense")
            (tmp_path / "c.key").write_text("nonsense")
            renew("c")
            site.clock.advance(RECHECK_S)
            assert await serial() == "b", "the old one stays in use"
            reader, writer = await site.connect()
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert not (await closed(reader)).startswith(b"HTTP"), "nothing without TLS"
            writer.close()

    run(work)


def test_a_certificate_that_cannot_be_used_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="nothing"):
        https_certificates(real_world(), str(tmp_path / "nothing.pem"))
