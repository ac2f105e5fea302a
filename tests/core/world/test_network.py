"""Common behaviour of sockets and the simulated network."""

import asyncio
import errno
import subprocess
import sys

import pytest
from noting_peers import Accepting, Buffered, Echo, HalfOpen, Peer, connected
from quiet_ports import quiet_port

BLOCK = bytes(range(251)) * 1000  # a prime period, so that a lost or doubled piece shows
GIVE_UP_BYTES = 256 * 1024 * 1024  # more than any socket buffer holds


def test_bytes_come_back_whole_and_in_order(run):
    async def main(world):
        near, _ = await connected(world, far=Echo)
        for at in range(0, len(BLOCK), 10_007):
            near.transport.write(BLOCK[at : at + 10_007])
        await near.wait(lambda peer: len(peer.received) >= len(BLOCK))
        near.transport.close()
        await near.wait_for("lost")
        return near

    near = run(main)
    assert near.received == BLOCK
    assert near.events[0] == "made"
    assert near.events[-1] == "lost"
    assert near.error is None


def test_both_ends_know_each_other(run):
    async def main(world):
        near, far = await connected(world)
        asked = [peer.transport.get_extra_info(name) for peer in (near, far) for name in ("sockname", "peername")]
        near.transport.close()
        await far.wait_for("lost")
        return asked

    near_own, near_peer, far_own, far_peer = run(main)
    assert near_own == far_peer
    assert near_peer == far_own
    assert near_own[0] == near_peer[0] == "127.0.0.1"


def test_port_0_gives_a_real_port(run):
    async def main(world):
        one = await world.network.listen("127.0.0.1", 0, Peer)
        two = await world.network.listen("127.0.0.1", 0, Peer)
        addresses = one.address, two.address
        await one.close()
        await two.close()
        return addresses

    (host, port), other = run(main)
    assert host == "127.0.0.1"
    assert port > 0
    assert other != (host, port)


def test_a_taken_port_is_an_error(run):
    async def main(world):
        listener = await world.network.listen("127.0.0.1", 0, Peer)
        try:
            with pytest.raises(OSError, check=lambda error: error.errno == errno.EADDRINUSE):
                await world.network.listen(*listener.address, Peer)
        finally:
            await listener.close()

    run(main)


def test_nobody_listening_is_a_refusal(run):
    async def main(world):
        listener = await world.network.listen("127.0.0.1", 0, Peer)
        await listener.close()
        await listener.close()
        with pytest.raises(ConnectionRefusedError):
            await world.network.connect(*listener.address, Peer)

    run(main)


def test_a_closed_port_can_be_opened_again_while_its_connections_go_on(run):
    async def main(world):
        accepting = Accepting(Echo)
        listener = await world.network.listen("127.0.0.1", 0, accepting)
        _, near = await world.network.connect(*listener.address, Peer)
        far = await accepting.first()
        await listener.close()
        again = await world.network.listen(*listener.address, Peer)
        near.transport.write(b"still there")
        await near.wait(lambda peer: peer.received == b"still there")
        near.transport.close()
        await far.wait_for("lost")
        await again.close()

    run(main)


def test_close_sends_what_was_written_first(run):
    async def main(world):
        near, far = await connected(world)
        near.transport.write(BLOCK)
        near.transport.close()
        assert near.transport.is_closing()
        await far.wait_for("lost")
        await near.wait_for("lost")
        return near, far

    near, far = run(main)
    assert far.received == BLOCK
    assert [event for event in far.events if event in ("eof", "lost")] == ["eof", "lost"]
    assert far.error is None
    assert near.error is None
    assert near.events.count("lost") == 1


def test_a_half_closed_connection_still_answers(run):
    async def main(world):
        near, far = await connected(world, far=HalfOpen)
        assert near.transport.can_write_eof()
        near.transport.write(b"question")
        near.transport.write_eof()
        await far.wait_for("eof")
        far.transport.write(b"answer")
        far.transport.close()
        await near.wait_for("lost")
        return near, far

    near, far = run(main)
    assert far.received == b"question"
    assert near.received == b"answer"


def test_abort_ends_both_ends_once(run):
    async def main(world):
        near, far = await connected(world)
        near.transport.abort()
        near.transport.abort()
        await near.wait_for("lost")
        await far.wait_for("lost")
        assert near.transport.is_closing()
        near.transport.close()
        await world.clock.sleep(0)
        return near, far

    near, far = run(main)
    assert near.events == ["made", "lost"]
    assert far.events.count("lost") == 1
    assert near.error is None


def test_a_reader_that_pauses_stops_the_writer(run):
    async def main(world):
        near, far = await connected(world)
        far.transport.pause_reading()
        assert not far.transport.is_reading()
        written = 0
        while "pause" not in near.events:
            near.transport.write(BLOCK)
            written += len(BLOCK)
            assert written < GIVE_UP_BYTES
            await asyncio.sleep(0)
        assert near.transport.get_write_buffer_size() > 0
        far.transport.resume_reading()
        await near.wait_for("resume")
        await far.wait(lambda peer: len(peer.received) == written)
        near.transport.close()
        await far.wait_for("lost")
        return near, far

    near, far = run(main)
    assert near.events[:3] == ["made", "pause", "resume"]
    assert far.received == BLOCK * (len(far.received) // len(BLOCK))


def test_nothing_arrives_while_reading_is_paused(run):
    async def main(world):
        near, far = await connected(world)
        far.transport.pause_reading()
        near.transport.write(b"later")
        for _ in range(20):
            await world.clock.sleep(0.001)
        held = bytes(far.received)
        far.transport.resume_reading()
        await far.wait(lambda peer: peer.received == b"later")
        near.transport.close()
        await far.wait_for("lost")
        return held

    assert run(main) == b""


def test_water_marks_are_asyncio_s(run):
    async def main(world):
        near, far = await connected(world)
        near.transport.set_write_buffer_limits(high=4000)
        limits = near.transport.get_write_buffer_limits()
        with pytest.raises(ValueError):
            near.transport.set_write_buffer_limits(high=1, low=2)
        near.transport.close()
        await far.wait_for("lost")
        return limits

    assert run(main) == (1000, 4000)


def test_a_buffered_protocol_gets_everything(run):
    async def main(world):
        near, far = await connected(world, far=Buffered)
        near.transport.write(BLOCK)
        near.transport.close()
        await near.wait_for("lost")
        while len(far.received) < len(BLOCK):
            await world.clock.sleep(0.001)
        return far.received

    assert run(main) == BLOCK


def test_written_buffers_may_be_reused_once_they_have_left(run):
    async def main(world):
        near, far = await connected(world)
        near.transport.write(bytearray(b"one "))
        near.transport.write(memoryview(b"two "))
        near.transport.writelines([b"three ", memoryview(b"four")])
        await far.wait(lambda peer: len(peer.received) == 18)
        near.transport.close()
        await far.wait_for("lost")
        return bytes(far.received)

    assert run(main) == b"one two three four"


def test_text_cannot_be_written(run):
    async def main(world):
        near, far = await connected(world)
        with pytest.raises(TypeError):
            near.transport.write("text")
        near.transport.close()
        await far.wait_for("lost")

    run(main)


def test_a_protocol_that_raises_loses_its_connection(run):
    class Broken(Peer):
        def data_received(self, data):
            raise LookupError("broken on purpose")

    async def main(world):
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
        near, far = await connected(world, far=Broken)
        near.transport.write(b"x")
        await far.wait_for("lost")
        await near.wait_for("lost")
        return far, reports

    far, reports = run(main)
    assert isinstance(far.error, LookupError)
    assert [type(report["exception"]) for report in reports] == [LookupError]


def test_a_protocol_can_be_replaced(run):
    async def main(world):
        near, far = await connected(world)
        second = Peer()
        far.transport.set_protocol(second)
        assert far.transport.get_protocol() is second
        near.transport.write(b"for the second")
        await second.wait(lambda peer: peer.received == b"for the second")
        near.transport.close()
        await second.wait_for("lost")
        return far

    assert run(main).events == ["made"]


def test_a_cancelled_connect_leaves_nothing_open(run):
    async def main(world):
        accepting = Accepting(Peer)
        listener = await world.network.listen("127.0.0.1", 0, accepting)
        attempt = asyncio.ensure_future(world.network.connect(*listener.address, Peer))
        await asyncio.sleep(0)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        for _ in range(20):
            await world.clock.sleep(0.001)
        for peer in accepting.peers:
            await peer.wait_for("lost")
        await listener.close()

    run(main)


def test_a_listener_on_every_address_is_reached_by_each_name(run):
    async def main(world):
        listener = await world.network.listen("0.0.0.0", 0, Echo)
        host, port = listener.address
        for name in ("127.0.0.1", "localhost"):
            _, near = await world.network.connect(name, port, Peer)
            near.transport.write(b"x")
            await near.wait(lambda peer: peer.received == b"x")
            near.transport.close()
            await near.wait_for("lost")
        await listener.close()
        return host

    assert run(main) == "0.0.0.0"


def test_a_name_is_listened_on_with_one_port(run):
    async def main(world):
        listener = await world.network.listen("localhost", 0, Echo)
        _, near = await world.network.connect("localhost", listener.address[1], Peer)
        near.transport.close()
        await near.wait_for("lost")
        await listener.close()
        with pytest.raises(OSError):
            await world.network.connect("localhost", listener.address[1], Peer)

    run(main)


def test_ipv6_addresses_are_pairs_too(run):
    async def main(world):
        try:
            listener = await world.network.listen("::1", 0, Echo)
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        address = listener.address
        _, near = await world.network.connect(*address, Peer)
        near.transport.write(b"six")
        await near.wait(lambda peer: peer.received == b"six")
        near.transport.close()
        await near.wait_for("lost")
        await listener.close()
        return address

    host, port = run(main)
    assert host == "::1"
    assert port > 0


def test_own_address_is_an_ip_address(run):
    async def main(world):
        return world.network.own_address()

    assert [part.isdigit() for part in run(main).split(".")] == [True] * 4


@pytest.mark.parametrize(("host", "address"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("localhost", "127.0.0.1")])
def test_a_name_is_resolved_to_an_ip_address(run, host, address):
    async def main(world):
        return await world.network.resolve(host)

    assert run(main) == address


def test_an_unknown_name_is_an_os_error(run):
    async def main(world):
        with pytest.raises(OSError):
            await world.network.resolve("no..host")

    run(main)


RACE = """
import asyncio, sys
from gantrymq.world.real.network import RealNetwork

async def race(port):
    for line in sys.stdin:
        try:
            listener = await RealNetwork().listen("127.0.0.1", port, asyncio.Protocol)
        except OSError as error:
            print(error.errno, flush=True)
        else:
            print("listens", flush=True)
            sys.stdin.readline()
            await listener.close()
            print("closed", flush=True)

try:
    from uvloop import run
except ImportError:
    from asyncio import run
run(race(int(sys.argv[1])))
"""


def test_of_two_processes_that_want_a_port_at_once_one_is_told_that_it_is_taken():
    """Both may bind it; the second listener gets an error from the kernel and asyncio's loop, not from uvloop's."""
    port = quiet_port()
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for _ in range(2)
    ]
    try:
        for _ in range(150):
            for racer in racers:
                racer.stdin.write("go\n")
            said = [racer.stdout.readline().strip() for racer in racers]
            assert sorted(said) == [str(errno.EADDRINUSE), "listens"]
            winner = racers[said.index("listens")]
            winner.stdin.write("close\n")
            assert winner.stdout.readline().strip() == "closed"
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
