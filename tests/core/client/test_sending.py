"""Many concurrent sends, and brokers that are temporarily unavailable; a scripted cluster on a virtual clock."""

import asyncio
import logging

import pytest
from scripted_cluster import Peer

from gantrymq.client import Client, SendFailed
from gantrymq.client.message import Message
from gantrymq.errors import CallTimeout, ClientError, ConnectFailed, ConnectionLost
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

SEND = RequestCode.SEND_MESSAGE_V2
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
MESSAGE = Message("T", b"hello")


class Slow:
    """Makes a peer answer one send after the other, each after a delay."""

    def __init__(self, world, peer, each_s):
        self._clock, self._each_s, self._free_at = world.clock, each_s, 0.0
        self._stored, self._requests = peer.answers[SEND], peer.requests
        peer.answers[SEND] = None
        peer.requests = self.requests
        self.waiting = self.most = 0

    def requests(self, connection, commands):
        self._requests(connection, commands)
        for command in commands:
            if command.code == SEND:
                self.waiting += 1
                self.most = max(self.most, self.waiting)
                self._free_at = max(self._free_at, self._clock.monotonic()) + self._each_s
                self._clock.call_later(self._free_at - self._clock.monotonic(), self._answer, connection, command)

    def _answer(self, connection, command):
        self.waiting -= 1
        answer = self._stored(command)
        connection.reply(command, Command(answer.code, ext=answer.ext))


async def outage(world, peer, seconds):
    """Make the peer unavailable for a while; connections to it are refused."""
    await peer.stop()
    await world.clock.sleep(seconds)
    await peer.start()


@pytest.mark.parametrize("kind", ["send", "send_async", "one queue"])
def test_sends_wait_for_their_turn_and_not_for_their_deadline(simulate, cluster, kind):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", max_under_way=100) as producer,
        ):
            slow = Slow(world, c.brokers["a"], 0.01)
            queue = (await producer.queues("T"))[0] if kind == "one queue" else None
            begin = producer.send_async if kind == "send_async" else producer.send
            begun = world.clock.monotonic()
            results = await asyncio.gather(*(begin(MESSAGE, queue=queue, timeout_s=3.0) for _ in range(1000)))
            assert all(result.ok for result in results)
            assert world.clock.monotonic() - begun > 9.9
            assert slow.most == 100

    simulate(work)


def test_messages_that_wait_reach_their_queue_in_the_order_of_the_calls(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", max_under_way=3) as producer,
        ):
            queue = (await producer.queues("T"))[0]
            bodies = [b"%d" % n for n in range(50)]
            await asyncio.gather(*(producer.send(Message("T", body), queue) for body in bodies))
            assert [request.payload for request in c.brokers["a"].of(SEND)] == bodies

    simulate(work)


def test_bytes_under_way_are_bounded(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", max_under_way_bytes=10_000) as producer,
        ):
            slow = Slow(world, c.brokers["a"], 0.01)
            await asyncio.gather(*(producer.send(Message("T", b"x" * 4000)) for _ in range(20)))
            assert slow.most == 2
            await producer.send(Message("T", b"x" * 50_000))

    simulate(work)


def test_a_broker_that_hangs_fails_those_under_way_and_those_in_line(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", max_under_way=10) as producer,
        ):
            c.brokers["a"].answers[SEND] = None
            begun = world.clock.monotonic()
            found = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(500)), return_exceptions=True)
            assert all(isinstance(each, SendFailed) and isinstance(each, TimeoutError) for each in found)
            assert {each.response_code for each in found} == {10002}
            assert world.clock.monotonic() - begun < 6.5

    simulate(work)


def test_a_line_at_one_broker_does_not_hold_up_the_other(simulate, cluster):
    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", max_under_way=10, attempt_timeout_s=0.5) as producer,
        ):
            c.brokers["a"].answers[SEND] = None
            begun = world.clock.monotonic()
            results = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(200)))
            assert {result.queue.broker_name for result in results} == {"b"}
            assert world.clock.monotonic() - begun < 1.5

    simulate(work)


def test_sends_that_are_cancelled_give_up_their_room(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", max_under_way=10) as producer,
        ):
            stored, c.brokers["a"].answers[SEND] = c.brokers["a"].answers[SEND], None
            tasks = [asyncio.ensure_future(producer.send(MESSAGE)) for _ in range(50)]
            await world.clock.sleep(1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            c.brokers["a"].answers[SEND] = stored
            results = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(50)))
            assert all(result.ok for result in results)

    simulate(work)


@pytest.mark.parametrize("kind", ["send", "send_async", "send_batch", "one queue"])
def test_a_broker_that_is_away_is_asked_again_until_the_deadline(simulate, cluster, kind):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", retries=0) as producer,
        ):
            queue = (await producer.queues("T"))[0] if kind == "one queue" else None
            await producer.send(MESSAGE)
            away = asyncio.ensure_future(outage(world, c.brokers["a"], 1.5))
            await world.clock.sleep(0.1)
            begun = world.clock.monotonic()
            if kind == "send_batch":
                result = await producer.send_batch([MESSAGE, MESSAGE])
            elif kind == "send_async":
                result = await producer.send_async(MESSAGE)
            else:
                result = await producer.send(MESSAGE, queue)
            assert result.ok
            assert 1.3 < world.clock.monotonic() - begun < 2.1
            await away

    simulate(work)


def test_a_broker_that_comes_back_at_another_address_is_found(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.send(MESSAGE)
            peer = c.brokers["a"]
            await peer.stop()
            peer._where = ("a", 20911)
            away = asyncio.ensure_future(peer.start())
            assert (await producer.send(MESSAGE)).ok
            await away

    simulate(work)


def test_the_send_after_a_timeout_goes_to_the_new_master(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.send(MESSAGE)
            frozen = c.brokers["a"]
            stored, frozen.answers[SEND] = frozen.answers[SEND], None
            elected = c.brokers["a"] = await Peer(world, "b", 10911).start()
            elected.answers = {**frozen.answers, SEND: stored}
            try:
                found = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(8)), return_exceptions=True)
                assert all(isinstance(each, SendFailed) for each in found)
                routes = len(c.ns.of(ROUTE))
                await world.clock.sleep(0.01)
                begun = world.clock.monotonic()
                assert (await producer.send(MESSAGE)).ok
                assert world.clock.monotonic() - begun < 0.1 and len(c.ns.of(ROUTE)) <= routes + 1
            finally:
                c.brokers["b"] = frozen  # both are stopped

    simulate(work)


def test_a_send_waits_for_a_route_with_a_master(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            whole = c.ns.answers[ROUTE]
            address = c.brokers["a"].address.encode()

            def without_master(request):
                found = whole(request)
                return Command(0, body=found.body.replace(b'"0": "%b"' % address, b'"1": "a2:10911"'))

            c.ns.answers[ROUTE] = without_master
            sending = asyncio.ensure_future(producer.send(MESSAGE))
            await world.clock.sleep(1)
            assert not sending.done()
            c.ns.answers[ROUTE] = whole
            await world.clock.sleep(0.6)
            assert sending.result().ok
            c.ns.answers[ROUTE] = without_master
            async with Client(c.namesrv, world=world) as other, other.producer("P") as late:
                with pytest.raises(SendFailed, match="no master"):
                    await late.send(MESSAGE)

    simulate(work)


def test_an_answer_that_was_lost_is_tried_again_and_counted(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            peer = c.brokers["a"]
            stored, peer.answers[SEND] = peer.answers[SEND], None
            queue = (await producer.queues("T"))[0]
            sends = [asyncio.ensure_future(producer.send(MESSAGE, to)) for to in (None, queue)]
            await world.clock.sleep(0.5)
            peer.answers[SEND] = stored
            await outage(world, peer, 0.5)
            assert (await sends[0]).ok
            with pytest.raises(ConnectionLost):
                await sends[1]
            assert len(peer.of(SEND)) == 3  # the message was written twice, and may be stored twice

    simulate(work)


@pytest.mark.parametrize("code", [14, 1500])
def test_a_broker_that_is_not_ready_is_asked_again(simulate, cluster, code):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            peer = c.brokers["a"]
            stored, peer.answers[SEND] = peer.answers[SEND], Command(code, remark="not yet")
            world.clock.call_later(1.0, peer.answers.__setitem__, SEND, stored)
            results = await asyncio.gather(producer.send(MESSAGE), producer.send_async(MESSAGE))
            assert all(result.ok for result in results)

    simulate(work)


def test_a_broker_that_stays_away_fails_the_send_at_its_deadline(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            queue = (await producer.queues("T"))[0]
            asked = len(c.ns.of(ROUTE))
            await c.brokers["a"].stop()
            begun = world.clock.monotonic()
            found = await asyncio.gather(
                *(producer.send(MESSAGE) for _ in range(100)), producer.send(MESSAGE, queue), return_exceptions=True
            )
            assert all(isinstance(each, SendFailed) for each in found[:-1])
            assert {each.response_code for each in found[:-1]} == {10001}
            assert isinstance(found[-1], ConnectFailed)
            assert 2.8 < world.clock.monotonic() - begun < 3.1
            assert max(len(each.brokers) for each in found[:-1]) < 20
            assert len(c.ns.of(ROUTE)) - asked < 60  # not once for every send

    simulate(work)


def test_the_line_behind_a_broker_that_is_away_does_not_all_try(simulate, cluster):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", max_under_way=5) as producer,
        ):
            await producer.send(MESSAGE)
            away = asyncio.ensure_future(outage(world, c.brokers["a"], 1.0))
            await world.clock.sleep(0.1)
            results = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(200)))
            assert all(result.ok for result in results)
            assert len(c.brokers["a"].of(SEND)) == 201
            await away

    simulate(work)


def test_a_producer_that_is_closed_tries_no_more(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client:
            producer = client.producer("P", max_under_way=1)
            await producer.queues("T")
            await c.brokers["a"].stop()
            tasks = [asyncio.ensure_future(producer.send(MESSAGE)) for _ in range(3)]
            await world.clock.sleep(0.5)
            await producer.close()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(each) for each in found} == {ClientError}
            assert {str(each) for each in found} == {"this Producer was closed before the message was sent"}

    simulate(work)


def test_oneway_has_one_attempt(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            await producer.queues("T")
            await c.brokers["a"].stop()
            begun = world.clock.monotonic()
            with pytest.raises(ConnectFailed):
                await producer.send_oneway(MESSAGE)
            assert world.clock.monotonic() - begun < 0.1

    simulate(work)


def test_oneway_gives_others_their_turn(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            turns = 0

            async def other():
                nonlocal turns
                while True:
                    await world.clock.sleep(0)
                    turns += 1

            await producer.send_oneway(MESSAGE)
            beside = asyncio.ensure_future(other())
            for _ in range(1000):
                await producer.send_oneway(MESSAGE)
            beside.cancel()
            assert turns > 10
            await world.clock.sleep(1)
            assert len(c.brokers["a"].of(SEND)) == 1001

    simulate(work)


def test_oneway_waits_for_a_broker_that_reads_slowly_and_says_what_was_dropped(simulate, cluster, caplog):
    caplog.set_level(logging.WARNING)

    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            peer = c.brokers["a"]
            await producer.send(MESSAGE)
            large = Message("T", bytes(range(256)) * 2000)
            for connection in peer.connections:
                connection.pause_reading()
            found = await asyncio.gather(*(producer.send_oneway(large) for _ in range(3000)), return_exceptions=True)
            taken = sum(each is None for each in found)
            assert 0 < taken < 1500
            assert {type(each) for each in found if each is not None} == {CallTimeout}
            for connection in peer.connections:
                connection.abort()
            await world.clock.sleep(1)
            assert 0 < producer.oneways_dropped <= taken
            assert f"lost with {producer.oneways_dropped} oneway requests unwritten" in caplog.text

    simulate(work)
