"""Registration of a client on every new connection to a broker."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from gantrymq.client import Client, Message
from gantrymq.client.calls.outages import Outages
from gantrymq.client.connection.registration import Registration
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

BEAT, PULL, MEMBERS, SEND = (
    RequestCode.HEART_BEAT,
    RequestCode.PULL_MESSAGE,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.SEND_MESSAGE_V2,
)
NOTHING_NEW = Command(19, ext={"nextBeginOffset": "0", "minOffset": "0", "maxOffset": "0", "suggestWhichBrokerId": "0"})


def serves_a_consumer(peer, consumer, offset=0):
    """A member that finds no messages and sees itself as the only member."""

    def members(request):
        return Command(0, body=json.dumps({"consumerIdList": [consumer._started().client_id]}).encode())

    def pulled(request):
        if int(request.ext["sysFlag"]) & 2 == 0:
            return NOTHING_NEW
        nothing = Command(19, ext={**NOTHING_NEW.ext, "nextBeginOffset": request.ext["queueOffset"]})
        peer.hold(request, int(request.ext["suspendTimeoutMillis"]) / 1000, lambda _: nothing)
        return None

    peer.answers.update(
        {
            MEMBERS: members,
            PULL: pulled,
            RequestCode.QUERY_CONSUMER_OFFSET: Command(0, ext={"offset": str(offset)}),
            RequestCode.GET_MAX_OFFSET: Command(0, ext={"offset": str(offset)}),
            RequestCode.UPDATE_CONSUMER_OFFSET: Command(0),
            RequestCode.LOCK_BATCH_MQ: lambda request: Command(
                0, body=json.dumps({"lockOKMQSet": json.loads(request.payload)["mqSet"]}).encode()
            ),
            RequestCode.UNLOCK_BATCH_MQ: Command(0),
        }
    )


@asynccontextmanager
async def lite_pull(cluster, world):
    """A broker, and a lite pull of its queues from offset 7 on with explicit commits only."""
    async with (
        cluster(world, "a") as c,
        Client(c.namesrv, world=world) as client,
        client.lite_pull("G", "T", auto_commit=False) as consumer,
    ):
        broker = c.brokers["a"]
        serves_a_consumer(broker, consumer, offset=7)
        yield broker, consumer


async def restarted(peer, world, away_s):
    """Make the broker unavailable for *away_s* seconds; return the number of earlier requests."""
    await peer.stop()
    peer.connections.clear()
    await world.clock.sleep(away_s)
    asked = len(peer.asked)
    await peer.start()
    return asked


@pytest.mark.parametrize("away_s", [0.0, 5.0, 100.0])
def test_an_idle_producer_is_known_again_a_second_after_its_broker_is_back(simulate, cluster, away_s):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.queues("T")
            await world.clock.sleep(1)
            broker = c.brokers["a"]
            before = await restarted(broker, world, away_s)
            await world.clock.sleep(1)
            (beat,) = broker.asked[before:]
            assert beat.code == BEAT
            assert json.loads(beat.payload)["producerDataSet"] == [{"groupName": "P"}]

    simulate(work)


@pytest.mark.parametrize("first", ["a send", "a request of the consumer"])
def test_the_first_request_on_a_new_connection_is_a_heartbeat(simulate, cluster, first):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            Client(c.namesrv, world=world) as other,
            client.producer("P") as producer,
            other.consumer("G", "T") as consumer,
        ):
            broker = c.brokers["a"]
            serves_a_consumer(broker, consumer)
            await producer.queues("T")
            await world.clock.sleep(5)
            assert broker.of(PULL)
            before = await restarted(broker, world, 0.2)
            if first == "a send":
                await producer.send(Message("T", b"x"))
            await world.clock.sleep(3)
            codes = [request.code for request in broker.asked[before:]]
            assert codes[0] == BEAT
            assert codes.count(BEAT) == 2  # one of each client
            assert codes.count(SEND) == (first == "a send")
            assert codes.count(PULL) == 4

    simulate(work)


@pytest.mark.parametrize("kind", [Client.consumer, Client.lite_pull])
@pytest.mark.parametrize("options", [{}, {"broadcasting": True}])
def test_nothing_is_pulled_before_the_heartbeat_is_answered(simulate, cluster, tmp_path, kind, options):
    async def work(world):
        more = {"offsets_folder": str(tmp_path)} if options else {}
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            kind(client, "G", "T", **options, **more) as consumer,
        ):
            broker = c.brokers["a"]
            serves_a_consumer(broker, consumer)
            await world.clock.sleep(3)
            assert len(broker.of(PULL)) == 4
            broker.answers[BEAT] = None
            before = await restarted(broker, world, 0.5)
            await world.clock.sleep(2)
            asked = {request.code for request in broker.asked[before:]}
            assert BEAT in asked and not asked & {PULL, MEMBERS}
            broker.answers[BEAT] = Command(0)
            await world.clock.sleep(6)
            assert len(broker.of(PULL)) == 8

    simulate(work)


def test_a_broker_that_refuses_heartbeats_is_pulled_from(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.consumer("G", "T") as consumer,
        ):
            broker = c.brokers["a"]
            serves_a_consumer(broker, consumer)
            broker.answers[BEAT] = Command(1, remark="the group has another subscription")
            await world.clock.sleep(3)
            assert len(broker.of(PULL)) == 4
            assert len(broker.of(BEAT)) < 4

    simulate(work)


def test_readers_and_assigned_queues_need_no_heartbeat(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader("T") as reader,
            client.lite_pull("G") as assigned,
        ):
            broker = c.brokers["a"]
            serves_a_consumer(broker, assigned)
            queue = MessageQueue("T", "a", 0)
            await assigned.assign([queue])
            await reader.pull(queue, 0)
            await restarted(broker, world, 1.0)
            await world.clock.sleep(5)
            assert len(broker.of(PULL)) == 3
            assert broker.of(BEAT) == []

    simulate(work)


def test_a_restarted_broker_is_told_the_progress_again(simulate, cluster, record):
    """It may have lost the last commit, although the offset did not change since."""

    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.consumer("G", "T") as consumer,
        ):
            broker = c.brokers["a"]
            serves_a_consumer(broker, consumer, offset=7)
            await world.clock.sleep(12)
            before = len(broker.of(RequestCode.UPDATE_CONSUMER_OFFSET))
            await world.clock.sleep(10)
            assert len(broker.of(RequestCode.UPDATE_CONSUMER_OFFSET)) == before
            await restarted(broker, world, 1.0)
            broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = Command(0, ext={"offset": "3"})
            await world.clock.sleep(10)
            told = broker.of(RequestCode.UPDATE_CONSUMER_OFFSET)[before:]
            assert sorted(request.ext["queueId"] for request in told) == ["0", "1", "2", "3"]
            assert {request.ext["commitOffset"] for request in told} == {"7"}
            assert {request.ext["queueOffset"] for request in broker.of(PULL)} == {"7"}

    simulate(work)


def test_what_another_member_stored_meanwhile_is_where_the_queue_goes_on(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.consumer("G", "T") as consumer,
        ):
            broker = c.brokers["a"]
            serves_a_consumer(broker, consumer, offset=7)
            await world.clock.sleep(3)
            await restarted(broker, world, 1.0)
            broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = Command(0, ext={"offset": "20"})
            await world.clock.sleep(10)
            pulls = [request.ext["queueOffset"] for request in broker.of(PULL)]
            assert pulls == ["7"] * 4 + ["20"] * 4
            assert {r.ext["commitOffset"] for r in broker.of(RequestCode.UPDATE_CONSUMER_OFFSET)} <= {"20"}

    simulate(work)


def test_what_a_lite_pull_committed_itself_is_not_taken_for_another_members(simulate, cluster):
    async def work(world):
        async with lite_pull(cluster, world) as (broker, consumer):
            broker.answers[RequestCode.GET_MAX_OFFSET] = Command(0, ext={"offset": "30"})
            await world.clock.sleep(3)
            await consumer.commit(dict.fromkeys(consumer.assignment, 9))
            broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = Command(0, ext={"offset": "9"})
            await restarted(broker, world, 1.0)
            await world.clock.sleep(10)
            assert [request.ext["queueOffset"] for request in broker.of(PULL)] == ["7"] * 8

    simulate(work)


@pytest.mark.parametrize(("stored", "told"), [("20", []), ("7", ["7"] * 4)])
def test_a_commit_of_a_queue_that_another_member_may_have_does_not_set_it_back(simulate, cluster, stored, told):
    async def work(world):
        async with lite_pull(cluster, world) as (broker, consumer):
            await world.clock.sleep(3)
            broker.answers[MEMBERS] = Command(0, body=b'{"consumerIdList":["another@1"]}')
            before = await restarted(broker, world, 1.0)
            broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = Command(0, ext={"offset": stored})
            await world.clock.sleep(2)
            await consumer.commit()
            later = broker.asked[before:]
            assert [r.ext["commitOffset"] for r in later if r.code == RequestCode.UPDATE_CONSUMER_OFFSET] == told

    simulate(work)


def test_an_orderly_queue_waits_for_its_lock_by_the_new_life_of_the_broker(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.consumer("G", "T", orderly=True) as consumer,
        ):
            broker = c.brokers["a"]
            serves_a_consumer(broker, consumer, offset=7)
            await world.clock.sleep(12)
            grant = broker.answers[RequestCode.LOCK_BATCH_MQ]
            broker.answers[RequestCode.LOCK_BATCH_MQ] = Command(
                0, body=b'{"lockOKMQSet":[]}'
            )  # another member owns them
            before = await restarted(broker, world, 1.0)
            await world.clock.sleep(40)
            asked = {request.code for request in broker.asked[before:]}
            assert RequestCode.LOCK_BATCH_MQ in asked
            assert not asked & {PULL, RequestCode.UPDATE_CONSUMER_OFFSET}
            broker.answers[RequestCode.LOCK_BATCH_MQ] = grant
            broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = Command(0, ext={"offset": "20"})
            before = len(broker.asked)
            await world.clock.sleep(10)
            later = broker.asked[before:]
            assert [r.ext["queueOffset"] for r in later if r.code == PULL] == ["20"] * 4
            assert {r.ext["commitOffset"] for r in later if r.code == RequestCode.UPDATE_CONSUMER_OFFSET} <= {"20"}

    simulate(work)


class SlowPeer:
    """Connections, routes and calls for `Registration`, with one broker and responses set by the test."""

    def __init__(self):
        self.answer = asyncio.get_running_loop().create_future()
        self.asked = asyncio.Semaphore(0)

    def on_open(self, callback): ...

    def on_close(self, callback): ...

    async def connect(self, address): ...

    def connected(self, address):
        return True

    def addresses(self, *, slaves):
        return ["a:1"]

    def broker_names_at(self, address):
        return ["a"]

    async def call(self, *_):
        self.asked.release()
        await self.answer


def test_a_heartbeat_that_says_more_may_begin_in_the_step_that_ends_the_one_before():
    """It must not wait for ended tasks, which would block the event loop."""

    async def work():
        peer = SlowPeer()
        registration = Registration("me", peer, peer, peer, None, asyncio.ensure_future, Outages(None))
        registration.add_producer("P")

        async def more():
            await peer.answer
            registration.heartbeat_now()
            await registration.send_all()

        later = asyncio.ensure_future(more())
        await asyncio.sleep(0)  # it waits first, so it continues first
        first = asyncio.ensure_future(registration.send_all())
        await peer.asked.acquire()
        peer.answer.set_result(None)
        await asyncio.gather(later, first)
        assert not peer.asked.locked()  # requested once more

    asyncio.run(work())


def test_a_paused_member_that_awaits_others_rests_between_its_rounds(simulate, cluster, monkeypatch):
    """Members that never return are not awaited any longer, although no rebalance happens meanwhile."""

    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.consumer("G", "T") as consumer,
        ):
            broker = c.brokers["a"]
            serves_a_consumer(broker, consumer)
            alone = broker.answers[MEMBERS]
            ids = [consumer._started().client_id, "another@1"]
            broker.answers[MEMBERS] = Command(0, body=json.dumps({"consumerIdList": ids}).encode())
            await world.clock.sleep(3)
            broker.answers[MEMBERS] = alone
            await restarted(broker, world, 1.0)
            await world.clock.sleep(5)
            rebalancer = consumer._run.rebalancer
            rounds, rebalance = 0, rebalancer.rebalance

            async def counted():
                nonlocal rounds
                rounds += 1
                assert rounds < 100
                return await rebalance()

            monkeypatch.setattr(rebalancer, "rebalance", counted)
            consumer.pause()
            await world.clock.sleep(60)
            assert rounds < 10
            consumer.resume()
            await world.clock.sleep(3)
            assert len(consumer.assignment) == 4

    simulate(work)
