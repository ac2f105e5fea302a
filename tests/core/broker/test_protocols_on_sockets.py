"""A listener with a protocol of a plugin on real sockets: plain bytes, TLS and PROXY headers at one port."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from contextlib import asynccontextmanager

import attrs
import line_echo
import pytest
from broker_desk import settings_for
from certificates import make_certificate

from gantrymq.broker import BrokerServer
from gantrymq.model.hosts import parse_address
from gantrymq.plugins import load_plugins
from gantrymq.remoting import certificates as certificate_files
from gantrymq.world.real import real_world

HOST = "127.0.0.1"
PROXY = b"PROXY TCP4 192.0.2.7 127.0.0.1 5555 80\r\n"


@pytest.fixture(scope="module", name="folder")
def folder_with_certificates(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("the tests of TLS need the openssl command")
    folder = tmp_path_factory.mktemp("certificates")
    make_certificate(folder, "authority")
    for name in ("server", "client", "renewed"):
        make_certificate(folder, name, authority="authority")
    return folder


@asynccontextmanager
async def running(plugins, tmp_path, folder, protocol="echo", **values):
    """A broker with the listener ``sdk``; the address of that, and the plugin's object."""
    line_echo.made.clear()
    loaded = load_plugins(extra=[("echo", line_echo)], installed=False)
    plugins = attrs.evolve(plugins, protocols=loaded.protocols)
    settings = settings_for(
        plugins,
        **{
            "bindAddress": HOST,
            "listenPort": 0,
            "listeners": f"sdk={protocol}://{HOST}:0",
            "storePathRootDir": str(tmp_path / "store"),
            "tls.server.certPath": str(folder / "server.pem"),
            "tls.server.keyPath": str(folder / "server.key"),
            "tls.server.need.client.auth": "optional",
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": str(folder / "authority.pem"),
            **values,
        },
    )
    world = real_world()
    broker = BrokerServer(world, settings, plugins)
    await broker.start()
    try:
        host, _, port = broker.identity.listeners["sdk"].rpartition(":")
        yield (host, int(port)), line_echo.made[-1]
    finally:
        await broker.stop()
        await world.workers.close()


def tls_client(folder, *alpn, certificate=""):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(folder / "authority.pem")
    if alpn:
        context.set_alpn_protocols(alpn)
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.pem", folder / f"{certificate}.key")
    return context


async def echoed(address, *, before=b"", tls=None):
    """Send *before*, a line inside TLS if any, and read it again. Return what TLS knows of the server."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(before)
    if tls is not None:
        await writer.start_tls(tls)
    writer.write(b"ECHO x\n")
    assert await reader.readline() == b"ECHO x\n"
    found = writer.get_extra_info("ssl_object")
    writer.close()
    return found


def run_in(loop, main):
    """Run *main* in a loop of asyncio, or of uvloop, which servers use if it is installed."""
    make = asyncio.new_event_loop if loop == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_plain_bytes_tls_and_proxy_headers_share_a_port(plugins, tmp_path, folder, loop):
    async def main():
        async with running(plugins, tmp_path, folder) as (address, echo):
            assert await echoed(address) is None
            await echoed(address, before=PROXY)
            found = await echoed(address, tls=tls_client(folder, "h2", "echo/1", certificate="client"))
            assert found.selected_alpn_protocol() == "echo/1"
            found = await echoed(address, before=PROXY, tls=tls_client(folder))
            assert found.selected_alpn_protocol() is None
            return [(each.peer == ("192.0.2.7", 5555), *each[2:]) for each in echo.accepted]

    assert run_in(loop, main) == [
        (False, "sdk", False, ""),
        (True, "sdk", False, ""),
        (False, "sdk", True, "CN=client"),
        (True, "sdk", True, ""),
    ]


def test_a_renewed_certificate_is_used_without_a_restart(plugins, tmp_path, folder, monkeypatch):
    monkeypatch.setattr(certificate_files, "RECHECK_S", 0.0)
    for kind in ("pem", "key"):
        shutil.copy(folder / f"server.{kind}", tmp_path / f"own.{kind}")
    own = {"tls.server.certPath": str(tmp_path / "own.pem"), "tls.server.keyPath": str(tmp_path / "own.key")}

    async def subject(address):
        found = await echoed(address, tls=tls_client(folder))
        return dict(pair for part in found.getpeercert()["subject"] for pair in part)["commonName"]

    async def main():
        async with running(plugins, tmp_path, folder, **own) as (address, _):
            before = await subject(address)
            for kind in ("pem", "key"):
                shutil.copy(folder / f"renewed.{kind}", tmp_path / f"own.{kind}")
            return before, await subject(address)

    assert asyncio.run(main()) == ("server", "renewed")


def test_a_listener_that_requires_tls_closes_others(plugins, tmp_path, folder, caplog):
    async def main():
        async with running(plugins, tmp_path, folder, protocol="echo+tls") as (address, echo):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"ECHO x\n")
            assert await reader.read() == b""
            writer.close()
            await echoed(address, tls=tls_client(folder))
            assert len(echo.accepted) == 1

    asyncio.run(main())
    assert "connects without TLS, and listener sdk has the protocol echo+tls; let it use TLS" in caplog.text


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_clients_that_connect_before_requests_are_served_wait(plugins, tmp_path, folder, loop):
    class Early:
        name = "early"

        async def start(self, broker):
            host, port = parse_address(broker.settings.text("listeners").rpartition("/")[2])
            self.line = asyncio.ensure_future(echoed((host, port)))
            for _ in range(50):  # turns of the loop in which the client connects and writes
                await asyncio.sleep(0)
            assert line_echo.made[-1].accepted == []

        async def stop(self):
            pass

    async def main():
        with socket.create_server((HOST, 0)) as taken:
            port = taken.getsockname()[1]
        early = Early()
        own = {"listeners": f"sdk=echo://{HOST}:{port}"}
        async with running(attrs.evolve(plugins, services=(early,)), tmp_path, folder, **own) as (_, echo):
            await early.line
            assert len(echo.accepted) == 1

    run_in(loop, main)


def test_large_data_flows_both_ways_in_tls(plugins, tmp_path, folder):
    async def main():
        async with running(plugins, tmp_path, folder) as (address, _):
            reader, writer = await asyncio.open_connection(*address, ssl=tls_client(folder), limit=1 << 24)
            line = b"ECHO " + b"x" * 4_000_000 + b"\n"
            writer.write(line)
            assert await reader.readline() == line
            writer.close()

    asyncio.run(main())
