import asyncio
from contextlib import aclosing

import pytest

from gantrymq.client import Client
from gantrymq.client.calls.outages import Outages
from gantrymq.client.reading.queue_reading import follow, is_transient, read
from gantrymq.errors import BrokerRefused
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

PULL = RequestCode.PULL_MESSAGE
QUEUE = MessageQueue("T", "a", 0)


class Log:
    """A queue that holds offsets *first* to *last*, and answers pulls of up to *step* of them."""

    def __init__(self, record, first: int, last: int, step: int = 3) -> None:
        self.record, self.first, self.last, self.step = record, first, last, step

    def __call__(self, request: Command) -> Command:
        at, end = int(request.ext["queueOffset"]), self.last + 1
        if at < self.first or at > end:
            return self.answer(21, self.first if at < self.first else end)
        if at == end:
            return self.answer(19, at)
        upto = min(at + self.step, end)
        return self.answer(0, upto, b"".join(self.record(queue_offset=i) for i in range(at, upto)))

    def answer(self, code: int, next_offset: int, body: bytes | None = None) -> Command:
        ext = {"nextBeginOffset": str(next_offset), "minOffset": str(self.first), "maxOffset": str(self.last + 1)}
        return Command(code, ext=ext, body=body)


def followed(consumer, start, told, outages=None):
    """Return the messages of QUEUE from *start*; *told* receives warnings, and outages unless they are given."""
    clock = consumer._started().world.clock
    outages = outages or Outages(clock, told.append)
    return follow(consumer, QUEUE, start, clock=clock, outages=outages, problem=told.append)


@pytest.mark.parametrize(
    ("first", "last", "start", "expected"),
    [(0, 7, 0, range(8)), (0, 7, 5, range(5, 8)), (4, 7, 0, range(4, 8)), (0, -1, 0, range(0)), (0, 7, 99, range(0))],
)
def test_queue_is_read_to_its_end(simulate, cluster, record, first, last, start, expected):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            c.brokers["a"].answers[PULL] = Log(record, first, last)
            return [message.queue_offset async for message in read(consumer, QUEUE, start)]

    assert simulate(work) == list(expected)


@pytest.mark.parametrize("stream", ["read", "follow"])
def test_a_body_that_cannot_be_decompressed_stops_nobody(simulate, cluster, record, stream):
    async def work(world):
        def stored(queue_offset):
            spoilt = {"body": b"damaged", "sys_flag": 0x301} if queue_offset in (3, 4) else {}
            return record(queue_offset=queue_offset, **spoilt)

        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            c.brokers["a"].answers[PULL] = Log(stored, 0, 7)
            told = []
            if stream == "read":
                messages = read(consumer, QUEUE, 0)
            else:
                messages = followed(consumer, 0, told, outages=Outages(world.clock))
            found = []
            async with aclosing(messages):
                async for message in messages:
                    found.append((message.queue_offset, bool(message.body_problem)))
                    if message.queue_offset == 7:
                        break
            return found, told

    assert simulate(work) == ([(number, number in (3, 4)) for number in range(8)], [])


def test_stretches_without_a_match_are_passed(simulate, cluster, record):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            log = Log(record, 0, 8)
            c.brokers["a"].answers[PULL] = lambda request: (
                log(request) if int(request.ext["queueOffset"]) >= 6 else log.answer(20, 6)
            )
            return [message.queue_offset async for message in read(consumer, QUEUE, 0, expression="A")]

    assert simulate(work) == []  # the records of the log have no tag: dropped by text


def test_a_broker_that_is_stopping_is_asked_again():
    assert is_transient(BrokerRefused(1500, "this broker is stopping; use another one", "127.0.0.1:1"))
    assert not is_transient(BrokerRefused(17, "no such topic", "127.0.0.1:1"))


def test_follower_goes_on_over_a_broker_that_was_away(simulate, cluster, record):
    async def work(world):
        problems: list[str] = []
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            log = c.brokers["a"].answers[PULL] = Log(record, 0, 3)

            async def away() -> None:
                await c.brokers["a"].stop()
                await world.clock.sleep(10)
                log.last = 4
                await c.brokers["a"].start()

            stream = followed(consumer, 0, problems)
            async with aclosing(stream) as messages:
                assert [(await anext(messages)).queue_offset for _ in range(4)] == [0, 1, 2, 3]
                outage = asyncio.get_running_loop().create_task(away())
                assert (await anext(messages)).queue_offset == 4
                await outage
        assert len(problems) == 1
        assert "reading T of a" in problems[0]
        assert "trying again" in problems[0]

    simulate(work)


def test_follower_says_that_offsets_are_gone(simulate, cluster, record):
    async def work(world):
        problems: list[str] = []
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            c.brokers["a"].answers[PULL] = Log(record, 10, 12)
            stream = followed(consumer, 2, problems)
            async with aclosing(stream) as messages:
                assert (await anext(messages)).queue_offset == 10
        assert problems == ["a queue 0 has no offset 2 (it has 10 to 13); continuing at 10"]

    simulate(work)


@pytest.mark.parametrize("code", [16, 23, 24])
def test_refusal_that_does_not_pass_ends_the_follower(simulate, cluster, code):
    async def work(world):
        async with (
            cluster(world, "a") as c,
            Client(c.namesrv, world=world) as client,
            client.reader(group="G") as consumer,
        ):
            c.brokers["a"].answers[PULL] = Command(code, remark="no")
            with pytest.raises(BrokerRefused):
                await anext(follow(consumer, QUEUE, 0, clock=world.clock, outages=Outages(world.clock), problem=print))

    simulate(work)
