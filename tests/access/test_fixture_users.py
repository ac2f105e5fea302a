"""Users of gantrymq-testing's fixtures, and clients of other packages with their accounts."""

import asyncio

import pytest

from gantrymq.client import Client, Message, NoPermission
from gantrymq.errors import ConfigError

pytest.importorskip("gantrymq_storage_memory")
pytest.importorskip("gantrymq_filter_tag")

USERS = {
    "root": "Super",
    "shop": ["Pub Topic:Orders"],
    "billing": ["Sub,Get Topic:Orders", "Sub,Get Group:billing"],
    "guest": [],
}


@pytest.mark.gantrymq(settings={"store": "memory"}, users=USERS)
def test_the_broker_controls_access_and_its_own_methods_work(gantrymq_broker):
    gantrymq_broker.create_topic("Orders", 1)
    gantrymq_broker.send("Orders", b"one")
    assert [each.body for each in gantrymq_broker.pull("Orders")] == [b"one"]

    async def send(user):
        credentials = None if user is None else gantrymq_broker.credentials(user)
        async with Client(gantrymq_broker.namesrv, credentials=credentials) as client:
            return await client.producer("P").send(Message("Orders", b"two"))

    assert asyncio.run(send("shop")).ok
    for user in ("billing", "guest", None):
        with pytest.raises(NoPermission):
            asyncio.run(send(user))
    with pytest.raises(KeyError, match="without user nobody"):
        gantrymq_broker.credentials("nobody")


def test_users_in_a_simulation(gantrymq_simulation):
    async def work(cluster):
        await cluster.create_topic("Orders", 1)
        async with Client(cluster.namesrv, world=cluster.world, credentials=cluster.credentials("shop")) as client:
            await client.producer("P").send(Message("Orders", b"one"))
        async with Client(cluster.namesrv, world=cluster.world, credentials=cluster.credentials("billing")) as client:
            async for message in client.consumer("billing", "Orders", consume_from="first"):
                assert message.body == b"one"
                break

    gantrymq_simulation(work, settings={"store": "memory"}, users=USERS)


@pytest.mark.gantrymq(settings={"store": "mmap"}, users=USERS)
def test_users_survive_a_restart(gantrymq_broker):
    pytest.importorskip("gantrymq_storage_mmap")
    gantrymq_broker.create_topic("Orders", 1)
    gantrymq_broker.restart()
    assert gantrymq_broker.send("Orders", b"one").ok


@pytest.mark.parametrize(
    ("users", "sentence"),
    [
        ({"shop": "Superb"}, "user shop is 'Superb'; expected 'Super', or a list of rights"),
        ({"shop": ["Pub"]}, "user shop has the right 'Pub'; expected actions and a resource"),
        ({"shop": ["Write Topic:Orders"]}, "'Write' is none of All, Pub"),
    ],
)
def test_a_wrong_right_is_refused_with_a_sentence(gantrymq_broker_factory, users, sentence):
    with pytest.raises(Exception, match=sentence) as caught:
        gantrymq_broker_factory({"store": "memory"}, users=users)
    assert isinstance(caught.value, ConfigError) or "Write" in sentence


@pytest.mark.gantrymq(settings={"store": "memory"}, users=USERS)
def test_faststream_signs_with_the_account_of_its_security(gantrymq_broker):
    faststream = pytest.importorskip("gantrymq_faststream")
    from faststream.security import SASLPlaintext

    gantrymq_broker.create_topic("Orders", 1)

    def broker_of(user):
        account = gantrymq_broker.credentials(user)
        security = SASLPlaintext(account.access_key, account.secret_key)
        return faststream.GantryBroker(gantrymq_broker.namesrv, security=security)

    async def work():
        async with broker_of("shop") as shop:
            assert (await shop.publish("one", "Orders")).ok
        async with broker_of("guest") as guest:
            with pytest.raises(NoPermission):
                await guest.publish("two", "Orders")

    asyncio.run(work())


@pytest.mark.gantrymq(settings={"store": "memory"}, users=USERS)
def test_spark_reads_and_writes_with_the_account_of_its_options(gantrymq_broker):
    """The driver's side of the source, which plans ranges with the same client as tasks."""
    session = pytest.importorskip("gantrymq_spark.live.session")
    from gantrymq_spark.live.options import read_options

    gantrymq_broker.create_topic("Orders", 1)

    async def ends(user):
        account = gantrymq_broker.credentials(user)
        given = {"namesrv": gantrymq_broker.namesrv, "subscribe": "Orders", "groupId": "billing"}
        given |= {"accessKey": account.access_key, "secretKey": account.secret_key}
        options = read_options(given, streaming=False, environ={})
        async with session.query_reader(options, gantrymq_broker.cluster.world) as reader:
            return [await reader.max_offset(queue) for queue in await reader.queues("Orders")]

    assert gantrymq_broker.run(ends("billing")) == [0]
    with pytest.raises(NoPermission):
        gantrymq_broker.run(ends("guest"))
