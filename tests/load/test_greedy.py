"""Connections that each request hundreds of answers of a megabyte and read none: their cost for a broker, and for how
long.
"""

import asyncio

import pytest
from load_rig import (
    Answer,
    BrokerProcess,
    Connection,
    connect,
    create_topic_request,
    members_request,
    pull_request,
    send_request,
)
from polling import until

BODY_BYTES = 1024 * 1024
MESSAGES = 16
EACH_BYTES = 4 * 1024 * 1024  # the most that one such connection may cost
OTHERS_S = 2.0  # the longest that others may wait for an answer meanwhile, on an otherwise busy machine
ANSWER_S = 240.0
GIVEN_BACK_S = 30.0
LEFT_BYTES = 24 * 1024 * 1024  # memory of the waiting requests is not released while other objects share its arenas


def test_ten_connections_that_read_nothing() -> None:
    asyncio.run(greedy(10, 100, read=False))


@pytest.mark.long
@pytest.mark.parametrize("read", [False, True], ids=["never", "in the end"])
def test_thirty_connections_with_four_hundred_pulls_each(read: bool) -> None:
    asyncio.run(greedy(30, 400, read=read))


async def greedy(count: int, pulls: int, *, read: bool) -> None:
    with BrokerProcess({"flushDiskType": "ASYNC_FLUSH"}) as broker:
        (other,) = await connect(broker.address)
        assert (await other.call(create_topic_request("Big", 1))).code == 0
        for _ in range(MESSAGES):
            assert (await other.call(send_request("Big", 0, bytes(BODY_BYTES)))).code == 0
        before = broker.private_bytes()
        crowd = await connect(broker.address, count)
        for number in range(pulls):
            for each in crowd:
                each.stop_reading()
                each.ask(pull_request("Big", 0, number % MESSAGES, "greedy"), checked)
        most = before
        slowest = 0.0
        for _ in range(40):
            slowest = max(slowest, (await other.call(members_request("nobody"))).took_s)
            most = max(most, broker.private_bytes())
            await asyncio.sleep(0.05)  # real time: interval of the samples
        assert most - before < count * EACH_BYTES
        assert slowest < OTHERS_S
        if read:
            for each in crowd:
                each.read_on()
            await until(lambda: not any(each.waiting for each in crowd), "answers", ANSWER_S)
            assert [each.strays for each in crowd] == [0] * count
        assert not any(each.lost for each in crowd)
        for each in crowd:
            each.close()
        await until(lambda: broker.private_bytes() < before + LEFT_BYTES, "release of memory", GIVEN_BACK_S)


def checked(_: Connection, answer: Answer) -> None:
    assert answer.code == 0
