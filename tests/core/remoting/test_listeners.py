"""Named listeners: the setting, opening them, and what connections know of theirs."""

import asyncio

import pytest

from gantrymq.config import Settings
from gantrymq.errors import ConfigError, ConnectionLost
from gantrymq.remoting.admission import ADMISSION_SETTINGS, Admission, admission_of
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.listeners import (
    LISTENER_ACCESS_SETTING,
    LISTENERS_SETTING,
    NamedListener,
    addresses_of_text,
    listeners_of,
    optional_access,
    text_of_addresses,
)
from gantrymq.remoting.server import RemotingServer, open_listeners
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq_testing.simulated import simulate


class Names:
    """Answers with the name of the client's listener."""

    def requests(self, connection, commands):
        for command in commands:
            connection.reply(command, Command(0, body=connection.listener.encode()))


def listeners(text):
    return listeners_of(Settings([LISTENERS_SETTING], {"listeners": text}))


async def asked(world, address, **options):
    """The name of the listener at *address*; None if the connection is closed instead of an answer."""
    client = RemotingClient(world, **options)
    try:
        return (await client.call(address, request(100))).body.decode()
    except ConnectionLost:
        return None
    finally:
        await client.close()


def test_entries_have_name_protocol_and_address():
    assert listeners("a=remoting://10.0.0.1:0, b-2 = remoting+tls://[::]:10931 ,c=remoting://broker.example:1") == (
        NamedListener("a", False, "10.0.0.1", 0),
        NamedListener("b-2", True, "::", 10931),
        NamedListener("c", False, "broker.example", 1),
    )
    assert listeners("") == listeners(" , ") == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("remoting://h:1", "does not start with a name"),
        ("=remoting://h:1", "does not start with a name"),
        ("a b=remoting://h:1", "does not start with a name"),
        ("a=remoting://h:1,a=remoting://h:2", "a occurs twice"),
        ("default=remoting://h:1", "default is the name of the main listener"),
        ("a=grpc+tls://h:1", "a has the protocol grpc, and this server has only remoting, remoting+tls"),
        ("a=GRPC://h:1", "a=GRPC://h:1 does not begin with a protocol"),
        ("a=h:1", "a=h:1 does not begin with a protocol"),
        ("a=remoting://h", "'h' is not host:port"),
        ("a=remoting://:1", "':1' is not host:port"),
        ("a=remoting://h:65536", "'h:65536' is not host:port"),
    ],
)
def test_malformed_entries_are_refused_with_the_form(text, problem):
    with pytest.raises(ConfigError) as refused:
        listeners(text)
    assert str(refused.value).startswith("given in code: listeners: ")
    assert problem in str(refused.value)
    assert "; write NAME=PROTOCOL://HOST:PORT, several separated by commas" in str(refused.value)


def test_a_connection_knows_the_name_of_its_listener():
    async def main(world):
        server = RemotingServer(world, Names())
        await server.start("10.0.0.1", 10911)
        given = listeners("a=remoting://10.0.0.1:10921,b=remoting://10.0.0.2:0")
        opened = await open_listeners(server, given, Admission(), held=False)
        assert opened == {"a": ("10.0.0.1", 10921), "b": ("10.0.0.2", 40000)}
        found = [await asked(world, f"{host}:{port}") for host, port in [("10.0.0.1", 10911), *opened.values()]]
        await server.stop()
        return found

    assert simulate(1, main) == ["default", "a", "b"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "a=remoting://h:0,b=remoting://h:1",
            "listener b cannot listen on h:1: Address already in use; another process",
        ),
        (
            "a=remoting://h:0,b=remoting+tls://h:2",
            "listener b has the protocol remoting.tls, and this server has no cert",
        ),
    ],
)
def test_one_that_cannot_be_opened_closes_the_others(text, problem):
    async def main(world):
        other = await world.network.listen("h", 1, asyncio.Protocol)
        server = RemotingServer(world, Names())
        await server.start("h", 3)
        with pytest.raises(ConfigError, match=problem):
            await open_listeners(server, listeners(text), Admission(), held=False)
        await other.close()
        for port in (1, 2, 3, 40000):  # all are free again
            await (await world.network.listen("h", port, asyncio.Protocol)).close()

    simulate(1, main)


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
def test_a_tls_listener_refuses_plain_connections(certificates, mode, caplog):
    async def main(world):
        values = {
            "tls.server.mode": mode,
            "tls.server.certPath": certificates.server,
            "tls.server.keyPath": certificates.key(certificates.server),
        }
        admission = admission_of(Settings(ADMISSION_SETTINGS, values), world.clock, world.files)
        server = RemotingServer(world, Names(), admission=admission)
        await server.start("10.0.0.1", 10911)
        given = listeners("external=remoting+tls://10.0.0.1:10931,internal=remoting://10.0.0.1:10921")
        await open_listeners(server, given, admission, held=False)
        tls = {"tls": TlsClient(auth_server=True, trust_cert_path=certificates.authority)}
        ports = [10911, 10921, 10931]
        found = [[await asked(world, f"10.0.0.1:{port}", **options) for port in ports] for options in ({}, tls)]
        await server.stop()
        return found

    plain = ["default", "internal"] if mode == "permissive" else [None, None]
    assert simulate(1, main) == [[*plain, None], ["default", "internal", "external"]]
    assert "listener external has the protocol remoting+tls; let it use TLS" in caplog.text


def test_tls_cannot_be_required_where_it_is_disabled():
    with pytest.raises(ConfigError, match=r"listener a has the protocol remoting\+tls, and tls.server.mode=disabled"):
        Admission("disabled").requiring_tls("a")


def test_addresses_are_text_in_registrations():
    addresses = {"a": "broker.example:10911", "b": "[::1]:1"}
    assert addresses_of_text(text_of_addresses(addresses)) == addresses
    assert text_of_addresses({}) == ""
    assert addresses_of_text("") == {}
    for text in ("a", "a=", "a=host", "a=host:1,b"):
        with pytest.raises(ValueError, match="is not host:port"):
            addresses_of_text(text)


def optional(text):
    given = {"listeners": "a=remoting://127.0.0.1:0", "listenerAccess": text}
    return optional_access(Settings([LISTENERS_SETTING, LISTENER_ACCESS_SETTING], given))


def test_listeners_with_optional_accounts_are_named():
    assert optional("") == frozenset()
    assert optional("a=optional, default=required") == {"a"}
    assert optional("default=optional") == {"default"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("b=optional", "b is no listener; there is default, a"),
        ("a=maybe", "a=maybe is unknown"),
        ("a=optional,a=required", "a occurs twice"),
        ("optional", "optional does not start with a name"),
    ],
)
def test_listener_access_that_is_not_understood_is_refused(text, problem):
    with pytest.raises(ConfigError, match=f"listenerAccess: {problem}.*; write NAME=required or NAME=optional"):
        optional(text)
