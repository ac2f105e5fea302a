"""Behaviour of the simulated network only: splits, delays, hosts and identical runs."""

import asyncio

import pytest
from noting_peers import Accepting, HalfOpen, Peer, connected

from gantrymq_testing.simulated import SimulatedNetwork, Trace, simulate


class Slow:
    """Delivers after a set time, as many bytes as a set number."""

    def __init__(self, seconds, size):
        self.seconds, self.size, self.links = seconds, size, []

    def latency_s(self, link):
        self.links.append(str(link))
        return self.seconds

    def read_size(self, link, waiting):
        return min(waiting, self.size)


async def exchange(world):
    """Some writes in both directions; returns the sizes of the reads."""
    near, far = await connected(world)
    for number in range(40):
        near.transport.write(bytes([number]) * 1000)
        far.transport.write(b"back")
        if number % 8 == 0:
            await world.clock.sleep(0.001)
    await near.wait(lambda peer: len(peer.received) == 160)
    near.transport.close()
    await far.wait_for("lost")
    return near.reads, far.reads


def traced(seed, main=exchange, **options):
    trace = Trace(**options)
    return simulate(seed, main, trace=trace), trace


def test_one_seed_gives_one_run():
    (reads, trace), (reads_again, trace_again) = traced(3), traced(3)
    assert trace.events == trace_again.events
    assert trace.digest() == trace_again.digest()
    assert reads == reads_again


def test_another_seed_gives_another_run():
    assert traced(3)[1].digest() != traced(4)[1].digest()


def test_reads_are_split_and_joined():
    _, far = traced(3)[0]
    assert sum(far) == 40_000
    assert any(size % 1000 for size in far)
    assert any(size > 1000 for size in far)


def test_the_trace_can_keep_digests_only():
    whole, short = traced(3)[1], traced(3, keep_bytes=False)[1]
    assert [event[:4] for event in whole.events] == [event[:4] for event in short.events]
    assert {len(event.data) for event in short.events} == {0, 16}


def test_a_delivery_of_the_test_decides_when_and_how_much():
    slow = Slow(0.25, 3)

    async def main(world):
        near, far = await connected(world)
        opened = world.clock.monotonic()
        near.transport.write(b"0123456")
        await far.wait(lambda peer: len(peer.received) == 7)
        return opened, world.clock.monotonic() - opened, far.reads

    assert simulate(1, main, delivery=slow) == (0.5, 0.75, [3, 3, 1])
    assert set(slow.links) == {
        "1 127.0.0.1:50000 -> 127.0.0.1:40000",
        "1 127.0.0.1:40000 -> 127.0.0.1:50000",
    }


def test_ports_are_the_same_in_every_run():
    async def main(world):
        listeners = [await world.network.listen("127.0.0.1", 0, Peer) for _ in range(3)]
        return [listener.address[1] for listener in listeners]

    assert simulate(1, main) == simulate(2, main) == [40_000, 40_001, 40_002]


def test_hosts_have_ports_of_their_own_and_connections_know_where_they_come_from():
    async def main(world):
        accepting = Accepting(Peer)
        other = world.network.on_host("10.0.0.2")
        await world.network.listen("10.0.0.1", 9876, Peer)
        await other.listen("10.0.0.2", 9876, accepting)
        with pytest.raises(ConnectionRefusedError):
            await other.connect("10.0.0.3", 9876, Peer)
        with pytest.raises(OSError):
            await other.listen("0.0.0.0", 9876, Peer)
        await world.network.on_host("10.0.0.9").connect("10.0.0.2", 9876, Peer)
        far = await accepting.first()
        return far.transport.get_extra_info("peername")[0], other.own_address()

    assert simulate(1, main) == ("10.0.0.9", "10.0.0.2")


def test_names_are_resolved_by_a_table():
    async def main(world):
        world.network.names["broker.example"] = "10.0.0.1"
        with pytest.raises(OSError, match="other.example is unknown"):
            await world.network.resolve("other.example")
        other = world.network.on_host("10.0.0.2")
        return [await other.resolve(each) for each in ("broker.example", "10.0.0.7", "localhost")]

    assert simulate(1, main) == ["10.0.0.1", "10.0.0.7", "127.0.0.1"]


def test_writing_to_an_end_that_is_closed_is_answered_with_a_reset():
    async def main(world):
        near, far = await connected(world, near=HalfOpen)
        far.transport.close()
        await near.wait_for("eof")
        near.transport.write(b"too late")
        await near.wait_for("lost")
        return near

    near = simulate(1, main)
    assert isinstance(near.error, ConnectionResetError)
    assert near.events == ["made", "eof", "lost"]


def test_closing_while_the_peer_does_not_read_ends_when_the_peer_closes():
    async def main(world):
        near, far = await connected(world)
        far.transport.pause_reading()
        near.transport.write(b"unread")
        near.transport.close()
        await world.clock.sleep(1)
        assert "lost" not in near.events
        far.transport.close()
        await near.wait_for("lost")
        await far.wait_for("lost")
        return near, far

    near, far = simulate(1, main)
    assert isinstance(near.error, ConnectionResetError)
    assert far.error is None
    assert far.received == b""


def test_an_abort_reaches_a_peer_that_does_not_read():
    async def main(world):
        near, far = await connected(world)
        far.transport.pause_reading()
        near.transport.write(b"lost with the connection")
        near.transport.abort()
        await far.wait_for("lost")
        return far

    far = simulate(1, main)
    assert isinstance(far.error, ConnectionResetError)
    assert far.received == b""


@pytest.mark.parametrize("latency_s", [0.0, 0.001])
def test_a_server_that_hangs_up_at_once(latency_s):
    class HangUp(Peer):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.abort()

    async def main(world):
        listener = await world.network.listen("a", 1, HangUp)
        near = Peer()
        try:
            await world.network.connect(*listener.address, lambda: near)
        except ConnectionResetError:
            return []
        await near.wait_for("lost")
        return near.events

    assert simulate(1, main, delivery=Slow(latency_s, 1)) in ([], ["made", "lost"])


def test_a_factory_that_raises_closes_the_connection_and_is_reported():
    def broken():
        raise LookupError("broken on purpose")

    async def main(world):
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context["exception"]))
        listener = await world.network.listen("a", 1, broken)
        try:
            _, near = await world.network.connect(*listener.address, Peer)
            await near.wait_for("lost")
        except ConnectionResetError:
            pass
        await listener.close()
        await world.network.listen("a", 1, Peer)
        with pytest.raises(LookupError):
            await world.network.connect("a", 1, broken)
        return reports

    assert [type(error) for error in simulate(1, main)] == [LookupError]


def test_it_runs_on_a_real_loop_too():
    async def main():
        network = SimulatedNetwork(asyncio.get_running_loop(), Slow(0, 100))
        accepting = Accepting(Peer)
        listener = await network.listen("a", 0, accepting)
        _, near = await network.connect(*listener.address, Peer)
        near.transport.write(b"abc")
        near.transport.close()
        far = await accepting.first()
        await far.wait_for("lost")
        return far.received

    assert asyncio.run(main()) == b"abc"
