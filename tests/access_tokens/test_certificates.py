"""Users with a TLS certificate instead of an access key: rules about its subject, at a broker with TLS."""

import json
import shutil
from pathlib import Path

import pytest
import token_authorizer
from certificates import make_certificate

from gantrymq.client import Client, ClientError, Credentials, Message, NoPermission, TlsClient
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

pytest.importorskip("cryptography", reason="the name server of the cluster makes its own certificate")
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")

TOKENS = Path("/tokens.json")
SUBJECTS = {  # as given to openssl
    "orders": "/C=DE/O=Shop/CN=orders",
    "billing": "/O=Shop/CN=billing",
    "comma": "/O=Shop, of =the\\+ harbour/CN=comma",
    "forged": "/O=Elsewhere/CN=orders,O=Shop,C=DE",
    "longer": "/C=DE/O=Shop/CN=orders/CN=orders",
    "deeper": "/DC=example/C=DE/O=Shop/CN=orders",
    "shorter": "/O=Shop/CN=orders",
    "joined": "/O=Shop+CN=ops",
    "spaced": "/C=DE/O=Shop/CN=orders ",
    "nameless": "/",
}
USERS = {
    "ops": {"secret": "ops-secret", "allow": ["* Topic:*", "* Group:*", "* Cluster:*"]},
    "orders": {"certificate": "CN=orders,O=Shop,C=DE", "allow": ["Pub Topic:Orders"]},
    "billing": {
        "certificate": "CN=billing,O=Shop",
        "allow": ["Sub Topic:Orders", "Get Topic:Orders", "Sub Group:billing"],
    },
    "comma": {"certificate": r"CN=comma,O=Shop\, of \=the\+ harbour", "allow": ["Pub Topic:Orders"]},
    "till": {"certificate": "CN=ops,O=Shop", "allow": ["Pub Topic:Orders"]},
    "no_certificate": {"certificate": "", "allow": ["Pub Topic:Orders"]},
}
OPS = Credentials("ops", "ops-secret")
NOBODY = "username cannot be null"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A folder with certificates of one authority, and one of a stranger who chose the subject of another."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificate(folder, "authority")
    make_certificate(folder, "stranger", SUBJECTS["orders"])
    for name, subject in {"server": "/CN=server", **SUBJECTS}.items():
        make_certificate(folder, name, subject, "authority")
    return folder


@pytest.fixture
def run(certificates):
    """``run(main)`` runs ``await main(cluster, client_of)``; ``client_of(name)`` has the certificate of that name."""

    def run(main, **more):
        settings = {
            "authorizer": "token_file",
            "tokenFile": str(TOKENS),
            "store": "memory",
            "tls.server.certPath": str(certificates / "server.pem"),
            "tls.server.keyPath": str(certificates / "server.key"),
            "tls.server.need.client.auth": "optional",
            "tls.server.authClient": True,
            "tls.server.trustCertPath": str(certificates / "authority.pem"),
            **more,
        }

        async def with_cluster(world):
            write(world, USERS)
            cluster = Cluster(world, Path("/gantrymq"), settings, [("token_authorizer", token_authorizer)])

            def client_of(name, **options):
                files = (str(certificates / f"{name}.pem"), str(certificates / f"{name}.key")) if name else ("", "")
                tls = TlsClient(cert_path=files[0], key_path=files[1])
                return Client(cluster.namesrv, world=world, tls=tls, **options)

            try:
                await cluster.start()
                async with client_of("", credentials=OPS) as ops:
                    for topic in ("Orders", "Bills"):
                        await ops.admin.create_topic(cluster.broker_address, TopicConfig(topic, 1, 1))
                await main(cluster, client_of)
            finally:
                await cluster.stop()
                await world.workers.close()

        simulate(1, with_cluster)

    return run


def write(world, users):
    world.files.replace(TOKENS, json.dumps({"users": users}).encode())


async def send(client, topic="Orders"):
    return await client.producer("PG").send(Message(topic, b"one"))


def test_clients_do_what_the_users_of_their_certificates_may(run):
    async def main(cluster, client_of):
        async with client_of("orders") as orders, client_of("billing") as billing:
            assert (await send(orders)).ok
            with pytest.raises(NoPermission, match="orders has no permission to access Topic:Bills: Pub"):
                await send(orders, "Bills")
            with pytest.raises(NoPermission, match="billing has no permission to access Topic:Orders: Pub"):
                await send(billing)
            async with billing.consumer("billing", "Orders", consume_from="first") as consumer:
                async for message in consumer:
                    assert message.body == b"one"
                    break
            with pytest.raises(NoPermission, match="orders has no permission to access Group:billing: Sub"):
                async for _ in orders.consumer("billing", "Orders", consume_from="first"):
                    pass

    run(main)


def test_a_subject_has_its_special_characters_escaped(run):
    async def main(cluster, client_of):
        async with client_of("comma") as client:
            assert (await send(client)).ok

    run(main)


@pytest.mark.parametrize(
    "name", ["forged", "longer", "deeper", "shorter", "joined", "spaced", "nameless", "server", ""]
)
def test_other_subjects_are_nobody(run, name):
    async def main(cluster, client_of):
        async with client_of(name) as client:
            with pytest.raises(NoPermission, match=NOBODY):
                await send(client)
        async with Client(cluster.namesrv, world=cluster.world) as plain:
            with pytest.raises(NoPermission, match=NOBODY):
                await send(plain)

    run(main)


def test_a_certificate_of_another_authority_does_not_connect(run, caplog):
    async def main(cluster, client_of):
        async with client_of("stranger") as client:
            with pytest.raises(ClientError) as refused:
                await send(client)
            assert not isinstance(refused.value, NoPermission)
        assert "the TLS handshake failed" in caplog.text
        async with client_of("orders") as client:
            assert (await send(client)).ok

    run(main)


def test_a_certificate_that_is_not_verified_counts_for_nothing(run):
    async def main(cluster, client_of):
        for name in ("orders", "stranger"):
            async with client_of(name) as client:
                with pytest.raises(NoPermission, match=NOBODY):
                    await send(client)

    run(main, **{"tls.server.authClient": False})


def test_an_access_key_goes_before_the_certificate(run):
    async def main(cluster, client_of):
        async with client_of("orders", credentials=OPS) as client:
            assert (await send(client, "Bills")).ok
        for wrong, sentence in (
            (Credentials("nobody", "secret"), "there is no user nobody"),
            (Credentials("ops", "wrong"), "the signature of user ops is wrong"),
            (Credentials("orders", "secret"), "there is no user orders with a secret key"),
        ):
            async with client_of("orders", credentials=wrong) as client:
                with pytest.raises(NoPermission, match=sentence):
                    await send(client)

    run(main)


def test_rules_of_certificates_change_while_clients_are_connected(run):
    async def main(cluster, client_of):
        async with client_of("orders") as orders, client_of("billing") as billing:
            assert (await send(orders)).ok
            write(cluster.world, {**USERS, "orders": {**USERS["orders"], "certificate": "CN=billing,O=Shop"}})
            await cluster.world.clock.sleep(3)
            with pytest.raises(NoPermission, match=NOBODY):
                await send(orders)
            assert (await send(billing)).ok  # the first user with a certificate counts
            write(cluster.world, USERS)
            await cluster.world.clock.sleep(3)
            assert (await send(orders)).ok
            with pytest.raises(NoPermission, match="billing has no permission to access Topic:Orders: Pub"):
                await send(billing)

    run(main)
