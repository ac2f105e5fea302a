"""Pops of large messages: an answer has at most 16 MiB, and what does not fit into it can be popped at once."""

import asyncio

import pytest

from gantrymq.broker.messages import BrokerMessages
from gantrymq.errors import ServiceNotAvailable
from gantrymq.formats.record import read_record
from gantrymq.interfaces import LocalClient, PopRequest

MIB = 1024 * 1024
SHARED = {  # several records in one buffer
    "store": "mmap",
    "mappedFileSizeCommitLog": 64 * MIB,
    "maxTransferBytesOnMessageInMemory": 64 * MIB,
}
FRAME = 16 * MIB  # as much as RocketMQ's clients take


def numbers(answer):
    return [each.body[0] for each in answer.messages]


def body(number, mebibytes=3.5):
    return bytes([number]) * int(mebibytes * MIB)


def size(answer):
    return sum(len(each.body) for each in answer.messages)


async def pop_all(client, **more):
    """Pop until there is nothing, and return the numbers of the messages of each answer."""
    found = []
    while (answer := await client.pop(**more)).code == 0:
        assert size(answer) < FRAME
        found.append(numbers(answer))
        for each in answer.messages:
            assert (await client.ack(each)).code == 0
    assert answer.code == 210
    return found


@pytest.mark.parametrize("settings", [{}, SHARED], ids=["memory", "mmap"])
def test_messages_without_room_in_an_answer_are_in_the_next_one(popped, settings):
    async def main(client):
        await client.pop()
        for number in range(10):
            await client.send(body(number), queue_id=int(number >= 7))
        answers = await pop_all(client)
        assert [len(each) for each in answers] == [4, 4, 2]
        assert sorted(each for answer in answers for each in answer) == list(range(10))
        queue = [number for each in answers for number in each if number < 7]
        assert queue == list(range(7))
        assert (await client.pop(poll=30_000)).code == 210

    if settings:
        pytest.importorskip("gantrymq_storage_mmap")
    popped(main, settings=settings)


def test_a_message_that_is_larger_than_an_answer_is_popped_alone(popped):
    async def main(client):
        await client.pop()
        await client.send(b"\x01", body(2, 16 - 1 / 32), b"\x03")
        await client.send(b"\x04", queue_id=1)
        answers = []
        while (answer := await client.pop(queue=0)).code == 0:
            answers.append(numbers(answer))
        assert answers == [[1], [2], [3]]
        assert numbers(await client.pop()) == [4]

    popped(main, settings={"maxMessageSize": 16 * MIB})


def test_a_queue_that_does_not_fit_is_read_by_the_next_pop(popped):
    async def main(client):
        await client.pop()
        queues = [[*range(4), 100], [*range(10, 14), 110]]
        for queue_id, queue in enumerate(queues):
            await client.send(*(body(each, 3.5 if each < 100 else 0.001) for each in queue), queue_id=queue_id)
        assert sorted(await pop_all(client)) == queues

    popped(main)


def test_retried_messages_and_new_ones_share_the_room(popped):
    async def main(client):
        await client.send(*map(body, range(4)))
        assert numbers(await client.pop(invisible=1000)) == [0, 1, 2, 3]
        await client.send(*map(body, range(4, 8)), queue_id=1)
        await client.clock.sleep(5)
        answers = await pop_all(client)
        assert [len(each) for each in answers] == [4, 4]
        assert sorted(each for answer in answers for each in answer) == list(range(8))

    popped(main)


def test_messages_in_order_stay_in_order(popped):
    async def main(client):
        await client.pop(order="true")
        await client.send(*map(body, range(9)))
        first = await client.pop(order="true", queue=0, attemptId="a")
        assert numbers(first) == [0, 1, 2, 3]
        assert numbers(await client.pop(order="true", queue=0, attemptId="a")) == [0, 1, 2, 3]
        assert (await client.pop(order="true", queue=0)).code == 210
        await client.clock.sleep(11)
        answers = await pop_all(client, order="true", queue=0)
        assert answers == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]

    popped(main)


def test_messages_that_the_filter_rejects_take_no_room(popped):
    async def main(client):
        await client.pop()
        for number in range(12):
            await client.send(body(number, 3.5 if number % 2 else 1), tags="AB"[number % 2])
        answers = await pop_all(client, exp="B", expType="TAG")
        assert answers == [[1, 3, 5, 7], [9, 11]]

    popped(main)


def test_messages_of_a_pop_whose_checkpoint_is_refused_are_all_popped_again(popped, monkeypatch):
    """The refused range ends before the messages without room, and is read first the next time."""

    async def refuse(messages, asked, **more):
        raise ServiceNotAvailable("refused by the test")

    async def main(client):
        await client.pop()
        await client.send(*map(body, range(7)))
        with monkeypatch.context() as patched:
            patched.setattr(BrokerMessages, "put_all", refuse)
            assert (await client.pop()).code == 14
        assert await pop_all(client) == [[0, 1, 2, 3], [4, 5, 6]]

    popped(main)


def counted(monkeypatch):
    """Return the number of appends in progress, each time that one begins."""
    storing, found = [0], []
    put_all = BrokerMessages.put_all

    async def put(messages, asked, **more):
        storing[0] += 1
        found.append(storing[0])
        try:
            return await put_all(messages, asked, **more)
        finally:
            storing[0] -= 1

    monkeypatch.setattr(BrokerMessages, "put_all", put)
    return found


async def pop_at_once(client):
    """Pop with six clients at once, and return the numbers of the messages."""
    pop, wanted = client.cluster.broker.service("pop"), PopRequest("CG", "T", max_count=32, wait_ms=5_000)
    clients = [LocalClient(("192.0.2.1", port)) for port in range(6)]
    answers = await asyncio.gather(*(pop.receive(wanted, each) for each in clients))
    return sorted(each.record.body[0] for answer in answers for each in answer.messages())


def test_pops_at_once_hold_the_messages_of_two_answers(popped, monkeypatch):
    """The others wait before they read, until checkpoints are stored."""

    async def main(client):
        await client.pop()
        await client.send(*map(body, range(24)))
        appends = counted(monkeypatch)
        assert await pop_at_once(client) == list(range(24))
        assert max(appends) == 2

    popped(main)


def test_messages_that_come_again_at_once_are_copied_a_few_at_a_time(popped, monkeypatch):
    async def main(client):
        await client.pop()
        await client.send(*map(body, range(24)))
        assert await pop_at_once(client) == list(range(24))
        await client.clock.sleep(55)
        appends = counted(monkeypatch)
        await client.clock.sleep(10)
        assert max(appends) == 2
        assert await pop_at_once(client) == list(range(24))

    popped(main)


def test_a_peek_has_as_much_room(popped):
    async def main(client):
        await client.pop()
        for queue_id in (0, 1):
            await client.send(*(body(queue_id * 10 + number) for number in range(3)), queue_id=queue_id)
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": "-1", "maxMsgNums": "32"}
        answer = await client.ask(200052, ext)
        assert (answer.code, answer.ext["restNum"]) == (0, "6")
        assert len(answer.payload) < FRAME
        assert len(answer.payload) > 14 * MIB
        assert read_record(answer.payload).topic == "T"

    popped(main)
