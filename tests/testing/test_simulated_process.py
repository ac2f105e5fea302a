"""A killed process does nothing more; its peers and the next process notice only the expected effects."""

import asyncio
from pathlib import Path

import pytest

from gantrymq_testing.simulated import ProcessKilled, SimulatedProcess, simulate


def two_processes(main):
    """Run ``main(one, other)`` in processes on hosts of their own."""

    async def run(world):
        loop = asyncio.get_running_loop()
        return await main(SimulatedProcess(world, loop, "10.0.0.1", 1), SimulatedProcess(world, loop, "10.0.0.2", 2))

    return simulate(1, run)


class Peer(asyncio.Protocol):
    def __init__(self):
        self.lost = []
        self.got = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.got += data

    def connection_lost(self, exc):
        self.lost.append(exc)


def test_timers_and_tasks_end_with_it():
    async def main(one, other):
        ticks = []

        async def tick():
            try:
                while True:
                    await one.world.clock.sleep(1)
                    ticks.append(one.monotonic())
            finally:
                ticks.append("cleaned up")

        one.run(tick())
        one.world.clock.call_later(5, ticks.append, "late")
        await asyncio.sleep(2.5)
        one.kill()
        one.kill()
        await asyncio.sleep(10)
        assert one.tasks() == []
        return ticks

    assert two_processes(main) == [1.0, 2.0, "cleaned up"]


def test_nothing_of_a_paused_process_runs_and_nothing_is_lost():
    async def main(one, other):
        ticks = []

        async def tick():
            while True:
                await one.world.clock.sleep(1)
                ticks.append(round(one.monotonic(), 1))

        made = []
        listener = await one.world.network.listen("", 700, lambda: made.append(Peer()) or made[-1])
        one.run(tick())
        await asyncio.sleep(1.5)
        one.pause()
        one.pause()
        one.world.clock.call_later(0.5, ticks.append, "due at 2")
        transport, peer = await other.world.network.connect(one.world.host_name, 700, Peer)
        transport.write(b"waits")
        await asyncio.sleep(3)
        assert (ticks, made[0].got, peer.lost) == ([1.0], b"", [])
        one.resume()
        await asyncio.sleep(0)
        assert (ticks[:2], made[0].got) == ([1.0, "due at 2"], b"waits")
        await asyncio.sleep(1.2)
        one.pause()
        await asyncio.sleep(2)
        one.kill()
        await asyncio.sleep(1)
        assert one.tasks() == []
        assert len(peer.lost) == 1
        await listener.close()
        return ticks

    assert two_processes(main) == [1.0, "due at 2", 4.5, 5.5]


def test_bytes_on_their_way_arrive_although_their_sender_is_paused():
    async def main(one, other):
        peers = []
        await other.world.network.listen("", 700, lambda: peers.append(Peer()) or peers[-1])

        async def send():
            transport, _ = await one.world.network.connect(other.world.host_name, 700, Peer)
            transport.write(b"on its way")
            one.pause()

        await one.run(send())
        await asyncio.sleep(1)
        return peers[0].got

    assert two_processes(main) == b"on its way"


def test_a_task_is_its_own_wherever_it_was_created():
    async def main(one, other):
        async def sleep():
            await asyncio.sleep(100)

        async def begin():
            return asyncio.ensure_future(sleep())

        inner = await one.run(begin())
        outer = asyncio.ensure_future(sleep())
        one.kill()
        await asyncio.sleep(1)
        assert inner.cancelled()
        assert not outer.done()

    two_processes(main)


def test_peers_see_a_reset_and_the_port_is_free():
    async def main(one, other):
        server, client = Peer(), Peer()
        await one.network.listen("10.0.0.1", 80, lambda: server)
        await other.network.connect("10.0.0.1", 80, lambda: client)
        await asyncio.sleep(1)
        assert server.transport.get_extra_info("peername")[0] == "10.0.0.2"
        one.kill()
        await asyncio.sleep(1)
        assert [type(error) for error in client.lost] == [ConnectionResetError]
        assert server.lost == []
        with pytest.raises(ConnectionRefusedError):
            await other.network.connect("10.0.0.1", 80, Peer)
        await other.network.listen("10.0.0.1", 80, Peer)
        assert (one.network.open_connections, other.network.open_connections) == (0, 0)

    two_processes(main)


def test_files_stay_as_written_and_locks_are_gone():
    async def main(one, other):
        path, lock = Path("/file"), Path("/lock")
        file = one.files.open(path, create=True)
        file.pwrite(b"written", 0)
        file.allocate(4096)
        file.pwrite(b"W", 0)
        one.files.lock(lock, b"")
        assert other.files.lock(lock, b"") is None
        assert list(one.files.held.values()) == [path, lock]
        one.kill()
        assert one.files.held == {}
        for call in (lambda: file.pwrite(b"x", 0), file.size, lambda: one.files.list(path)):
            with pytest.raises(ProcessKilled):
                call()
        assert other.files.read(path)[:7] == b"Written"
        other.files.lock(lock, b"").release()
        other.files.open(path).close()
        assert other.files.held == {}

    two_processes(main)


def test_it_dies_at_the_call_it_is_told():
    async def main(one, other):
        path = Path("/file")

        async def work():
            file = one.files.open(path, create=True)
            for number in range(10):
                file.pwrite(b"%d" % number, number)
                await asyncio.sleep(0)

        one.kill_at_file_call(4)
        task = one.run(work())
        await asyncio.wait([task])
        assert isinstance(task.exception(), ProcessKilled)
        assert not one.alive
        return other.files.read(path)

    assert two_processes(main) == b"01"


def test_a_completion_of_its_workers_does_not_come():
    async def main(one, other):
        done = []
        one.world.workers.submit(lambda: 1, done=lambda result, error: done.append(result))
        other.world.workers.submit(lambda: 2, done=lambda result, error: done.append(result))
        one.kill()
        await asyncio.sleep(1)
        return done

    assert two_processes(main) == [2]


def test_wall_clocks_are_set_apart_and_monotonic_time_is_not():
    async def main(one, other):
        before, began = one.now_ms(), one.monotonic()
        one.ahead_ms = -3_600_000
        await one.world.clock.sleep(1)
        assert one.now_ms() == before - 3_599_000
        assert other.now_ms() == before + 1000
        assert one.monotonic() == began + 1

    two_processes(main)
