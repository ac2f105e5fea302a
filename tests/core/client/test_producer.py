import asyncio
import base64
import random

import attrs
import pytest

from gantrymq.client import Client, SendFailed, SendStatus
from gantrymq.client.message import Message
from gantrymq.client.sending.validation import MAX_MESSAGE_BYTES
from gantrymq.errors import (
    BrokerRefused,
    CallTimeout,
    ClientError,
    ConnectFailed,
    InvalidParameter,
    MessageIllegal,
    NoRoute,
)
from gantrymq.formats.compression import decompress
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

SEND, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
MESSAGE = Message("T", b"hello")


def refuse(code: int) -> Command:
    return Command(code, remark="no")


def test_messages_take_turns_over_all_queues(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            results = [await producer.send(MESSAGE) for _ in range(16)]
        assert {r.status for r in results} == {SendStatus.SEND_OK}
        assert len({r.queue for r in results[:8]}) == 8
        assert {r.queue_offset for r in results[8:]} == {1}
        assert len({r.message_id for r in results}) == 16

    simulate(work)


def test_route_is_asked_once(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await asyncio.gather(*(producer.send(MESSAGE) for _ in range(20)))
            assert len(c.ns.of(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1

    simulate(work)


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205])
def test_send_goes_to_another_broker_after_a_code_that_passes(simulate, cluster, code):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            c.brokers["a"].answers[SEND] = refuse(code)
            for _ in range(4):
                assert (await producer.send(MESSAGE)).queue.broker_name == "b"

    simulate(work)


@pytest.mark.parametrize("code", [13, 29, 215])
def test_other_codes_are_raised_at_once(simulate, cluster, code):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            for peer in c.brokers.values():
                peer.answers[SEND] = refuse(code)
            with pytest.raises(BrokerRefused) as refused:
                await producer.send(MESSAGE)
            assert refused.value.response_code == code
            assert len(c.sends()) == 1

    simulate(work)


def test_three_attempts_then_the_last_code(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            for peer in c.brokers.values():
                peer.answers[SEND] = refuse(2)
            with pytest.raises(SendFailed, match="3 attempts") as failed:
                await producer.send(MESSAGE)
            assert failed.value.response_code == 2
            assert failed.value.brokers in (("a", "b", "a"), ("b", "a", "b"))
            assert isinstance(failed.value.__cause__, BrokerRefused)

    simulate(work)


def test_broker_that_is_gone_is_passed_over(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.queues("T")
            await c.brokers["a"].stop()
            for _ in range(4):
                assert (await producer.send(MESSAGE)).queue.broker_name == "b"

    simulate(work)


def test_silent_broker_takes_the_time_of_the_send(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            c.brokers["a"].answers[SEND] = None
            begun = world.clock.monotonic()
            with pytest.raises(SendFailed) as failed:
                await producer.send(MESSAGE, timeout_s=2.0)
            assert 1.9 < world.clock.monotonic() - begun < 2.1
            assert (failed.value.response_code, failed.value.brokers) == (10002, ("a",))

    simulate(work)


def test_time_of_one_attempt_can_be_limited(simulate, cluster):
    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", attempt_timeout_s=0.5) as producer,
        ):
            c.brokers["a"].answers[SEND] = None
            begun = world.clock.monotonic()
            for _ in range(2):
                assert (await producer.send(MESSAGE)).queue.broker_name == "b"
            assert world.clock.monotonic() - begun < 1.1

    simulate(work)


def test_chosen_queue_has_one_attempt(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            queue = (await producer.queues("T"))[3]
            assert (await producer.send(MESSAGE, queue)).queue == queue
            c.brokers["a"].answers[SEND] = refuse(2)
            with pytest.raises(BrokerRefused):
                await producer.send(MESSAGE, queue)
            assert len(c.sends()) == 2
            with pytest.raises(InvalidParameter, match="one of U"):
                await producer.send(MESSAGE, MessageQueue("U", "a", 0))
            with pytest.raises(NoRoute, match="broker c has no master"):
                await producer.send(MESSAGE, MessageQueue("T", "c", 0))

    simulate(work)


@pytest.mark.parametrize("again", [False, True])
def test_message_stored_less_safely_is_returned_or_sent_again(simulate, cluster, again):
    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", retry_not_stored=again) as producer,
        ):
            late = {"msgId": "X", "queueId": "0", "queueOffset": "0"}
            for peer in c.brokers.values():
                peer.answers[SEND] = Command(10, ext=late)
            assert (await producer.send(MESSAGE)).status is SendStatus.FLUSH_DISK_TIMEOUT
            assert len(c.sends()) == (3 if again else 1)

    simulate(work)


def test_result_of_a_less_safe_attempt_outlives_a_refusal(simulate, cluster):
    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", retry_not_stored=True) as producer,
        ):
            for name, peer in c.brokers.items():
                late = Command(12, ext={"msgId": "X", "queueId": "0", "queueOffset": "0"})
                peer.answers[SEND] = lambda _, name=name, late=late: refuse(13) if len(c.sends()) > 1 else late
            assert (await producer.send(MESSAGE)).status is SendStatus.FLUSH_SLAVE_TIMEOUT

    simulate(work)


def test_missing_topic_borrows_queues_of_the_default_topic(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a", queues=8, topics=("TBW102",)) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P") as producer,
        ):
            assert len(await producer.queues("New")) == 4
            result = await producer.send(Message("New", b"x"))
            sent = c.brokers["a"].of(SEND)[0].ext
            assert (result.queue.topic, sent["b"], sent["c"], sent["d"]) == ("New", "New", "TBW102", "4")
            c.topics.add("New")
            await world.clock.sleep(31)
            assert len(await producer.queues("New")) == 8  # the route of the topic that now exists

    simulate(work)


def test_unknown_topic_says_how_to_create_it(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            with pytest.raises(NoRoute, match="no name server knows topic Nope; create it, or check"):
                await producer.send(Message("Nope", b"x"))

    simulate(work)


def test_no_name_server_is_a_sentence(simulate):
    async def work(world):
        async with Client("ns:1;ns:2", world=world) as client, client.producer("P") as producer:
            with pytest.raises(ConnectFailed, match="no name server answers at ns:1, ns:2 .*in \\$NAMESRV_ADDR"):
                await producer.send(MESSAGE)

    simulate(work)


def test_illegal_message_reaches_nobody(simulate, cluster):
    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", max_message_bytes=10) as producer,
        ):
            with pytest.raises(MessageIllegal):
                await producer.send(Message("T", b"x" * 11))
            with pytest.raises(MessageIllegal):
                producer.send_async(Message("T", b""))
            with pytest.raises(MessageIllegal):
                await producer.send_oneway(Message("T", b""))
            with pytest.raises(MessageIllegal):
                await producer.send_batch([Message("T", b"x" * 11)])
            assert not c.sends()

    simulate(work)


def test_async_send_calls_back_and_returns_a_task(simulate, cluster):
    async def work(world):
        seen = []
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            task = producer.send_async(MESSAGE, lambda result, error: seen.append((result, error)))
            assert not seen
            result = await task
            await world.clock.sleep(0)
            assert seen == [(result, None)]

    simulate(work)


def test_async_send_repeats_lost_attempts_but_no_refusals(simulate, cluster):
    async def work(world):
        seen = []
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.queues("T")
            await c.brokers["a"].stop()
            results = await asyncio.gather(*(producer.send_async(MESSAGE) for _ in range(4)))
            assert {r.queue.broker_name for r in results} == {"b"}
            c.brokers["b"].answers[SEND] = refuse(2)
            tasks = [producer.send_async(MESSAGE, lambda result, error: seen.append(error)) for _ in range(2)]
            await asyncio.wait(tasks)
            await world.clock.sleep(0)
            assert [error.response_code for error in seen] == [2, 2]

    simulate(work)


def test_close_waits_for_async_sends(simulate, cluster):
    async def work(world):
        async with cluster(world) as c:
            async with Client(c.namesrv, world=world) as client, client.producer("P") as producer:
                tasks = [producer.send_async(MESSAGE) for _ in range(3)]
            assert all(task.done() and task.result().ok for task in tasks)

    simulate(work)


def test_oneway_is_marked_and_takes_turns(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            for _ in range(4):
                await producer.send_oneway(MESSAGE)
            await producer.send_oneway(MESSAGE, MessageQueue("T", "a", 2))
            await world.clock.sleep(1)
            sent = c.brokers["a"].of(SEND)
            assert all(request.is_oneway for request in sent)
            assert {request.ext["e"] for request in sent[:4]} == {"0", "1", "2", "3"}
            assert sent[4].ext["e"] == "2"

    simulate(work)


def test_batch_is_one_request_and_is_tried_again(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            c.brokers["a"].answers[BATCH] = refuse(14)
            for _ in range(2):
                result = await producer.send_batch([Message("T", b"x"), Message("T", b"y")])
                assert result.queue.broker_name == "b"
                assert len(result.message_ids) == 2
            assert {request.ext["m"] for request in c.brokers["b"].of(BATCH)} == {"true"}

    simulate(work)


def test_go_away_is_met_by_a_new_connection(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            peer = c.brokers["a"]
            stored = peer.answers[SEND]
            peer.answers[SEND] = lambda request: stored(request) if len(peer.of(SEND)) > 1 else Command(1500)
            assert (await producer.send(MESSAGE)).ok

    simulate(work)


def test_producer_that_is_closed_says_so(simulate):
    async def work(world):
        async with Client("ns:1", world=world) as client:
            producer = client.producer("P")
            await producer.close()
            with pytest.raises(ClientError, match="this Producer is closed; a Client creates a new one"):
                producer.send_async(MESSAGE)
            with pytest.raises(ClientError, match="is closed"):
                async with producer:
                    pytest.fail("entered")

    simulate(work)


def test_start_and_close_may_be_repeated(simulate, cluster):
    async def work(world):
        async with cluster(world) as c:
            client = Client(c.namesrv, world=world)
            await client.close()
            for _ in range(2):
                await client.start()
            producer = client.producer("P")
            assert (await producer.send(MESSAGE)).ok
            for _ in range(2):
                await producer.close()
            assert (await client.producer("P").send(MESSAGE)).ok
            for _ in range(2):
                await client.close()
            await client.start()
            assert (await client.producer("P").send(MESSAGE)).ok
            await client.close()

    simulate(work)


def test_time_that_is_over_before_the_first_attempt_is_a_failure(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.queues("T")
            with pytest.raises((SendFailed, CallTimeout)):
                await producer.send(MESSAGE, timeout_s=0.0)

    simulate(work)


@pytest.mark.parametrize("kind", ["send", "send_async", "send_oneway"])
def test_compression_begins_at_4096_bytes_and_leaves_what_would_grow(simulate, cluster, kind):
    noise = random.Random(4).randbytes(MAX_MESSAGE_BYTES)  # the longest body, which zlib makes longer
    bodies = {b"x" * 4095: "0", b"x" * 4096: "769", b"x" * 100_000: "769", noise: "0"}

    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            for body, flags in bodies.items():
                await getattr(producer, kind)(Message("T", body))
                await world.clock.sleep(1)
                sent = c.brokers["a"].of(SEND)[-1]
                assert (sent.ext["f"], decompress(sent.payload, int(flags))) == (flags, body)

    simulate(work)


def test_long_bodies_are_compressed_beside_the_loop(simulate, cluster):
    async def work(world):
        shares = []
        watched = attrs.evolve(world, workers=Counted(world.workers, shares))
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=watched) as client,
            client.producer("P") as producer,
        ):
            for size in (10_000, 65_535, 65_536, 1_000_000):
                await producer.send(Message("T", b"x" * size))
        assert shares == [65_536, 1_000_000]

    simulate(work)


class Counted:
    """Workers that record the lengths of the bodies passed to them."""

    def __init__(self, inner, sizes):
        self._inner, self._sizes = inner, sizes

    async def run(self, work, outgoing, *more):
        self._sizes.append(len(outgoing.body))
        return await self._inner.run(work, outgoing, *more)


def test_what_cannot_be_sent_is_a_client_error_as_a_refusal_is(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            c.brokers["a"].answers[SEND] = refuse(16)
            for message in (Message("T", b""), Message("no good", b"x"), Message("Missing", b"x"), MESSAGE):
                with pytest.raises(ClientError):
                    await producer.send(message)
            c.brokers["a"].answers[SEND] = None
            with pytest.raises(TimeoutError) as timed_out:
                await producer.send(MESSAGE, MessageQueue("T", "a", 0))
            assert isinstance(timed_out.value, ClientError)
            await c.brokers["a"].stop()
            with pytest.raises(ConnectionError) as lost:
                await producer.send(MESSAGE, MessageQueue("T", "a", 0))
            assert isinstance(lost.value, ClientError)

    simulate(work)


def test_a_recall_from_an_unknown_topic_says_so(simulate, cluster):
    handle = base64.urlsafe_b64encode(b"v1 Nowhere vm 1 id").decode()

    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            with pytest.raises(NoRoute, match="^no name server knows topic Nowhere"):
                await producer.recall("Nowhere", handle)
            with pytest.raises(NoRoute, match="^broker vm has no master in the route of T; is it running"):
                await producer.recall("T", handle)

    simulate(work)


def test_what_is_no_recall_handle_is_refused_without_names_of_python(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            with pytest.raises(InvalidParameter, match="^'x' is not a recall handle; a timed send returns one$"):
                await producer.recall("T", "x")

    simulate(work)
