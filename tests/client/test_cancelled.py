"""Cancel the client's calls at each of their awaits, one after the other; the next call works as before.

With an in-memory broker on a virtual clock. Afterwards no task is left that was not there before, the next call of the
same kind succeeds with room for one call only, and consumers have got every message.
"""

import asyncio
import contextlib
from contextvars import ContextVar, copy_context

import pytest

from gantrymq.client import (
    Batching,
    CallTimeout,
    Client,
    Message,
    ReconsumeLater,
)
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"
MOST_AWAITS = 400
SETTLE_S = 60
MESSAGES = 5
RUN_S = 3  # consuming continues unless it is cancelled earlier
LONG_BODY = bytes(range(256)) * 1024  # compressed in a thread


async def counted(work, waited):
    """Await *work*; call *waited* whenever it waits."""
    return await _Counted(work, waited)


class _Counted:
    def __init__(self, work, waited):
        self._work, self._waited = work, waited

    def __await__(self):
        steps, answer, problem = self._work.__await__(), None, None
        while True:
            try:
                awaited = steps.send(answer) if problem is None else steps.throw(problem)
            except StopIteration as end:
                return end.value
            self._waited()
            answer = problem = None
            try:
                answer = yield awaited
            except BaseException as raised:
                problem = raised


AT_WORK = ContextVar("at_work", default=None)  # counts awaits of the call and of its tasks


async def cancelled_at(at, work, clock=None):
    """Whether *work* reached that await; it is then cancelled, or with *clock* after a while in any case."""
    loop, waits, cancelled = asyncio.get_running_loop(), 0, False

    def waited():
        nonlocal waits, cancelled
        waits += 1
        if waits == at and not task.done():
            cancelled = True
            loop.call_soon(task.cancel)

    def make(loop, coroutine, **more):
        heard = AT_WORK.get()
        return asyncio.Task(counted(coroutine, heard) if heard is not None else coroutine, loop=loop, **more)

    loop.set_task_factory(make)
    context = copy_context()
    context.run(AT_WORK.set, waited)
    task = context.run(loop.create_task, work)
    timer = clock.call_later(RUN_S, task.cancel) if clock is not None else None
    try:
        await task
    except asyncio.CancelledError:
        assert cancelled or timer is not None
    finally:
        if timer is not None:
            timer.cancel()
        loop.set_task_factory(None)
    return cancelled


def everywhere(make):
    """Run ``make(cluster, at)`` with at = 1, 2, ... in a cluster each, until no await is left."""
    for at in range(1, MOST_AWAITS):
        if not simulate_cluster(lambda cluster, at=at: make(cluster, at)):
            assert at > 1, "it never waited"
            return
    pytest.fail(f"more than {MOST_AWAITS} awaits")


async def nothing_is_left(cluster, before):
    """Check that eventually no task remains except those in *before*."""
    await cluster.world.clock.sleep(SETTLE_S)
    left = [task for task in asyncio.all_tasks() if task not in before and task is not asyncio.current_task()]
    assert [task.get_coro().__qualname__ for task in left] == []


SENDS = {
    "send": lambda producer: producer.send(Message(TOPIC, b"x")),
    "a long body": lambda producer: producer.send(Message(TOPIC, LONG_BODY)),
    "batch": lambda producer: producer.send_batch([Message(TOPIC, b"x"), Message(TOPIC, b"y")]),
    "oneway": lambda producer: producer.send_oneway(Message(TOPIC, b"x")),
    "request": lambda producer: producer.request(Message(TOPIC, b"x"), timeout_s=2),
    "queues": lambda producer: producer.queues(TOPIC),
    "flush": lambda producer: begun_and_flushed(producer),
}


async def begun_and_flushed(producer):
    sends = [producer.send_soon(Message(TOPIC, b"x")) for _ in range(3)]
    await producer.flush()
    assert all(send.done() for send in sends)


GATHERING = Batching(max_wait_ms=1)
GATHERED = ("send", "a long body", "flush")  # the other calls gather nothing


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "batching"),
    [*((kind, False) for kind in SENDS), *((kind, GATHERING) for kind in GATHERED)],
    ids=[*SENDS, *(f"{kind}, gathering" for kind in GATHERED)],
)
def test_a_cancelled_send_leaves_room_for_the_next(kind, batching):
    async def work(cluster, at):
        await cluster.create_topic(TOPIC)
        before = asyncio.all_tasks()
        async with Client(cluster.namesrv, world=cluster.world) as client:
            producer = client.producer("shop", max_under_way=1, batching=batching)
            cancelled = False
            with contextlib.suppress(CallTimeout):  # the request gets no answer
                cancelled = await cancelled_at(at, SENDS[kind](producer))
            for _ in range(3):
                assert (await producer.send(Message(TOPIC, b"next"))).ok
        await nothing_is_left(cluster, before)
        return cancelled

    everywhere(work)


@pytest.mark.parametrize("batching", [False, GATHERING], ids=["one by one", "gathering"])
def test_of_several_sends_only_the_cancelled_one_is_lost(batching):
    async def work(cluster, at):
        await cluster.create_topic(TOPIC, 1)
        options = {"max_under_way": 2, "batching": batching}
        async with (
            Client(cluster.namesrv, world=cluster.world) as client,
            client.producer("shop", **options) as producer,
        ):
            others = [asyncio.ensure_future(producer.send(Message(TOPIC, b"%d" % n))) for n in range(4)]
            cancelled = await cancelled_at(at, producer.send(Message(TOPIC, b"cancelled")))
            others += [producer.send_soon(Message(TOPIC, b"%d" % n)) for n in range(4, 8)]
            assert all(result.ok for result in await asyncio.gather(*others))
        return cancelled

    everywhere(work)


OPENED = {
    "producer": lambda client: client.producer("shop"),
    "consumer": lambda client: client.consumer("billing", TOPIC),
    "orderly consumer": lambda client: client.consumer("billing", TOPIC, orderly=True),
    "reader": lambda client: client.reader(TOPIC),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPENED)
def test_what_is_opened_is_closed_wherever_it_was_cancelled(kind):
    async def work(cluster, at):
        await cluster.create_topic(TOPIC)
        before = asyncio.all_tasks()

        async def use():
            async with Client(cluster.namesrv, world=cluster.world) as client, OPENED[kind](client) as part:
                await part.wait_ready(TOPIC)
                await cluster.world.clock.sleep(30)

        cancelled = await cancelled_at(at, use())
        await nothing_is_left(cluster, before)
        return cancelled

    everywhere(work)


def test_a_close_that_was_cancelled_can_be_called_again():
    async def work(cluster, at):
        await cluster.create_topic(TOPIC)
        before = asyncio.all_tasks()
        client = Client(cluster.namesrv, world=cluster.world)
        await client.start()
        await client.producer("shop").send(Message(TOPIC, b"x"))
        consumer = client.consumer("billing", TOPIC, consume_from="first")
        assert (await anext(aiter(consumer))).body == b"x"
        cancelled = await cancelled_at(at, client.close())
        await client.close()
        await nothing_is_left(cluster, before)
        return cancelled

    everywhere(work)


async def comes(cluster, consumer, missing):
    """Wait until every one of *missing* is consumed, at most ten minutes."""
    deadline = cluster.world.clock.monotonic() + 600

    async def handle(message):
        missing.discard(int(message.body))

    running = asyncio.ensure_future(consumer.run(handle))
    while missing:
        assert cluster.world.clock.monotonic() < deadline, f"never came: {missing}"
        await cluster.world.clock.sleep(1)
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.slow
@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("how", ["loop", "batches", "handler", "failing handler", "failing batches"])
def test_consuming_that_is_cancelled_loses_no_message(how, orderly):
    async def work(cluster, at):
        await cluster.create_topic(TOPIC, 2)
        for number in range(MESSAGES):
            await cluster.send(TOPIC, f"{number}".encode())
        missing = set(range(MESSAGES))
        async with (
            Client(cluster.namesrv, world=cluster.world) as client,
            client.consumer("billing", TOPIC, orderly=orderly, consume_from="first") as consumer,
        ):

            async def loop():
                messages = aiter(consumer)
                message = await anext(messages)
                while True:  # asking for the next one acknowledges it
                    missing.discard(int(message.body))
                    message = await anext(messages)

            async def batches():
                found = consumer.batches(3)
                batch = await anext(found)
                while True:
                    missing.difference_update(int(message.body) for message in batch)
                    batch = await anext(found)

            async def handle(found):
                await cluster.world.clock.sleep(0.1)
                if how.startswith("failing"):
                    raise ReconsumeLater(1)
                missing.discard(int(found.body))

            async def handlers():
                await consumer.run(handle, concurrency=2, batch_size=3 if how == "failing batches" else None)

            consuming = {"loop": loop, "batches": batches}.get(how, handlers)
            cancelled = await cancelled_at(at, consuming(), cluster.world.clock)
            await comes(cluster, consumer, missing)
        return cancelled

    everywhere(work)


def test_a_nack_that_is_cancelled_can_be_said_again():
    async def work(cluster, at):
        await cluster.create_topic(TOPIC, 1)
        await cluster.send(TOPIC, b"0")
        async with (
            Client(cluster.namesrv, world=cluster.world) as client,
            client.consumer("billing", TOPIC, auto_ack=False, consume_from="first") as consumer,
        ):
            loop = aiter(consumer)
            message = await anext(loop)
            cancelled = await cancelled_at(at, consumer.nack(message, 1))
            if cancelled:
                await consumer.nack(message, 1)
            again = await anext(loop)
            assert (again.body, again.reconsume_times) == (b"0", 1)
            assert consumer.ack(again)
        return cancelled

    everywhere(work)


def test_reading_that_is_cancelled_goes_on():
    async def work(cluster, at):
        await cluster.create_topic(TOPIC, 1)
        await cluster.send(TOPIC, b"0")
        before = asyncio.all_tasks()
        async with (
            Client(cluster.namesrv, world=cluster.world) as client,
            client.reader(TOPIC, group="lookers") as reader,
        ):

            async def use():
                (queue,) = await reader.queues()
                found = await reader.pull(queue, 0)
                await reader.pull(queue, found.next_offset, suspend_ms=3000)
                await reader.commit(queue, found.next_offset)

            cancelled = await cancelled_at(at, use())
            (queue,) = await reader.queues()
            assert [message.body for message in (await reader.pull(queue, 0)).messages] == [b"0"]
            await reader.commit(queue, 1)
            assert await reader.committed(queue) == 1
        await nothing_is_left(cluster, before)
        return cancelled

    everywhere(work)
