"""A group consumer while the name server lists a master that is gone: it goes on at the slave, and back."""

from __future__ import annotations

import asyncio
import json

import pytest

from gantrymq.client import Client
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

CLIENT = {"client_ip": "10.0.0.1", "instance_name": "one"}
CLIENT_ID = "10.0.0.1@one"
PULL, COMMIT = RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET


class Replica:
    """One of the replicas of broker a; all have the same records of the only queue of T."""

    def __init__(self, peer, broker_id, record):
        self.peer, self.id, self.stored, self.end = peer, broker_id, 0, 0
        self._record = record
        members = Command(0, body=json.dumps({"consumerIdList": [CLIENT_ID]}).encode())
        peer.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = members
        peer.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: Command(0, ext={"offset": str(self.stored)})
        peer.answers[COMMIT], peer.answers[PULL] = self._commit, self._pull

    def _commit(self, request):
        if request.ext["topic"] == "T":
            self.stored = int(request.ext["commitOffset"])
        return Command(0)

    def _pull(self, request):
        """Answer a pull; a master holds one that finds nothing for 15 s, a slave sends it to the master."""
        found = self._found(request, 20 if self.id else 19)
        if found.code == 19:
            self.peer.hold(request, 15, lambda asked: self._found(asked, 19))
            return None
        return found

    def _found(self, request, nothing):
        start = int(request.ext["queueOffset"])
        end = self.end if request.ext["topic"] == "T" else 0
        ext = {"suggestWhichBrokerId": "0", "minOffset": "0", "maxOffset": str(end), "nextBeginOffset": str(end)}
        if start >= end:
            return Command(nothing, ext={**ext, "nextBeginOffset": str(start)})
        records = [self._record(queue_offset=each, body=b"%d" % each) for each in range(start, end)]
        return Command(0, ext=ext, body=b"".join(records))


class Group:
    """A master and a slave that the name server lists whatever happens."""

    def __init__(self, cluster, world, record):
        self.cluster = cluster(world, "ab")
        self.master, self.slave = (
            Replica(peer, number, record) for number, peer in enumerate(self.cluster.brokers.values())
        )
        self.cluster.ns.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self._route

    def _route(self, request):
        addresses = {"0": self.master.peer.address, "1": self.slave.peer.address}
        broker = {"brokerAddrs": addresses, "brokerName": "a", "cluster": "C"}
        queues = {"brokerName": "a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}
        return Command(0, body=json.dumps({"brokerDatas": [broker], "queueDatas": [queues]}).encode())

    def put(self, count, *, master=True):
        """Add messages, to the master too unless it is gone."""
        self.slave.end += count
        if master:
            self.master.end = self.slave.end


@pytest.fixture
def run(simulate, cluster, record):
    """``run(work)`` runs ``await work(group, bodies, clock)``; *bodies*: what the consumer has got."""

    def run(work):
        async def main(world):
            group, bodies = Group(cluster, world, record), []

            async def consume(client):
                async with client.consumer("G", "T", consume_from="first") as consumer:
                    async for message in consumer:
                        bodies.append(int(message.body))

            async with group.cluster as c, Client(c.namesrv, world=world, **CLIENT) as client:
                consuming = asyncio.ensure_future(consume(client))
                group.put(3)
                await world.clock.sleep(10)
                assert bodies == [0, 1, 2] and group.master.stored == 3
                await work(group, bodies, world.clock)
                consuming.cancel()
                await asyncio.wait([consuming])

        simulate(main)

    return run


def test_the_group_goes_on_at_the_slave_and_back(run):
    async def work(group, bodies, clock):
        await group.master.peer.stop()
        group.put(2, master=False)
        await clock.sleep(7)
        assert bodies == [0, 1, 2, 3, 4]
        await clock.sleep(6)
        assert (group.master.stored, group.slave.stored) == (3, 5)
        pulls = len(group.master.peer.of(PULL))
        await group.master.peer.start()
        group.master.end = group.slave.end
        await clock.sleep(10)
        assert group.master.stored == 5  # although there are no new messages
        group.put(1)
        await clock.sleep(20)
        assert bodies == [0, 1, 2, 3, 4, 5] and group.master.stored == 6
        assert len(group.master.peer.of(PULL)) > pulls, "it reads from the slave only"

    run(work)


class Frozen(dict):
    """The answers of a peer that takes requests and answers nothing."""

    def get(self, *_):
        return None


def test_a_master_that_is_frozen_is_left_until_it_answers(run):
    """Its connection stays open, as that of a machine that lost its power."""

    async def work(group, bodies, clock):
        peer = group.master.peer
        answers, peer.answers = peer.answers, Frozen()
        group.put(2, master=False)
        await clock.sleep(30)  # the pull in flight ends 10 s after the master should have answered it
        assert bodies == [0, 1, 2, 3, 4]
        for count in range(5):
            group.put(1, master=False)
            await clock.sleep(12)
            assert len(bodies) == 6 + count
        assert (group.master.stored, group.slave.stored) == (3, 10)
        peer.answers, group.master.end = answers, group.slave.end
        await clock.sleep(15)
        assert group.master.stored == 10
        group.put(1)
        await clock.sleep(20)
        assert bodies == list(range(11)) and group.master.stored == 11

    run(work)


def test_another_member_that_went_on_at_the_master_is_not_set_back(run):
    """Only this client lost the master, and read from the slave meanwhile."""

    async def work(group, bodies, clock):
        await group.master.peer.stop()
        group.put(2, master=False)
        await clock.sleep(13)
        assert group.slave.stored == 5
        group.master.stored = group.master.end = group.slave.end = 8
        await group.master.peer.start()
        group.put(1)
        await clock.sleep(30)
        assert bodies == [0, 1, 2, 3, 4, 8] and group.master.stored == 9

    run(work)


def test_a_master_that_is_back_soon_is_waited_for(run):
    async def work(group, bodies, clock):
        await group.master.peer.stop()
        group.put(2, master=False)
        await clock.sleep(2)
        assert bodies == [0, 1, 2]
        await group.master.peer.start()
        group.master.end = group.slave.end
        await clock.sleep(10)
        assert bodies == [0, 1, 2, 3, 4] and group.master.stored == 5
        assert not group.slave.peer.of(COMMIT)

    run(work)
