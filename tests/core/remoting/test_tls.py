"""Server and client with TLS over loopback sockets: modes, certificates, slow readers, large bodies, broken hellos."""

import asyncio
import functools
import logging
import ssl

import pytest

from gantrymq.config import Settings
from gantrymq.errors import ConfigError, ConnectFailed, ConnectionLost
from gantrymq.remoting import admission as admissions
from gantrymq.remoting.admission import ADMISSION_SETTINGS, admission_of
from gantrymq.remoting.certificates import self_signed_available
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import FLAG_ONEWAY
from gantrymq.remoting.command import Command, encode, request
from gantrymq.remoting.limits import Limits
from gantrymq.remoting.server import RemotingServer
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.world.real import RealFiles, real_world

LIMIT_S = 20
ASKING = b"\0\0\0\x04\x01\0\0\0\0\0\0\x03\x01\x05\0\0\0\x01\x82\x84\x86"  # SETTINGS acknowledged; GET / on stream 1


ODD = r"UID=7,CN=orders\, of \=the\+ shop,O=Shop,C=DE"  # RFC 4514: the last part first, special characters escaped


def in_loop(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), LIMIT_S))

    return run


def echo(connection, command):
    connection.reply(command, Command(0, ext={"code": str(command.code)}, body=command.body))


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what it waits for sets no event
        await asyncio.sleep(0)


def admission(certificates, **given):
    values = {"certPath": certificates.server, "keyPath": certificates.key(certificates.server), **given}
    return admission_of(
        Settings(ADMISSION_SETTINGS, {f"tls.server.{key}": value for key, value in values.items()}),
        real_world().clock,
        RealFiles(),
    )


@pytest.fixture
def serve(world, recorder):
    """Start a server with these *admission* limits; return its address and handler."""

    async def start(admission, limits=None, answer=echo):
        handler = recorder(answer)
        server = RemotingServer(world, handler, admission=admission, limits=limits, name="test")
        address = "{}:{}".format(*await server.start("127.0.0.1", 0))
        handler.server, handler.address = server, address
        return handler

    return start


@pytest.fixture
def call(world):
    """One call of a new client."""

    async def ask(address, tls=None, body=b"hello"):
        client = RemotingClient(world, tls=tls)
        try:
            return await client.call(address, request(10, body=body), 10.0)
        finally:
            await client.close()

    return ask


@pytest.mark.parametrize(
    ("mode", "plain", "tls"),
    [("disabled", True, False), ("permissive", True, True), ("enforcing", False, True)],
)
@in_loop
async def test_modes(certificates, serve, call, caplog, mode, plain, tls):
    handler = await serve(admission(certificates, mode=mode))
    for served, how in ((plain, None), (tls, TlsClient())):
        caplog.clear()
        if served:
            assert (await call(handler.address, how)).body == b"hello"
            assert caplog.messages == []
            continue
        with pytest.raises((ConnectFailed, ConnectionLost)):
            await call(handler.address, how)
        (line,) = caplog.messages
        assert f"tls.server.mode={mode}" in line
    await handler.server.stop()


@in_loop
async def test_large_bodies_and_requests_both_ways(certificates, serve, world, recorder):
    def ask_back(connection, command):
        async def ask():
            told = await connection.call(request(221, body=command.body), 10.0)
            connection.reply(command, Command(0, body=told.body))

        connection.notes["task"] = asyncio.get_running_loop().create_task(ask())

    handler = await serve(admission(certificates, mode="enforcing"), answer=ask_back)
    client = RemotingClient(world, handler=recorder(echo), tls=TlsClient())
    body = bytes(range(256)) * 60_000
    assert (await client.call(handler.address, request(10, body=body), 10.0)).body == body
    answers = await asyncio.gather(*[client.call(handler.address, request(10, body=bytes(n)), 10.0) for n in range(50)])
    assert [len(answer.payload) for answer in answers] == list(range(50))
    assert len(handler.server.connections) == 1
    assert handler.server.unfinished_bytes == 0
    await client.close()
    await handler.server.stop()


@in_loop
async def test_a_client_that_verifies_refuses_a_stranger(certificates, serve, call):
    handler = await serve(admission(certificates))
    trusting = TlsClient(auth_server=True, trust_cert_path=certificates.authority)
    assert (await call(handler.address, trusting)).code == 0
    other = TlsClient(auth_server=True, trust_cert_path=certificates.stranger)
    with pytest.raises(ConnectFailed, match="the peer's certificate does not hold: "):
        await call(handler.address, other)
    await handler.server.stop()


@pytest.mark.parametrize(
    ("need", "shown", "served"),
    [
        ("require", "client", True),
        ("require", "stranger", False),
        ("require", "", False),
        ("optional", "client", True),
        ("optional", "", True),
        ("optional", "stranger", False),
        ("none", "stranger", True),
    ],
)
@in_loop
async def test_certificates_of_clients(certificates, serve, call, caplog, need, shown, served):
    settings = {"need.client.auth": need, "authClient": True, "trustCertPath": certificates.authority}
    handler = await serve(admission(certificates, **settings))
    chain = getattr(certificates, shown, "")
    tls = TlsClient(cert_path=chain, key_path=certificates.key(chain) if chain else "")
    if served:
        assert (await call(handler.address, tls)).code == 0
        assert caplog.messages == []
    else:
        with pytest.raises((ConnectFailed, ConnectionLost)):
            await call(handler.address, tls)
        ours = [line for line in caplog.messages if "the TLS handshake failed" in line]
        assert len(ours) == 1
        assert handler.batches == []
    await handler.server.stop()


@pytest.mark.parametrize(
    ("need", "shown", "subject"),
    [
        ("require", "client", "CN=client"),
        ("optional", "", ""),
        ("none", "client", ""),
        ("optional", "odd", ODD),
        ("optional", "multiple", "L=A+ST=B,CN=ops+O=Shop,DC=shop"),
        ("optional", "spaces", r"L=\ ,CN=\ orders \ ,OU=\ x,O=\#Shop"),
    ],
)
@in_loop
async def test_a_connection_knows_the_verified_subject_of_its_client(certificates, serve, call, need, shown, subject):
    def tell(connection, command):
        connection.reply(command, Command(0, remark=connection.certificate))

    settings = {"need.client.auth": need, "authClient": True, "trustCertPath": certificates.authority}
    handler = await serve(admission(certificates, **settings), answer=tell)
    chain = getattr(certificates, shown, "")
    tls = TlsClient(cert_path=chain, key_path=certificates.key(chain) if chain else "")
    assert ((await call(handler.address, tls)).remark or "") == subject
    await handler.server.stop()


@pytest.mark.parametrize("tls", [None, TlsClient()], ids=["plain", "TLS"])
@in_loop
async def test_a_connection_knows_whether_it_is_encrypted(certificates, serve, call, tls):
    def tell(connection, command):
        connection.reply(command, Command(0, remark=str(connection.encrypted)))

    handler = await serve(admission(certificates), answer=tell)
    assert (await call(handler.address, tls)).remark == str(tls is not None)
    await handler.server.stop()


@in_loop
async def test_a_key_with_a_password(certificates, serve, call):
    handler = await serve(admission(certificates, keyPath=certificates.secret_key, keyPassword="open sesame"))
    assert (await call(handler.address, TlsClient())).code == 0
    await handler.server.stop()


@in_loop
async def test_half_a_hello_is_given_up_in_time(certificates, serve, world, clock, caplog):
    handler = await serve(admission(certificates), Limits(handshake_timeout_s=10))
    reader, writer = await asyncio.open_connection(*handler.server.address)
    writer.write(b"\x16\x03\x01\x02\x00\x01")
    await until(lambda: any(timer.due == clock.now + 10 and not timer.cancelled for timer in clock.timers))
    clock.advance(9.5)
    assert len(handler.server.connections) == 1
    clock.advance(1)
    assert await reader.read() == b""
    writer.close()
    await handler.server.stop()
    (line,) = caplog.messages
    assert "no TLS handshake within 10 s" in line


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x16\x03\x01\x00\x05nonsense, and more of it", "the TLS handshake failed: "),
        (b"\x16\x03\x01\x02\x00\x01", "the peer closed the connection during the TLS handshake"),
    ],
)
@in_loop
async def test_broken_hellos_are_one_line_each(certificates, serve, caplog, data, words):
    handler = await serve(admission(certificates))
    reader, writer = await asyncio.open_connection(*handler.server.address)
    writer.write(data)
    writer.write_eof()
    await reader.read()
    writer.close()
    await until(lambda: caplog.messages and not handler.server.connections)
    (record,) = caplog.records
    assert (record.levelno, words in record.message) == (logging.WARNING, True)
    await handler.server.stop()


@in_loop
async def test_a_proxy_header_comes_before_the_hello(certificates, serve):
    handler = await serve(admission(certificates))
    host, port = handler.server.address
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"PROXY TCP4 10.1.2.3 10.0.0.1 5555 80\r\n")
    context = TlsClient().context()
    await writer.start_tls(context)
    writer.write(encode(request(10)))
    assert await reader.readexactly(8)
    assert handler.connections[0].peer == ("10.1.2.3", 5555)
    writer.close()
    await handler.server.stop()


@pytest.mark.parametrize(
    ("data", "answer", "words"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 Bad Request\r\n", "the peer speaks HTTP; this port"),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + ASKING,
            b"\0\0\0\x04\0\0\0\0\0\0",
            "gRPC clients need a listener of a broker for gRPC",
        ),
    ],
)
@in_loop
async def test_another_protocol_inside_tls_is_told_what_speaks_here(certificates, serve, caplog, data, answer, words):
    handler = await serve(admission(certificates, mode="enforcing"))
    reader, writer = await asyncio.open_connection(*handler.server.address, ssl=TlsClient().context())
    for byte in data:  # each in its own record
        writer.write(bytes([byte]))
        await writer.drain()
    assert (await reader.read()).startswith(answer)
    writer.close()
    await handler.server.stop()
    (record,) = caplog.records
    assert (record.levelno, words in record.message, handler.batches) == (logging.WARNING, True, [])


@in_loop
async def test_frames_inside_tls_may_come_byte_by_byte(certificates, serve):
    handler = await serve(admission(certificates, mode="enforcing"))
    reader, writer = await asyncio.open_connection(*handler.server.address, ssl=TlsClient().context())
    for byte in encode(request(10)):
        writer.write(bytes([byte]))
    assert await reader.readexactly(8)
    assert len(handler.seen) == 1
    writer.close()
    await handler.server.stop()


@pytest.mark.parametrize("tls", [None, TlsClient()], ids=["plain", "tls"])
@in_loop
async def test_what_a_client_sent_before_it_closed_is_served(certificates, serve, tls):
    handler = await serve(admission(certificates))
    context = None if tls is None else tls.context()
    _, writer = await asyncio.open_connection(*handler.server.address, ssl=context)
    writer.write(b"".join(encode(Command(310, opaque=n, flag=FLAG_ONEWAY, body=bytes(100))) for n in range(3000)))
    writer.close()
    await writer.wait_closed()
    await until(lambda: not handler.server.connections)
    assert [command.opaque for command in handler.seen] == list(range(3000))
    await handler.server.stop()


@in_loop
async def test_a_slow_reader_stops_only_its_own_reading(certificates, serve, call):
    limits = Limits(pause_reading_bytes=100_000, max_unwritten_bytes=50_000_000)
    handler = await serve(admission(certificates), limits)
    host, port = handler.server.address
    reader, writer = await asyncio.open_connection(host, port, ssl=TlsClient().context(), limit=1000)
    count, body = 40, bytes(500_000)

    async def ask():
        for _ in range(count):
            writer.write(encode(request(10, body=body)))
            await writer.drain()

    asking = asyncio.create_task(ask())
    await until(lambda: handler.connections and handler.connections[0].unwritten_bytes > 100_000)
    assert (await call(handler.address, TlsClient())).body == b"hello"
    assert handler.connections[0].unwritten_bytes < 20_000_000
    got = 0
    while got < count * len(body):
        data = await reader.read(1 << 20)
        assert data
        got += len(data)
    await asking
    writer.close()
    await handler.server.stop()


@in_loop
async def test_who_reads_nothing_is_closed_at_the_limit(certificates, serve, caplog):
    limits = Limits(pause_reading_bytes=10_000, max_unwritten_bytes=3_000_000)
    flood = Command(0, body=bytes(4_000_000))
    handler = await serve(admission(certificates), limits, answer=lambda c, command: c.reply(command, flood))
    _, writer = await asyncio.open_connection(*handler.server.address, ssl=TlsClient().context())
    writer.write(encode(request(10)))
    await until(lambda: caplog.messages and not handler.server.connections)
    assert "wait to be written, limit 3000000" in caplog.text
    writer.transport.abort()
    await handler.server.stop()


@in_loop
async def test_without_a_certificate_the_hello_is_refused_with_what_to_do(serve, call, caplog):
    settings = Settings(ADMISSION_SETTINGS, {"tls.test.mode.enable": False})
    handler = await serve(admission_of(settings, real_world().clock, RealFiles()))
    with pytest.raises(ConnectFailed, match="closed the connection during the TLS handshake"):
        await call(handler.address, TlsClient())
    (line,) = caplog.messages
    assert "set tls.server.certPath and tls.server.keyPath, or for tests install gantrymq[tls]" in line
    assert (await call(handler.address)).code == 0
    await handler.server.stop()


@pytest.mark.skipif(not self_signed_available(), reason="the extra gantrymq[tls] is not installed")
@in_loop
async def test_in_test_mode_the_server_signs_its_own(serve, call, world):
    handler = await serve(admission_of(Settings(ADMISSION_SETTINGS), real_world().clock, RealFiles()))
    assert (await call(handler.address, TlsClient())).code == 0
    pem = await asyncio.to_thread(ssl.get_server_certificate, handler.server.address)
    assert pem.startswith("-----BEGIN CERTIFICATE-----")
    await handler.server.stop()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"certPath": "/nowhere.pem"}, "tls.server.certPath=/nowhere.pem, tls.server.keyPath=.*: No such file"),
        ({"keyPath": "stranger"}, "no certificate with its key in PEM: key values mismatch"),
        ({"keyPath": "secret"}, "no certificate with its key in PEM: "),
        ({"certPath": ""}, "has no certificate: set tls.server.certPath"),
        ({"certPath": "", "keyPath": "", "mode": "enforcing"}, "enforcing, and this server has no certificate"),
        ({"need.client.auth": "require"}, "set tls.server.authClient=true"),
        ({"need.client.auth": "require", "authClient": True, "trustCertPath": "/nowhere.pem"}, "tls.server.trustCert"),
        ({"need.client.auth": "require", "authClient": True, "trustCertPath": "key"}, "no certificates in PEM"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(certificates, monkeypatch, given, words):
    monkeypatch.setattr(admissions, "self_signed_available", lambda: False)
    files = {
        "stranger": certificates.key(certificates.stranger),
        "secret": certificates.secret_key,
        "key": certificates.key(certificates.server),
    }
    with pytest.raises(ConfigError, match=words):
        admission(certificates, **{key: files.get(value, value) for key, value in given.items()})


def test_files_of_a_client_that_cannot_be_used(certificates, world):
    with pytest.raises(ConfigError, match=r"tls\.client\.certPath=/nowhere\.pem: No such file"):
        RemotingClient(world, tls=TlsClient(cert_path="/nowhere.pem"))
    with pytest.raises(ConfigError, match=r"has no certificate: set tls\.client\.certPath"):
        RemotingClient(world, tls=TlsClient(key_path=certificates.key(certificates.client)))
    assert "sesame" not in repr(TlsClient(key_password="sesame"))
