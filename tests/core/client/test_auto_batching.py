"""Automatic batching with scripted brokers on a virtual clock: which messages are batched and when they are sent."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_cluster import Cluster

from gantrymq.client import Batching, Client, SendFailed, by_key
from gantrymq.client.message import Message
from gantrymq.errors import BrokerRefused, ClientError, InvalidParameter, NoRoute
from gantrymq.formats.batch_body import decode_batch
from gantrymq.model import properties
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq_testing.simulated import simulate as simulated

SEND, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
CONFIG = RequestCode.GET_TOPIC_CONFIG
KINDS = ["send", "send_soon", "send_async"]
BATCHED = Command(0, body=json.dumps({"topicName": "T", "attributes": {"queue.type": "BatchCQ"}}).encode())


def body(number):
    return Message("T", b"%d" % number)


def batches(c):
    """Return the bodies of each request, by broker and request order."""
    found = []
    for peer in c.brokers.values():
        for request in peer.asked:
            if request.code == BATCH:
                found.append([bytes(entry.body) for entry in decode_batch(request.payload)])
            elif request.code == SEND:
                found.append(bytes(request.payload))
    return found


@asynccontextmanager
async def producer_of(c, world, **options):
    async with Client(c.namesrv, world=world) as client:
        yield client.producer("P", **{"batching": True, **options})


@pytest.mark.parametrize("kind", KINDS)
def test_sends_that_are_begun_together_are_one_request_and_each_has_its_result(simulate, cluster, kind):
    async def work(world):
        async with cluster(world) as c, producer_of(c, world) as producer:
            results = await asyncio.gather(*(getattr(producer, kind)(body(n)) for n in range(20)))
            assert batches(c) == [[b"%d" % n for n in range(20)]]
            (entries,) = [decode_batch(request.payload) for p in c.brokers.values() for request in p.of(BATCH)]
            assert [r.message_id for r in results] == [properties.decode(e.properties)["UNIQ_KEY"] for e in entries]
            assert [r.queue_offset for r in results] == list(range(20))
            assert len({r.offset_id for r in results}) == 20
            assert {(len(r.message_ids), r.ok) for r in results} == {(1, True)}

    simulate(work)


@pytest.mark.parametrize("wait_ms", [0, 10, 500])
def test_the_first_message_waits_so_long_at_most(simulate, cluster, wait_ms):
    async def work(world):
        batching = Batching(max_wait_ms=wait_ms)
        async with cluster(world, "a") as c, producer_of(c, world, batching=batching) as producer:
            await producer.send(body(0))
            begun = world.clock.monotonic()
            first = producer.send_soon(body(1))
            await world.clock.sleep(wait_ms * 0.6 / 1000)
            second = producer.send_soon(body(2))
            await asyncio.gather(first, second)
            assert wait_ms <= (world.clock.monotonic() - begun) * 1000 < wait_ms + 5
            assert batches(c)[0] == b"0"
            if wait_ms:
                assert batches(c)[1:] == [[b"1", b"2"]]

    simulate(work)


def test_a_message_that_nobody_joins_goes_as_itself(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, producer_of(c, world) as producer:
            result = await producer.send(body(1))
            assert batches(c) == [b"1"]
            assert len(result.message_ids) == 1

    simulate(work)


def test_a_batch_is_sent_when_it_is_full(simulate, cluster):
    async def work(world):
        full = Batching(max_wait_ms=10_000, max_messages=5)
        async with cluster(world, "a") as c, producer_of(c, world, batching=full) as producer:
            begun = world.clock.monotonic()
            await asyncio.gather(*(producer.send(body(n)) for n in range(10)))
            assert [len(each) for each in batches(c)] == [5, 5]
            assert world.clock.monotonic() - begun < 1

        long = Batching(max_wait_ms=10_000, max_bytes=1000)
        async with cluster(world, "a") as c, producer_of(c, world, batching=long) as producer:
            sends = [producer.send_soon(Message("T", b"x" * 200)) for _ in range(7)]
            await world.clock.sleep(1)
            assert {type(each) for each in batches(c)} == {list}
            assert all(len(request.payload) <= 1000 for request in c.brokers["a"].of(BATCH))
            assert sum(each.done() for each in sends) == sum(map(len, batches(c))) >= 6
            await producer.send(Message("T", b"y" * 1000))  # fills a batch alone
            await asyncio.gather(*sends)
            assert batches(c)[-1] == b"y" * 1000

    simulate(work)


def test_groups_are_kept_apart(simulate, cluster):
    """Grouped by topic, chosen queue and whether to wait for the store."""

    async def work(world):
        async with cluster(world, "a", topics=("T", "U")) as c, producer_of(c, world) as producer:
            queues = await producer.queues("T")
            sends = []
            for number in range(3):
                text = b"%d" % number
                sends += [
                    producer.send_soon(Message("T", b"t" + text)),
                    producer.send_soon(Message("U", b"u" + text)),
                    producer.send_soon(Message("T", b"w" + text, wait_stored=False)),
                    producer.send_soon(Message("T", b"q" + text, tags=f"Tag{number}"), queues[1]),
                ]
            results = await asyncio.gather(*sends)
            assert sorted(batches(c)) == [[b"%s%d" % (kind, n) for n in range(3)] for kind in (b"q", b"t", b"u", b"w")]
            assert {result.queue for result in results[3::4]} == {queues[1]}
            envelopes = [properties.decode_text(request.ext["i"]) for request in c.brokers["a"].of(BATCH)]
            assert sorted(each["WAIT"] for each in envelopes) == ["false", "true", "true", "true"]

    simulate(work)


def test_a_selector_is_asked_for_each_message(simulate, cluster):
    async def work(world):
        selector = by_key(lambda message: message.keys)
        async with cluster(world) as c, producer_of(c, world, selector=selector) as producer:
            keys = [f"k{number % 7}" for number in range(70)]
            results = await asyncio.gather(*(producer.send(Message("T", b"x", keys=key)) for key in keys))
            queues = await producer.queues("T")
            assert [r.queue for r in results] == [by_key(key)(queues, body(0)) for key in keys]
            assert len(batches(c)) == len({r.queue for r in results})
            for kind in KINDS:
                sent = getattr(producer, kind)(body(1))  # has no keys, which must not affect the others
                with pytest.raises(InvalidParameter, match="key that chooses a queue is None"):
                    await sent
            assert (await producer.send(Message("T", b"x", keys="k1"))).ok

    simulate(work)


@pytest.mark.parametrize(
    "alone",
    [
        Message("T", b"alone", delay_level=1),
        Message("T", b"alone", delay_ms=1000),
        Message("T", b"alone", system_properties={"TRAN_MSG": "true"}),
        Message("T", b"alone" * 1000),
        Message("%RETRY%g", b"alone"),
    ],
    ids=["delayed", "timed", "transactional", "long", "retry"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_some_messages_go_by_themselves_behind_what_was_gathered(simulate, cluster, kind, alone):
    async def work(world):
        async with cluster(world, "a", topics=("T", "%RETRY%g")) as c, producer_of(c, world) as producer:
            await producer.send(body(0))
            before = [producer.send_soon(body(n)) for n in (1, 2)]
            begun = world.clock.monotonic()
            assert (await getattr(producer, kind)(alone)).ok
            assert world.clock.monotonic() - begun < 0.005  # no waiting for others
            await asyncio.gather(*before)
            requests = batches(c)
            assert len(requests) == 3
            if alone.topic == "T":
                assert requests[1] == [b"1", b"2"]
                assert isinstance(requests[2], bytes)

    simulate(work)


def test_explicit_batches_go_behind_what_was_gathered(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, producer_of(c, world) as producer:
            await producer.send(body(0))
            before = [producer.send_soon(body(n)) for n in (1, 2)]
            await producer.send_batch([body(3), body(4)])
            await asyncio.gather(*before)
            assert batches(c)[1:] == [[b"1", b"2"], [b"3", b"4"]]

    simulate(work)


@pytest.mark.parametrize("kind", KINDS)
def test_a_send_that_is_cancelled_leaves_the_others_alone(simulate, cluster, kind):
    async def work(world):
        async with cluster(world, "a") as c, producer_of(c, world) as producer:
            await producer.send(body(0))
            sends = [asyncio.ensure_future(getattr(producer, kind)(body(n))) for n in range(1, 6)]
            await world.clock.sleep(0.001)
            sends[1].cancel()  # is gathered, and not sent
            await world.clock.sleep(0.02)
            assert batches(c)[1:] == [[b"1", b"3", b"4", b"5"]]
            stored, c.brokers["a"].answers[BATCH] = c.brokers["a"].answers[BATCH], None
            more = [asyncio.ensure_future(getattr(producer, kind)(body(n))) for n in range(6, 9)]
            await world.clock.sleep(0.02)
            more[0].cancel()  # is on its way
            request = c.brokers["a"].of(BATCH)[-1]
            answer = stored(request)
            c.brokers["a"].connections[0].reply(request, Command(0, ext=answer.ext))
            found = await asyncio.gather(*sends, *more, return_exceptions=True)
            assert [isinstance(each, asyncio.CancelledError) for each in found] == [n in (1, 5) for n in range(8)]
            offsets = [each.queue_offset for each in found[6:]]
            assert offsets == [int(answer.ext["queueOffset"]) + 1, int(answer.ext["queueOffset"]) + 2]

    simulate(work)


def test_all_cancelled_send_nothing(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, producer_of(c, world) as producer:
            await producer.send(body(0))
            for send in [producer.send_soon(body(n)) for n in range(5)]:
                send.cancel()
            await world.clock.sleep(1)
            assert batches(c) == [b"0"]

    simulate(work)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_reaches_each(simulate, cluster, kind):
    async def work(world):
        async with cluster(world, "ab") as c, producer_of(c, world) as producer:
            for peer in c.brokers.values():
                peer.answers[BATCH] = Command(2, remark="busy")
            found = await asyncio.gather(*(getattr(producer, kind)(body(n)) for n in range(5)), return_exceptions=True)
            assert {type(each) for each in found} == {BrokerRefused if kind == "send_async" else SendFailed}
            assert len(c.sends()) == (1 if kind == "send_async" else 3)

            missing = await asyncio.gather(
                *(getattr(producer, kind)(Message("Nope", b"x")) for _ in range(5)), return_exceptions=True
            )
            assert {type(each) for each in missing} == {NoRoute}

    simulate(work)


def test_a_batch_is_tried_at_another_broker(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, producer_of(c, world) as producer:
            c.brokers["a"].answers[BATCH] = Command(14, remark="starting")
            for _ in range(4):
                results = await asyncio.gather(*(producer.send(body(n)) for n in range(3)))
                assert {result.queue.broker_name for result in results} == {"b"}

    simulate(work)


def test_what_is_illegal_fails_by_itself(simulate, cluster):
    """A broker stores nothing of a batch with an illegal message."""

    async def work(world):
        async with cluster(world, "a") as c, producer_of(c, world) as producer:
            peer = c.brokers["a"]
            stored = peer.answers[BATCH]

            def judge(request):
                bodies = (
                    [bytes(entry.body) for entry in decode_batch(request.payload)]
                    if request.code == BATCH
                    else [bytes(request.payload)]
                )
                return Command(13, remark="3 is not allowed") if b"3" in bodies else stored(request)

            peer.answers |= {SEND: judge, BATCH: judge}
            found = await asyncio.gather(*(producer.send(body(n)) for n in range(6)), return_exceptions=True)
            assert [isinstance(each, BrokerRefused) for each in found] == [n == 3 for n in range(6)]
            assert "3 is not allowed" in str(found[3])

    simulate(work)


def test_closing_sends_what_is_gathered(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c:
            for _ in range(2):
                async with producer_of(c, world, batching=Batching(max_wait_ms=30_000)) as producer:
                    sends = [producer.send_soon(body(n)) for n in range(5)]
                    waiting = asyncio.ensure_future(producer.send(body(5)))
                    await world.clock.sleep(0)
                begun = world.clock.monotonic()
                assert all(result.ok for result in await asyncio.gather(*sends, waiting))
                assert world.clock.monotonic() - begun < 1

    simulate(work)


@pytest.mark.parametrize("batching", [False, Batching(max_wait_ms=30_000)])
def test_flush_waits_for_what_was_begun_and_for_no_more(simulate, cluster, batching):
    async def work(world):
        async with cluster(world, "a") as c, producer_of(c, world, batching=batching) as producer:
            await producer.flush()
            await producer.queues("T")
            sends = [producer.send_soon(body(n)) for n in range(5)]
            begun = world.clock.monotonic()
            await producer.flush()
            await asyncio.gather(*sends)
            assert world.clock.monotonic() - begun < 1
            c.brokers["a"].answers |= {SEND: None, BATCH: None}
            silent = [producer.send_soon(body(n), timeout_s=3.0) for n in range(2)]
            flushing = asyncio.ensure_future(producer.flush())
            await world.clock.sleep(1)
            later = producer.send_soon(body(9), timeout_s=10.0)
            assert not flushing.done()
            await flushing
            assert 2.9 < world.clock.monotonic() - begun < 3.5
            assert not later.done()
            found = await asyncio.gather(*silent, return_exceptions=True)
            assert all(isinstance(each, SendFailed) for each in found)
            later.cancel()
            again = asyncio.ensure_future(producer.flush())
            await world.clock.sleep(0.1)
            again.cancel()  # cancels nothing else

    simulate(work)


def test_closing_beside_a_broker_that_hangs_gives_up_in_time(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, producer_of(c, world) as producer:
            await producer.send(body(0))
            c.brokers["a"].answers[BATCH] = None
            sends = [producer.send_soon(body(n), timeout_s=60.0) for n in range(5)]
            await producer.close(timeout_s=1.0)
            found = await asyncio.gather(*sends, return_exceptions=True)
            assert {type(each) for each in found} <= {asyncio.CancelledError, ClientError}

    simulate(work)


def test_topics_with_batch_queues_get_inner_batches_of_one_tag(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, producer_of(c, world) as producer:
            c.brokers["a"].answers[CONFIG] = BATCHED
            tags = [("Red", None)[n % 2] for n in range(6)]
            await asyncio.gather(*(producer.send(Message("T", b"x", t, f"k{n}")) for n, t in enumerate(tags)))
            envelopes = [properties.decode_text(request.ext["i"]) for request in c.brokers["a"].of(BATCH)]
            found = {(each.get("TAGS"), each["KEYS"]) for each in envelopes}
            assert found == {("Red", "k0 k2 k4"), (None, "k1 k3 k5")}
            assert len({e["UNIQ_KEY"] for e in envelopes}) == 2

    simulate(work)


def test_messages_of_a_new_topic_keep_their_order(simulate, cluster):
    """Includes messages sent while others wait for the topic's route and queue type."""

    async def work(world):
        async with cluster(world, "a") as c, producer_of(c, world) as producer:
            sends = []
            for number in range(40):
                sends.append(producer.send_soon(body(number)))
                if number % 4 == 3:
                    await world.clock.sleep(0)
            await asyncio.gather(*sends)
            sent = [each for batch in batches(c) for each in (batch if isinstance(batch, list) else [batch])]
            assert sent == [b"%d" % n for n in range(40)]

    simulate(work)


class Told:
    """A hook that records its contexts and adds a property to each message."""

    def __init__(self):
        self.before, self.after = [], []

    def before_send(self, context):
        self.before.append(context.messages)
        context.messages[0].properties["traced"] = str(len(self.before))

    def after_send(self, context):
        self.after.append((context.messages[0].system_properties["UNIQ_KEY"], context.result))


@pytest.mark.parametrize("kind", KINDS)
def test_hooks_are_told_of_each_send(simulate, cluster, kind):
    async def work(world):
        told = Told()
        async with cluster(world, "a") as c, producer_of(c, world, hooks=[told]) as producer:
            results = await asyncio.gather(*(getattr(producer, kind)(body(n)) for n in range(5)))
            assert [(result.message_id, result) for result in results] == told.after
            (request,) = c.brokers["a"].of(BATCH)
            traced = [properties.decode(entry.properties)["traced"] for entry in decode_batch(request.payload)]
            assert traced == ["1", "2", "3", "4", "5"]

    simulate(work)


@pytest.mark.parametrize("limit", [{"max_wait_ms": -1}, {"max_wait_ms": 30_001}, {"max_bytes": 0}, {"max_messages": 0}])
def test_limits_have_bounds(limit):
    with pytest.raises(InvalidParameter, match=next(iter(limit))):
        Batching(**limit)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.integers(1, 600),  # bytes
            st.sampled_from([None, 0, 3]),  # queue
            st.sampled_from(["", "cancel now", "cancel later"]),
            st.integers(0, 8),  # ms until the next
        ),
        max_size=40,
    ),
    st.integers(0, 12),
    st.integers(100, 2000),
    st.integers(1, 9),
)
def test_whatever_is_sent_is_stored_once_and_its_result_says_where(sends, wait_ms, max_bytes, max_messages):
    limits = Batching(max_wait_ms=wait_ms, max_bytes=max_bytes, max_messages=max_messages)

    async def work(world):
        async with Cluster(world) as c:
            async with producer_of(c, world, batching=limits) as producer:
                queues = await producer.queues("T")
                begun = []
                for number, (kind, size, queue, cancelled, pause_ms) in enumerate(sends):
                    message = Message("T", b"%d/" % number + b"x" * size)
                    where = None if queue is None else queues[queue]
                    begun.append(asyncio.ensure_future(getattr(producer, kind)(message, queue=where)))
                    if cancelled == "cancel now":
                        begun[-1].cancel()
                    elif cancelled:
                        world.clock.call_later(0.004, begun[-1].cancel)
                    await world.clock.sleep(pause_ms / 1000)
                found = await asyncio.gather(*begun, return_exceptions=True)
            stored = {}  # (broker, queue) -> bodies
            for name, peer in c.brokers.items():
                for request in peer.asked:
                    if request.code in (SEND, BATCH):
                        entries = decode_batch(request.payload) if request.code == BATCH else ()
                        assert len(entries) <= max_messages and (not entries or len(request.payload) <= max_bytes)
                        bodies = [bytes(entry.body) for entry in entries] or [bytes(request.payload)]
                        stored.setdefault((name, int(request.ext["e"])), []).extend(bodies)
            everything = [int(each.split(b"/")[0]) for bodies in stored.values() for each in bodies]
            assert len(everything) == len(set(everything))
            for number, result in enumerate(found):
                if isinstance(result, asyncio.CancelledError):
                    assert sends[number][3]
                else:
                    there = stored[result.queue.broker_name, result.queue.queue_id][result.queue_offset]
                    assert there.startswith(b"%d/" % number)

    simulated(7, work, limit_s=3600.0)
