"""Starting and closing at the same time: a client closed last stays closed and leaves nothing running."""

import asyncio
import socket
import threading

import pytest

from gantrymq.client import Client, ClientError, sync
from gantrymq.client.connection import instance as instances
from gantrymq.client.sync import portal

HUNG = "http://web:8080/rocketmq/nsaddr"  # an address server that never answers
STEP_S = 0.0002
MOST_STEPS = 60


async def hung_server(world):
    return await world.network.listen("web", 8080, asyncio.Protocol)


async def turns(number):
    for _ in range(number):
        await asyncio.sleep(0)


def nothing_is_left(before):
    loop = asyncio.get_running_loop()
    assert [key for key in instances._shared if key[0] is loop] == []
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert [task.get_coro().__qualname__ for task in left] == []


def test_closing_gives_up_a_start_that_is_under_way(simulate):
    async def work(world):
        listener = await hung_server(world)
        before = asyncio.all_tasks()
        client = Client(HUNG, world=world)
        begun = world.clock.monotonic()
        starts = [asyncio.ensure_future(client.start()) for _ in range(2)]
        await world.clock.sleep(1)
        await client.close()
        assert world.clock.monotonic() - begun < 1.5
        for start in starts:
            with pytest.raises(ClientError, match="this Client was closed while it was being started"):
                await start
        assert not client.is_started
        nothing_is_left(before)
        await listener.close()

    simulate(work)


@pytest.mark.parametrize("how", ["closed", "cancelled"])
def test_whenever_a_start_is_given_up_nothing_of_it_is_left(simulate, cluster, how):
    async def work(world, step):
        async with cluster(world, "a") as c:
            before = asyncio.all_tasks()
            client = Client(c.namesrv, world=world)
            start = asyncio.ensure_future(client.start())
            await turns(1 + step % 4)
            await world.clock.sleep(step // 4 * STEP_S)
            was_over = start.done()
            if how == "closed":
                await client.close()
            else:
                start.cancel()
            await asyncio.wait([start])
            if was_over and how == "cancelled":
                await client.close()
            await world.clock.sleep(5)
            assert not client.is_started
            nothing_is_left(before)
            await client.start()  # and it may be started again
            assert client.is_started
            await client.close()
            nothing_is_left(before)
            return was_over

    for step in range(MOST_STEPS):
        if simulate(lambda world, step=step: work(world, step)):
            assert step > 1
            return
    pytest.fail(f"the start takes more than {MOST_STEPS} steps")


def test_two_starts_are_one(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c:
            before = asyncio.all_tasks()
            client = Client(c.namesrv, world=world)
            await asyncio.gather(client.start(), client.start())
            await client.close()
            nothing_is_left(before)

    simulate(work)


def test_one_of_two_starts_that_is_cancelled_does_not_stop_the_other(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c:
            client = Client(c.namesrv, world=world)
            first, second = asyncio.ensure_future(client.start()), asyncio.ensure_future(client.start())
            await turns(1)
            second.cancel()
            await first
            assert client.is_started
            await client.close()

    simulate(work)


def test_a_client_that_is_being_closed_makes_nothing_more_and_is_not_started(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c:
            before = asyncio.all_tasks()
            client = Client(c.namesrv, world=world)
            await client.start()
            consumer = client.consumer("G", "T")
            in_hand = asyncio.Event()
            consumer._run.in_flight.holders.add(Busy(in_hand))  # keeps the close waiting
            closing = asyncio.ensure_future(client.close())
            await world.clock.sleep(1)
            assert not closing.done()
            for late in (lambda: client.producer("P"), lambda: client.consumer("H", "T"), lambda: client.admin):
                with pytest.raises(ClientError, match="this Client is being closed"):
                    late()
            with pytest.raises(ClientError, match="this Client is being closed"):
                await client.start()
            with pytest.raises(ClientError, match="this Consumer is being closed"):
                await consumer.__aenter__()
            in_hand.set()
            consumer._run.in_flight.released.set()
            await closing
            nothing_is_left(before)

    simulate(work)


class Busy:
    """A replacement for a holder with in-flight messages."""

    def __init__(self, done):
        self._done = done

    def is_busy(self, closers):
        return not self._done.is_set()


def test_a_start_right_after_a_close_that_was_cancelled_begins_anew(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c:
            before = asyncio.all_tasks()
            client = Client(c.namesrv, world=world)
            await client.start()
            client.consumer("G", "T")._run.in_flight.holders.add(Busy(asyncio.Event()))
            closing = asyncio.ensure_future(client.close())
            await world.clock.sleep(1)
            closing.cancel()
            await asyncio.wait([closing])
            await client.start()
            consumer = client.consumer("G", "T")
            await world.clock.sleep(1)
            assert client.is_started
            assert consumer._run is not None
            await client.close()
            nothing_is_left(before)

    simulate(work)


# --- the client for threads -----------------------------------------------------------------------------------------


class Slow:
    """A server that accepts connections and never responds."""

    def __enter__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/list"
        return self

    def wait(self):
        """Wait for a connection."""
        self._peer, _ = self._socket.accept()

    def __exit__(self, *_):
        self._peer.close()
        self._socket.close()


@pytest.mark.parametrize("in_the_same_thread", [False, True], ids=["another thread", "a signal's handler"])
def test_closing_the_client_for_threads_gives_up_a_start_that_is_under_way(in_the_same_thread, monkeypatch):
    with Slow() as slow:
        client = sync.Client(slow.url)
        found = []

        def start():
            try:
                client.start()
            except ClientError as problem:
                found.append(str(problem))

        if in_the_same_thread:
            waited = portal.wait_result

            def interrupted(future):  # as a signal does while the thread waits
                monkeypatch.setattr(portal, "wait_result", waited)
                slow.wait()
                client.close()
                return waited(future)

            monkeypatch.setattr(portal, "wait_result", interrupted)
            start()
        else:
            starting = threading.Thread(target=start)
            starting.start()
            slow.wait()
            client.close()
            starting.join(30)
        assert len(found) == 1
        assert found[0].endswith("was closed while it was being started")
        assert not client.is_started
        assert "gantrymq-client" not in [thread.name for thread in threading.enumerate()]
