"""Common behaviour of all clients: event loops, waiting for servers, closing while servers hang."""

import asyncio
import gc

import pytest

from gantrymq.client import Client, Producer
from gantrymq.client.message import Message
from gantrymq.errors import CallTimeout, ClientError
from gantrymq.remoting.codes import RequestCode

NOBODY = "127.0.0.1:1"
SEND, PULL, LEAVE = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, RequestCode.UNREGISTER_CLIENT
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
MESSAGE = Message("T", b"hello")


async def started(client):
    await client.start()
    client.producer("P")


@pytest.mark.parametrize("use", [Client.start, Client.close, lambda client: running(client.reader)])
def test_a_client_of_another_event_loop_says_so(use):
    client = Client(NOBODY)
    asyncio.run(started(client))
    with pytest.raises(ClientError, match="this Client was started in another event loop; each asyncio.run"):
        asyncio.run(running(use, client))
    left = [client]
    del client
    with pytest.warns(ResourceWarning, match="a Client was not closed"):
        dropped(left)


@pytest.mark.parametrize("use", [Producer.close, lambda producer: producer.send(MESSAGE)])
def test_a_producer_of_another_event_loop_says_so(use):
    client = Client(NOBODY)
    asyncio.run(started(client))
    producer = client._producers["P"][0]
    with pytest.raises(ClientError, match="this Producer was started in another event loop; each asyncio.run"):
        asyncio.run(running(use, producer))
    left = [client]
    del client, producer
    with pytest.warns(ResourceWarning, match="a Client was not closed"):
        dropped(left)


def test_an_instance_of_a_loop_that_is_over_is_not_shared():
    left = [Client(NOBODY, instance_name="shared", client_ip="127.0.0.1") for _ in range(3)]
    for client in left:  # each would find its group in use
        asyncio.run(started(client))
    del client
    with pytest.warns(ResourceWarning):
        dropped(left)


async def running(use, *given):
    made = use(*given)
    if asyncio.iscoroutine(made):
        await made


def dropped(left):
    left.clear()
    gc.collect()


def test_a_client_that_was_closed_is_silent(recwarn):
    async def work():
        async with Client(NOBODY) as client, client.producer("P"), client.reader(group="G"), client.admin:
            pass

    asyncio.run(work())
    gc.collect()
    assert not [each for each in recwarn if each.category is ResourceWarning]


@pytest.mark.parametrize("whole", [False, True], ids=["a producer", "the client that made it"])
@pytest.mark.parametrize(("timeout_s", "takes_s"), [(None, 3.0), (0.5, 0.5), (0.0, 0.0), (60.0, 3.0)])
def test_closing_waits_for_a_hung_broker_as_long_as_it_may(simulate, cluster, timeout_s, takes_s, whole):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client:
            producer = client.producer("P")
            await producer.send(MESSAGE)
            c.brokers["a"].answers[LEAVE] = None
            begun = world.clock.monotonic()
            await (client if whole else producer).close(timeout_s)
            assert not producer.is_started
            assert world.clock.monotonic() - begun == pytest.approx(takes_s, abs=0.2)
            assert len(c.brokers["a"].of(LEAVE)) == (1 if takes_s else 0)

    simulate(work)


@pytest.mark.parametrize(("timeout_s", "takes_s", "arrives"), [(None, 6.0, True), (1.0, 1.0, False)])
def test_sends_under_way_are_given_up_when_the_time_is_over(simulate, cluster, timeout_s, takes_s, arrives):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client:
            producer = client.producer("P")
            await producer.queues("T")
            broker = c.brokers["a"]
            stored, broker.answers[SEND], broker.answers[LEAVE] = broker.answers[SEND], None, None
            send = producer.send_async(MESSAGE, timeout_s=5.0)
            begun = world.clock.monotonic()
            closing = asyncio.ensure_future(producer.close(timeout_s))
            await world.clock.sleep(3.0 if arrives else 0.5)
            broker.answers[SEND] = stored
            if arrives:
                broker.connections[0].reply(broker.of(SEND)[0], stored(broker.of(SEND)[0]))
            await closing
            assert world.clock.monotonic() - begun == pytest.approx(takes_s, abs=0.2)
            assert send.cancelled() is not arrives
            assert not arrives or (await send).ok

    simulate(work)


def test_two_calls_of_close_are_one(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client:
            producer = client.producer("P")
            await producer.send(MESSAGE)
            await asyncio.gather(producer.close(), producer.close())
            assert len(c.brokers["a"].of(LEAVE)) == 1

    simulate(work)


@pytest.mark.parametrize("topic", [None, "T"])
def test_waiting_until_a_name_server_answers(simulate, cluster, topic):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await c.ns.stop()
            waiting = asyncio.ensure_future(producer.wait_ready(topic))
            await world.clock.sleep(5)
            assert not waiting.done()
            await c.ns.start()
            await waiting
            assert (await producer.send(MESSAGE)).ok

    simulate(work)


def test_waiting_for_a_topic_ends_with_what_is_missing(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            await consumer.wait_ready()
            begun = world.clock.monotonic()
            with pytest.raises(CallTimeout, match="not ready after 2 s: no name server knows topic Later"):
                await consumer.wait_ready("Later", timeout_s=2.0)
            assert world.clock.monotonic() - begun == pytest.approx(2.0, abs=0.1)
            c.topics.add("Later")
            await consumer.wait_ready("Later")

    simulate(work)


def test_a_client_that_is_not_started_is_not_ready():
    async def work():
        with pytest.raises(ClientError, match="is not started"):
            await Client(NOBODY).wait_ready()

    asyncio.run(work())
