"""Our client at Java clusters with access control: aclEnable of 4.9.7, users and their rights of 5.3.3."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import JavaBroker, JavaNameServer, gantrymq
from harness.peers import shared, used

from gantrymq.client import Client, Credentials, Message, NoPermission, TransactionState
from gantrymq.client.message import ReceivedMessage
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig

pytestmark = pytest.mark.interop

ACCOUNT = Credentials("gantry-user", "gantry-secret-1")
STRANGERS = {
    "a wrong secret": Credentials("gantry-user", "gantry-secret-2"),
    "an unknown account": Credentials("somebody", "somebody-secret"),
    "no account": None,
}
DEADLINE_S = 60.0
PLAIN_ACL = """globalWhiteRemoteAddresses:
accounts:
- accessKey: gantry-user
  secretKey: gantry-secret-1
  whiteRemoteAddress:
  admin: true
"""
_AUTH = "org.apache.rocketmq.auth."
GUARDS = {
    "4.9.7": {"aclEnable": "true"},
    "5.3.3": {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{_AUTH}authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{_AUTH}authentication.provider.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": json.dumps({"username": ACCOUNT.access_key, "password": ACCOUNT.secret_key}),
        "innerClientAuthenticationCredentials": json.dumps(
            {"accessKey": ACCOUNT.access_key, "secretKey": ACCOUNT.secret_key}
        ),
        "authorizationEnabled": "true",
        "authorizationProvider": f"{_AUTH}authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{_AUTH}authorization.provider.LocalAuthorizationMetadataProvider",
    },
}


@pytest.fixture(scope="module", params=GUARDS)
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the name server of a cluster with access control."""
    version, scratch = request.param, tmp_path_factory.mktemp("guarded")
    (scratch / "broker" / "conf").mkdir(parents=True)
    (scratch / "broker" / "conf" / "plain_acl.yml").write_text(PLAIN_ACL)
    settings = {**GUARDS[version], "authConfigPath": str(scratch / "broker" / "auth")}
    settings |= {"transactionCheckInterval": "1000", "transactionTimeOut": "3500"}
    with ExitStack() as stack:
        namesrv = stack.enter_context(JavaNameServer(version, scratch / "namesrv"))
        broker = stack.enter_context(
            JavaBroker(version, scratch / "broker", namesrv.address, settings=settings, keep=False)
        )
        shared(namesrv.alive, broker.alive)
        yield namesrv.address


@pytest.fixture
def known(guarded: str, request: pytest.FixtureRequest) -> Callable[[], Client]:
    used(f"RocketMQ broker {request.node.callspec.params['guarded']}")
    return lambda: Client(guarded, credentials=ACCOUNT)


async def made(client: Client, topic: str) -> str:
    """Create *topic* and return the broker's address."""
    (address,) = (await client.admin.clusters()).masters("DefaultCluster")
    await client.admin.create_topic(address, TopicConfig(topic, 4, 4))
    await client.wait_ready(topic)
    return address


def run(work: Callable[[], object]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await work()

    asyncio.run(limited())


def test_an_account_sends_and_consumes(known: Callable[[], Client], topic: str) -> None:
    async def work() -> None:
        async with known() as client:
            await made(client, topic)
            producer = client.producer("P")
            assert (await producer.send(Message(topic, b"waited", tags="A"))).ok
            await producer.send_oneway(Message(topic, b"oneway"))
            await producer.send_batch([Message(topic, b"batch"), Message(topic, b"x" * 9000)])
            seen = set()
            async for message in client.consumer("G" + topic, topic, orderly=True, consume_from="first"):
                seen.add(message.body[:6])
                if len(seen) == 4:
                    break
            assert seen == {b"waited", b"oneway", b"batch", b"xxxxxx"}

    run(work)


def test_an_account_administers_and_reads(known: Callable[[], Client], topic: str) -> None:
    async def work() -> None:
        async with known() as client:
            address = await made(client, topic)
            assert topic in await client.admin.topics()
            result = await client.producer("P").send(Message(topic, b"one"))
            async for message in client.reader(topic, follow=True):
                assert message.body == b"one"
                break
            assert (await client.admin.topic_stats(address, topic))[result.queue].max_offset == result.queue_offset + 1
            reader = client.reader(group="R" + topic)
            await reader.commit(result.queue, 1)
            assert await reader.committed(result.queue) == 1

    run(work)


def test_answers_about_transactions_are_signed(known: Callable[[], Client], topic: str) -> None:
    """Decisions are oneway: a broker that rejects one checks again, and the message is never delivered."""

    async def work() -> None:
        def check(message: ReceivedMessage) -> TransactionState:
            return TransactionState.COMMIT

        async with known() as client:
            await made(client, topic)
            producer = client.transaction_producer("T" + topic, check)
            async with producer.transaction(Message(topic, b"decided")):
                pass
            async with producer.transaction(Message(topic, b"asked for")) as transaction:
                transaction.state = TransactionState.UNKNOWN
            seen = set()
            async for message in client.consumer("G" + topic, topic, consume_from="first"):
                seen.add(message.body)
                if len(seen) == 2:
                    break
            assert seen == {b"decided", b"asked for"}

    run(work)


def test_commands_have_the_account_of_the_environment(
    known: Callable[[], Client], guarded: str, topic: str, tmp_path: Path
) -> None:
    account = {"GANTRYMQ_ACCESS_KEY": ACCOUNT.access_key, "GANTRYMQ_SECRET_KEY": ACCOUNT.secret_key}
    gantrymq(tmp_path, "topic", "create", "-t", topic, "-n", guarded, environ=account)
    send = ("message", "send", "-t", topic, "--body", "hello", "-n", guarded)
    assert gantrymq(tmp_path, *send, environ=account)
    with pytest.raises(RuntimeError, match="controls access and refused this client"):
        gantrymq(tmp_path, *send)


@pytest.mark.parametrize("who", STRANGERS)
def test_a_stranger_gets_one_sentence(known: Callable[[], Client], guarded: str, topic: str, who: str) -> None:
    remedy = "it has no account: set" if STRANGERS[who] is None else "check its credentials"

    async def work() -> None:
        async with known() as client:
            address = await made(client, topic)
        async with Client(guarded, credentials=STRANGERS[who]) as client:
            with pytest.raises(NoPermission, match=f"controls access and refused this client: .*; {remedy}"):
                await client.producer("P").send(Message(topic, b"one"))
            with pytest.raises(NoPermission, match=remedy):
                await client.reader().pull(MessageQueue(topic, "broker-a", 0), 0)
            with pytest.raises(NoPermission, match=remedy):
                await client.admin.create_topic(address, TopicConfig("Another", 1, 1))
            with pytest.raises(NoPermission, match=remedy):
                async for _ in client.consumer("G" + topic, topic):
                    pass

    run(work)
