"""Pulls from slaves: as suggested, while the master is down, and back."""

from __future__ import annotations

import json

import pytest

from gantrymq.client import Client, PullStatus
from gantrymq.errors import BrokerRefused, ClientError, ConnectFailed, ConnectionLost
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

PULL = RequestCode.PULL_MESSAGE
QUEUE = MessageQueue("T", "a", 0)


def answer(code: int = 0, *records: bytes, suggest: int = 0, next_offset: int = 9) -> Command:
    ext = {"suggestWhichBrokerId": str(suggest), "nextBeginOffset": str(next_offset), "minOffset": "0"}
    return Command(code, ext={**ext, "maxOffset": "20"}, body=b"".join(records))


class Group:
    """The master and the slaves 1 and 2 of broker name a."""

    def __init__(self, cluster, world, ids=(0, 1)):
        self.cluster = cluster(world, "abc"[: len(ids)])
        self.peers = dict(zip(ids, self.cluster.brokers.values(), strict=True))
        self.listed = list(ids)
        self.cluster.ns.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self._route

    def _route(self, request):
        broker = {
            "brokerAddrs": {str(each): self.peers[each].address for each in self.listed},
            "brokerName": "a",
            "cluster": "C",
        }
        queues = {"brokerName": "a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}
        return Command(0, body=json.dumps({"brokerDatas": [broker], "queueDatas": [queues]}).encode())

    def pulled(self):
        return {broker_id: len(peer.of(PULL)) for broker_id, peer in self.peers.items()}


@pytest.fixture
def run(simulate, cluster):
    """``run(work)`` runs ``await work(group, reader, clock)``; every replica answers pulls with a record."""

    def run(work, record, ids=(0, 1)):
        async def main(world):
            group = Group(cluster, world, ids)
            for peer in group.peers.values():
                peer.answers[PULL] = answer(0, record())
            async with (
                group.cluster as c,
                Client(c.namesrv, world=world) as client,
                client.reader(group="G") as reader,
            ):
                await work(group, reader, world.clock)

        simulate(main)

    return run


def test_a_suggestion_is_followed_to_a_slave_and_back(run, record):
    async def work(group, reader, clock):
        group.peers[0].answers[PULL] = answer(0, record(), suggest=1)
        await reader.pull(QUEUE, 0)
        await reader.pull(QUEUE, 1)
        assert group.pulled() == {0: 1, 1: 1}
        await reader.pull(QUEUE, 2)
        assert group.pulled() == {0: 2, 1: 1}

    run(work, record)


def test_a_suggested_id_that_is_not_there_is_replaced_by_another_slave(run, record):
    async def work(group, reader, clock):
        group.peers[0].answers[PULL] = answer(0, record(), suggest=1)
        await reader.pull(QUEUE, 0)
        await reader.pull(QUEUE, 1)
        assert group.pulled() == {0: 1, 2: 1}

    run(work, record, (0, 2))


@pytest.mark.parametrize("listed", [[0, 1], [1]])
def test_while_the_master_is_down_its_slave_is_read(run, record, listed):
    """With either route: a name server may not have noticed."""

    async def work(group, reader, clock):
        await reader.pull(QUEUE, 0)
        await group.peers[0].stop()
        group.listed = listed
        with pytest.raises((ConnectFailed, ConnectionLost)):
            await reader.pull(QUEUE, 1)
        for offset in (1, 2, 3):
            await reader.pull(QUEUE, offset)
        assert group.pulled() == {0: 1, 1: 3}
        await group.peers[0].start()
        group.listed = [0, 1]
        await clock.sleep(31)  # the route is fetched again
        await reader.pull(QUEUE, 4)
        assert group.pulled() == {0: 2, 1: 3}

    run(work, record)


def test_a_route_is_fetched_once_for_many_failures(run, record):
    async def work(group, reader, clock):
        await reader.pull(QUEUE, 0)
        await group.peers[0].stop()
        asked = len(group.cluster.ns.asked)
        for _ in range(5):
            with pytest.raises((ConnectFailed, ConnectionLost)):
                await reader.pull(QUEUE, 1)
        assert len(group.cluster.ns.asked) == asked + 1

    run(work, record, (0,))


def test_a_slave_that_refuses_readers_is_not_asked_again_at_once(run, record):
    async def work(group, reader, clock):
        group.peers[0].answers[PULL] = answer(0, record(), suggest=1)
        group.peers[1].answers[PULL] = Command(2, remark="[REJECTREQUEST]system busy")
        await reader.pull(QUEUE, 0)
        with pytest.raises(BrokerRefused):
            await reader.pull(QUEUE, 1)
        group.peers[0].answers[PULL] = answer(0, record())
        await reader.pull(QUEUE, 1)
        assert group.pulled() == {0: 2, 1: 1}

    run(work, record)


@pytest.mark.parametrize("sent", ["", "x"])
def test_an_unreadable_offset_of_a_slave_is_an_error_of_the_client(run, record, sent):
    async def work(group, reader, clock):
        group.listed = [1]
        group.peers[1].answers[PULL] = answer(20, next_offset=sent)
        with pytest.raises(ClientError):
            await reader.pull(QUEUE, 7, suspend_ms=15_000)

    run(work, record)


@pytest.mark.parametrize("sent", [7, 3])
def test_at_the_end_of_a_slave_the_offset_stays_and_the_client_waits(run, record, sent):
    """A slave of RocketMQ that is behind answers with its own end, 3, to a pull from 7."""

    async def work(group, reader, clock):
        group.listed = [1]
        group.peers[1].answers[PULL] = answer(20, next_offset=sent)
        began = clock.monotonic()
        result = await reader.pull(QUEUE, 7, suspend_ms=15_000)
        assert (result.status, result.next_offset) == (PullStatus.NO_MATCHED_MSG, 7)
        assert 0.19 < clock.monotonic() - began < 0.3
        group.peers[1].answers[PULL] = answer(20, next_offset=9)  # a filter skipped some
        result = await reader.pull(QUEUE, 7, suspend_ms=15_000)
        assert result.next_offset == 9
        assert clock.monotonic() - began < 0.4

    run(work, record)
