"""Bytes of a connection: read by a coroutine, or handed over when they arrive."""

import asyncio

import pytest

pytest.importorskip("gantrymq_replication")

from gantrymq.config import Settings
from gantrymq.world.real import real_world
from gantrymq_replication.link import MOST_BYTES, Link
from gantrymq_replication.settings import SCHEMA
from gantrymq_replication.streams import HaStreams


class Transport(asyncio.Transport):
    """Records what is done to it."""

    def __init__(self):
        super().__init__({"peername": ("10.0.0.1", 7)})
        self.written, self.reading, self.closing = [], True, False

    def is_closing(self):
        return self.closing

    def write(self, data):
        self.written.append(data)

    def writelines(self, parts):
        self.written += parts

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def abort(self):
        self.closing = True


@pytest.fixture
def run():
    """Run ``main(link, transport)`` on a link that is connected."""

    def runner(main):
        async def connected():
            link, transport = Link(), Transport()
            link.connection_made(transport)
            return await main(link, transport)

        return asyncio.run(connected())

    return runner


def test_reads_return_what_has_arrived_and_then_the_end(run):
    async def main(link, transport):
        waiting = asyncio.ensure_future(link.read())
        await asyncio.sleep(0)
        link.data_received(b"ab")
        assert await waiting == b"ab"
        link.data_received(b"cdefg")
        assert await link.read_exactly(2) == b"cd"
        link.connection_lost(None)
        assert await link.read() == b"efg"
        assert await link.read() == b""
        with pytest.raises(EOFError):
            await link.read_exactly(1)

    run(main)


def test_a_lost_connection_ends_every_wait(run):
    async def main(link, transport):
        link.pause_writing()
        waits = [asyncio.ensure_future(each) for each in (link.read(), link.drain(), link.deliver(list))]
        await asyncio.sleep(0)
        link.connection_lost(TimeoutError("gone"))
        results = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(each) for each in results] == [TimeoutError, ConnectionResetError, TimeoutError]

    run(main)


def test_what_arrives_is_delivered_in_the_same_step(run):
    async def main(link, transport):
        link.data_received(b"before")
        taken = []
        delivering = asyncio.ensure_future(link.deliver(taken.append))
        await asyncio.sleep(0)
        link.data_received(b"now")
        assert taken == [b"before", b"now"]
        link.connection_lost(None)
        await delivering

    run(main)


def test_deliveries_may_be_interrupted(run):
    async def main(link, transport):
        taken = []

        def take(data):
            taken.append(data)
            return data == b"enough"

        delivering = asyncio.ensure_future(link.deliver(take))
        await asyncio.sleep(0)
        for data in (b"one", b"enough", b"two", b"three"):
            link.data_received(data)
        assert await delivering
        assert taken == [b"one", b"enough"]
        delivering = asyncio.ensure_future(link.deliver(take))
        await asyncio.sleep(0)
        assert taken[2:] == [b"twothree"]
        link.connection_lost(None)
        assert not await delivering

    run(main)


def test_nothing_is_delivered_after_a_failure(run):
    async def main(link, transport):
        taken = []

        def take(data):
            taken.append(data)
            raise ValueError(data)

        delivering = asyncio.ensure_future(link.deliver(take))
        await asyncio.sleep(0)
        link.data_received(b"wrong")
        link.data_received(b"more")
        with pytest.raises(ValueError, match="wrong"):
            await delivering
        assert taken == [b"wrong"]

    run(main)


def test_little_is_kept_for_a_reader_that_is_busy(run):
    async def main(link, transport):
        link.data_received(bytes(MOST_BYTES))
        assert transport.reading
        link.data_received(b"x")
        assert not transport.reading
        assert len(await link.read()) == MOST_BYTES + 1
        assert transport.reading

    run(main)


def test_nothing_is_written_while_the_connection_ends(run):
    async def main(link, transport):
        assert link.address("peername") == "10.0.0.1:7"
        link.write(b"a")
        link.eof_received()
        link.write(b"b")
        link.writelines([b"c"])
        link.pause()
        assert (transport.written, transport.reading) == ([b"a"], True)

    run(main)


def test_a_failure_of_what_serves_a_connection_is_logged_and_closes_it(run, caplog):
    async def main(link, transport):
        async def serve(link):
            raise RuntimeError("a bug")

        served = Link(serve)
        served.connection_made(transport)
        for _ in range(3):
            await asyncio.sleep(0)
        assert transport.closing

    run(main)
    assert "a connection of replication failed" in caplog.text and "a bug" in caplog.text


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_links_over_sockets(loop):
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else asyncio.new_event_loop

    async def main():
        world, served, ended = real_world(), [], asyncio.Event()
        streams = HaStreams(world, Settings(SCHEMA))

        async def serve(link):
            served.append(await link.read_exactly(5))
            await link.deliver(lambda data: link.writelines([data, b"!"]))
            ended.set()

        listener = await world.network.listen("127.0.0.1", 0, streams.accepting(serve, print, print))
        link = await streams.connect(*listener.address)
        link.write(b"hello, you")
        answer = await link.read_exactly(6)
        link.abort()
        with pytest.raises(EOFError):
            await link.read_exactly(1)
        await listener.close()
        await asyncio.wait_for(ended.wait(), 60)
        await world.workers.close()
        return served, answer

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(main()) == ([b"hello"], b", you!")
