"""Selectors, least latency and latency fault tolerance of a producer, with scripted brokers on a virtual clock."""

import asyncio
from collections import Counter

import pytest

from gantrymq.client import Balancing, Client, Producer, SendFailed, at_random, by_key
from gantrymq.client.message import Message
from gantrymq.errors import BrokerRefused, CallTimeout, InvalidParameter
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

SEND = RequestCode.SEND_MESSAGE_V2
MAX_OFFSET = RequestCode.GET_MAX_OFFSET
MESSAGE = Message("T", b"hello")
KINDS = ["send", "send_soon", "send_async"]


def slow(world, peer, seconds):
    """The peer answers each send after *seconds*, which may be changed."""
    takes = [seconds]
    stored, requests = peer.answers[SEND], peer.requests
    peer.answers[SEND] = None

    def later(connection, commands):
        requests(connection, commands)
        for command in commands:
            if command.code == SEND:
                answer = stored(command)
                world.clock.call_later(takes[0], connection.reply, command, Command(answer.code, ext=answer.ext))

    peer.requests = later
    return takes


def brokers(results):
    return Counter(result.queue.broker_name for result in results)


@pytest.mark.parametrize("kind", KINDS)
def test_the_producers_selector_chooses_where_the_send_does_not(simulate, cluster, kind):
    async def work(world):
        selector = by_key(lambda message: message.keys or "")
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", selector=selector) as producer,
        ):
            send = getattr(producer, kind)
            queues = await producer.queues("T")
            for key in ("ann", "bob", "eve"):
                chosen = by_key(key)(queues, MESSAGE)
                results = [await send(Message("T", b"x", keys=key)) for _ in range(5)]
                assert {result.queue for result in results} == {chosen}
            assert len({(await send(MESSAGE, queue=Balancing.ROUND_ROBIN)).queue for _ in range(8)}) == 8
            assert len({(await send(MESSAGE, queue=at_random(world.random))).queue for _ in range(40)}) > 4
            assert (await send(MESSAGE, queue=queues[3])).queue == queues[3]

    simulate(work)


def test_a_selector_of_ones_own_sees_message_and_queues(simulate, cluster):
    def last_for_vip(queues, message):
        return queues[-1 if message.tags == "vip" else 0]

    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", selector=last_for_vip) as producer,
        ):
            assert (await producer.send(Message("T", b"x", tags="vip"))).queue == MessageQueue("T", "b", 3)
            assert (await producer.send(MESSAGE)).queue == MessageQueue("T", "a", 0)
            await producer.send_oneway(Message("T", b"x", tags="vip"))
            await producer.send_batch([Message("T", b"x", tags="vip")] * 2)
            await world.clock.sleep(1)
            assert c.sends() == ["a", "b", "b", "b"]
            with pytest.raises(InvalidParameter, match="selector of a message to T returned 3"):
                await producer.send(MESSAGE, lambda queues, _: 3)
            with pytest.raises(InvalidParameter, match="one of U"):
                await producer.send(MESSAGE, lambda queues, _: MessageQueue("U", "a", 0))
            with pytest.raises(ZeroDivisionError):
                await producer.send(MESSAGE, lambda queues, _: 1 / 0)

    simulate(work)


def test_what_a_selector_chose_is_tried_nowhere_else(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            c.brokers["a"].answers[SEND] = Command(2, remark="busy")
            with pytest.raises(BrokerRefused):
                await producer.send(MESSAGE, lambda queues, _: queues[0])
            assert c.sends() == ["a"]

    simulate(work)


def test_with_least_latency_the_quicker_broker_gets_nearly_all_until_it_is_the_slower_one(simulate, cluster):
    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", selector=Balancing.LEAST_LATENCY) as producer,
        ):
            of_a, of_b = (slow(world, c.brokers[name], seconds) for name, seconds in (("a", 0.2), ("b", 0.01)))
            first = brokers([await producer.send(MESSAGE) for _ in range(200)])
            assert first["b"] > 190
            of_a[0], of_b[0] = 0.01, 0.2
            then = brokers([await producer.send(MESSAGE) for _ in range(200)])
            assert then["a"] > 150
            both = brokers(await asyncio.gather(*(producer.send(MESSAGE) for _ in range(300))))
            assert both["a"] > 2 * both["b"] > 0  # sends in flight count

    simulate(work)


def test_with_least_latency_a_failed_send_goes_elsewhere(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            c.brokers["a"].answers[SEND] = Command(2, remark="busy")
            results = [await producer.send(MESSAGE, Balancing.LEAST_LATENCY) for _ in range(20)]
            assert brokers(results) == {"b": 20}
            assert len(c.brokers["a"].of(SEND)) <= 1

    simulate(work)


@pytest.mark.parametrize("tolerant", [False, True])
def test_a_slow_broker_is_left_alone_for_its_time(simulate, cluster, tolerant):
    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", latency_fault_tolerance=tolerant) as producer,
        ):
            slow(world, c.brokers["a"], 0.6)  # for 2 s
            queues = await producer.queues("T")
            await producer.send(MESSAGE, queues[0])
            found = brokers([await producer.send(MESSAGE) for _ in range(16)])
            assert found == ({"b": 16} if tolerant else {"a": 8, "b": 8})
            await world.clock.sleep(2.1)
            assert brokers(await asyncio.gather(*(producer.send(MESSAGE) for _ in range(16)))) == {"a": 8, "b": 8}

    simulate(work)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failure", ["busy", "silent", "away"])
def test_a_broker_that_fails_is_not_asked_for_ten_seconds(simulate, cluster, kind, failure):
    async def work(world):
        options = {"latency_fault_tolerance": True, "attempt_timeout_s": 0.5}
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", **options) as producer,
        ):
            a = c.brokers["a"]
            stored = a.answers[SEND]
            await producer.queues("T")
            if failure == "away":
                await a.stop()
            else:
                a.answers[SEND] = Command(2, remark="busy") if failure == "busy" else None
            for _ in range(10):  # until one send met it
                await asyncio.gather(getattr(producer, kind)(MESSAGE), return_exceptions=True)
            begun, before = world.clock.monotonic(), len(a.of(SEND))
            assert brokers([await getattr(producer, kind)(MESSAGE) for _ in range(50)]) == {"b": 50}
            assert (world.clock.monotonic() - begun < 0.1, len(a.of(SEND))) == (True, before)
            a.answers[SEND] = stored
            if failure == "away":
                await a.start()
            await world.clock.sleep(10.1)
            assert brokers([await producer.send(MESSAGE) for _ in range(8)]) == {"a": 4, "b": 4}

    simulate(work)


def test_what_the_message_is_refused_for_says_nothing_of_the_broker(simulate, cluster):
    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", latency_fault_tolerance=True) as producer,
        ):
            a = c.brokers["a"]
            stored, a.answers[SEND] = a.answers[SEND], Command(13, remark="too long")
            await asyncio.gather(*(producer.send(MESSAGE) for _ in range(8)), return_exceptions=True)
            a.answers[SEND] = stored
            assert brokers([await producer.send(MESSAGE) for _ in range(8)]) == {"a": 4, "b": 4}

    simulate(work)


def test_where_all_have_failed_all_are_tried(simulate, cluster):
    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", latency_fault_tolerance=True) as producer,
        ):
            answers = {name: peer.answers[SEND] for name, peer in c.brokers.items()}
            for peer in c.brokers.values():
                peer.answers[SEND] = Command(2, remark="busy")
            with pytest.raises(SendFailed):
                await producer.send(MESSAGE)
            for name, peer in c.brokers.items():
                peer.answers[SEND] = answers[name]
            assert (await producer.send(MESSAGE)).ok

    simulate(work)


def test_the_detector_finds_a_broker_that_is_back(simulate, cluster):
    """Both brokers are isolated; the one that answers the detector is the one to try."""

    async def work(world):
        options = {"latency_fault_tolerance": True, "detect_faults": True, "attempt_timeout_s": 0.2, "retries": 1}
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", **options) as producer,
        ):
            a, b = c.brokers["a"], c.brokers["b"]
            stored = a.answers[SEND]
            for peer in (a, b):
                peer.answers |= {SEND: None, MAX_OFFSET: None}
            with pytest.raises(SendFailed):
                await producer.send(MESSAGE, timeout_s=0.5)
            a.answers |= {SEND: stored, MAX_OFFSET: Command(0, ext={"offset": "0"})}
            await world.clock.sleep(3.5)
            assert len(a.of(MAX_OFFSET)) == len(b.of(MAX_OFFSET)) == 1
            before = len(b.of(SEND))
            assert brokers([await producer.send(MESSAGE) for _ in range(8)]) == {"a": 8}
            assert len(b.of(SEND)) == before
            await world.clock.sleep(6)
            assert (len(a.of(MAX_OFFSET)), len(b.of(MAX_OFFSET))) == (1, 3)  # until it answers

    simulate(work)


def test_a_broker_that_no_route_names_is_looked_for_no_more(simulate, cluster):
    async def work(world):
        options = {"latency_fault_tolerance": True, "detect_faults": True}
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", **options) as producer,
        ):
            gone = c.brokers["a"]
            gone.answers |= {SEND: None, MAX_OFFSET: None}
            with pytest.raises(CallTimeout):
                await producer.send(MESSAGE, MessageQueue("T", "a", 0))
            await world.clock.sleep(10)  # the next refresh is that of every 30 s
            del c.brokers["a"]
            await world.clock.sleep(31)
            asked = len(gone.of(MAX_OFFSET))
            assert asked > 3
            await world.clock.sleep(60)
            assert len(gone.of(MAX_OFFSET)) - asked <= 1
            await gone.stop()

    simulate(work)


def test_a_detector_without_tolerance_is_refused():
    with pytest.raises(InvalidParameter, match="latency_fault_tolerance"):
        Producer("P", detect_faults=True)


@pytest.mark.parametrize("option", ["retries", "default_timeout_s", "max_under_way", "compress_over_bytes"])
def test_options_have_bounds(option):
    with pytest.raises(InvalidParameter, match=rf"{option} is -1; expected [01] or more"):
        Producer("P", **{option: -1})


def test_time_of_sends_that_name_none(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", default_timeout_s=7.0) as producer,
        ):
            c.brokers["a"].answers[SEND] = None
            for timeout_s, takes_s in ((None, 7.0), (1.0, 1.0)):
                begun = world.clock.monotonic()
                with pytest.raises(SendFailed):
                    await producer.send(MESSAGE, timeout_s=timeout_s)
                assert takes_s - 0.1 < world.clock.monotonic() - begun < takes_s + 0.1

    simulate(work)
