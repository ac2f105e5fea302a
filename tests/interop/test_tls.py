"""TLS between official Java clients and our servers, and between our client and Java's servers."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checks import assert_same_messages, wait_for_bodies
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, Process
from harness.peers import used
from harness.tools import require

from gantrymq.client import Client
from gantrymq.client.message import Message

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a CA and certificates for a server and a client: ``<name>.pem``, ``<name>.key``."""
    require("openssl")
    folder = tmp_path_factory.mktemp("chains")
    signed = ("-CA", "authority.pem", "-CAkey", "authority.key")
    for name, more in (("authority", ()), ("server", signed), ("client", signed)):
        words = ("req", "-x509", *more, "-newkey", "rsa:2048", "-noenc", "-days", "2", "-subj", f"/CN={name}")
        files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
        subprocess.run(["openssl", *words, *files], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory, chains: Path) -> Iterator[GantryServer]:
    """Our name server and broker, for clients of TLS with a certificate of the authority only."""
    settings = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": f"{chains}/server.pem",
        "tls.server.keyPath": f"{chains}/server.key",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": f"{chains}/authority.pem",
        "tls.client.certPath": f"{chains}/client.pem",
        "tls.client.keyPath": f"{chains}/client.key",
    }
    with GantryServer.both(tmp_path_factory.mktemp("enforcing"), settings=settings) as server:
        yield server


@pytest.mark.parametrize("version", [pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def test_a_java_client_that_verifies_and_is_verified(
    enforcing: GantryServer, chains: Path, tmp_path: Path, topic: str, running: Running, version: str
) -> None:
    properties = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": f"{chains}/authority.pem",
        "tls.client.certPath": f"{chains}/client.pem",
        "tls.client.keyPath": f"{chains}/client.key",
    }
    driver = Driver(version, tmp_path, enforcing.namesrv, properties=properties)
    sent = [*driver.produce(topic, 20, tags="TagA"), *driver.produce(topic, 3, size=200_000)]
    assert_same_messages(sent, driver.pull(topic))
    consumer = running(driver.push(topic, f"{topic}-group"))
    assert_same_messages(sent, wait_for_bodies([consumer], sent))


def test_a_java_client_believes_the_certificate_that_we_sign_ourselves(tmp_path: Path, topic: str) -> None:
    """Both in their test mode; one port serves this client and one without TLS."""
    pytest.importorskip("cryptography")
    with GantryServer.both(tmp_path / "ours") as ours:
        secure = Driver("5.3.3", tmp_path / "secure", ours.namesrv, properties={"tls.enable": "true"})
        sent = secure.produce(topic, 10)
        assert_same_messages(sent, Driver("5.3.3", tmp_path / "plain", ours.namesrv).pull(topic))


def test_our_client_uses_tls_with_java_servers(tmp_path: Path, topic: str) -> None:
    """Java's default, permissive with a certificate it signs itself."""

    async def send_and_read(namesrv: str) -> list[bytes]:
        bodies = [b"x" * size for size in (1, 1_000, 100_000)]
        async with asyncio.timeout(DEADLINE_S):
            async with Client(namesrv, tls=True) as client, client.producer("p") as producer:
                for body in bodies:
                    await producer.send(Message(topic, body))
            async with Client(namesrv, tls=True) as client, client.reader(group="c") as consumer:
                found: list[bytes] = []
                for queue in await consumer.queues(topic):
                    first = await consumer.min_offset(queue)
                    if await consumer.max_offset(queue) > first:
                        found += [message.body for message in (await consumer.pull(queue, first)).messages]
        assert sorted(found) == bodies
        return found

    used("gantrymq.client")
    with (
        JavaNameServer("5.3.3", tmp_path / "namesrv", tls=True) as namesrv,
        JavaBroker("5.3.3", tmp_path / "broker", namesrv.address, keep=False, tls=True),
    ):
        assert asyncio.run(send_and_read(namesrv.address))
