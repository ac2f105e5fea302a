"""Clients that send many requests without reading: unread responses are limited, and all arrive once they read."""

from __future__ import annotations

import asyncio

import pytest
from broker_desk import Peer, pull_ext

BODY_BYTES = 500_000
ASKED = 60
BOUND_BYTES = 3_000_000  # a megabyte may wait, and the next answer
QUIET_S = 5.0
NOTICE = 40


async def stopped(desk):
    """A peer that does not read, with both ends of its connection."""
    peer = desk.peer()
    await peer.heartbeat("slow", client_id="slow")
    (end,) = desk.tables.clients.consumer_group("slow").members
    own = await peer.client.connect("10.0.0.1:10911")
    own._writes.transport.pause_reading()
    return peer, own, end


def pulls(peer, topic="T", **fields):
    return [peer.later(11, pull_ext(topic, 0, **fields)) for _ in range(ASKED)]


@pytest.mark.parametrize("held", [False, True], ids=["at once", "held"])
def test_of_long_answers_only_some_wait_for_a_peer_that_does_not_read(broker, held):
    async def main(desk):
        await desk.send("T" if not held else "Other", bytes(BODY_BYTES))
        await desk.send("T", b"first", queue_id=1)
        peer, own, end = await stopped(desk)
        asked = pulls(peer, wait_s=30 if held else 0)
        await desk.clock.sleep(QUIET_S)
        if held:
            assert end.unwritten_bytes == 0
            await desk.send("T", bytes(BODY_BYTES))
            await desk.clock.sleep(QUIET_S)
        assert BODY_BYTES < end.unwritten_bytes < BOUND_BYTES
        assert (await desk.pull("T", 0, maxMsgNums="1")).code == 0  # others are served
        own._writes.transport.resume_reading()
        answers = await asyncio.gather(*asked)
        assert [(answer.code, len(answer.payload) > BODY_BYTES) for answer in answers] == [(0, True)] * ASKED
        assert end.unwritten_bytes == 0

    broker(main)


def test_a_peer_that_leaves_takes_what_waited_for_it_along(broker):
    async def main(desk):
        await desk.send("T", bytes(BODY_BYTES))
        peer, _own, end = await stopped(desk)
        asked = pulls(peer)
        await desk.clock.sleep(QUIET_S)
        await peer.client.close()
        await desk.clock.sleep(QUIET_S)
        assert end.closed
        assert not end.response_limiter.busy
        assert all(isinstance(answer, Exception) for answer in await asyncio.gather(*asked, return_exceptions=True))

    broker(main)


def test_requests_of_other_kinds_wait_too_and_keep_their_order(broker):
    async def main(desk):
        await desk.send("T", bytes(BODY_BYTES), properties="UNIQ_KEY\x01U\x02")
        peer, own, end = await stopped(desk)
        view = {"offset": "0", "topic": "T"}
        asked = [peer.later(33, view) for _ in range(ASKED)]
        await desk.clock.sleep(QUIET_S)
        assert BODY_BYTES < end.unwritten_bytes < BOUND_BYTES
        own._writes.transport.resume_reading()
        assert {answer.code for answer in await asyncio.gather(*asked)} == {0}

    broker(main)


def test_a_member_that_reads_nothing_is_told_of_a_change_once(broker):
    async def main(desk):
        await desk.send("T", bytes(BODY_BYTES))
        peer, own, end = await stopped(desk)
        pulls(peer)
        await desk.clock.sleep(QUIET_S)
        before = end.unwritten_bytes
        for number in range(200):
            other = Peer(desk.world)
            await other.heartbeat("slow", client_id=f"c{number}")
            await other.client.close()
            await desk.clock.sleep(0.1)
        assert end.unwritten_bytes - before < 1000
        own._writes.transport.resume_reading()
        await desk.clock.sleep(QUIET_S)
        assert 1 <= len([command for command in peer.asked if command.code == NOTICE]) < 5
        await desk.peer().heartbeat("slow", client_id="late")
        await desk.clock.sleep(QUIET_S)
        assert peer.asked[-1].code == NOTICE

    broker(main)
