"""Request queue of one connection: batches per loop iteration, and waiting for the peer to read responses."""

import asyncio
import itertools

import pytest
from loop_tests import asked, echo, in_loop, turn

from gantrymq.remoting.codes import FLAG_ONEWAY
from gantrymq.remoting.connection import LAST_REQUESTS_S
from gantrymq.remoting.request_queue import MAX_BATCH, MAX_WAITING


@in_loop
async def test_without_a_handler_requests_are_answered_with_3(rig):
    connection, transport = rig.connect()
    connection.data_received(asked(code=9999, opaque=5))
    await turn()
    (answer,) = transport.commands
    assert (answer.code, answer.opaque, answer.remark) == (3, 5, " request type 9999 not supported")


@in_loop
async def test_a_handler_that_raises_is_logged_and_the_connection_goes_on(rig, recorder, caplog):
    def broken(connection, command):
        raise ZeroDivisionError

    handler = recorder(broken)
    connection, transport = rig.connect(handler)
    connection.data_received(asked(310))
    connection.data_received(asked(310))
    assert len(handler.batches) == 2
    assert "SEND_MESSAGE_V2" in caplog.text
    assert not transport.closing


@in_loop
async def test_requests_behind_answers_that_are_not_read_wait_until_they_are(rig, recorder):
    """A peer that sends many requests in one write and then reads slowly, but steadily, is not disconnected."""
    handler = recorder(echo)
    connection, transport = rig.connect(handler, pause_reading_bytes=1000, max_unwritten_bytes=50_000)
    transport.slow = True
    connection.data_received(b"".join(asked(opaque=number, body=bytes(1000)) for number in range(200)))
    seen = []
    while len(seen) < 6:
        await turn()
        seen.append(len(handler.seen))
        assert not transport.reading
        transport.drain(transport.held)
    assert seen == [32, 64, 96, 128, 160, 192]
    await turn()
    assert [command.opaque for command in handler.seen] == list(range(200))
    transport.drain(transport.held)
    await turn()
    assert transport.reading
    assert not connection.closed


@in_loop
async def test_a_peer_that_reads_at_once_has_all_its_requests_served(rig, recorder):
    handler = recorder(echo)
    connection, transport = rig.connect(handler, pause_reading_bytes=1000, max_unwritten_bytes=50_000)
    connection.data_received(b"".join(asked(opaque=number, body=bytes(1000)) for number in range(200)))
    for _ in range(20):
        await turn()
    assert len(handler.seen) == 200
    assert transport.reading
    assert not connection.closed


@in_loop
async def test_many_requests_are_served_some_a_turn_so_that_the_first_answers_leave_early(rig, recorder):
    handler = recorder(echo)
    connection, transport = rig.connect(handler)
    connection.data_received(b"".join(asked(opaque=number) for number in range(3 * MAX_BATCH)))
    assert len(handler.seen) == MAX_BATCH
    assert [answer.opaque for answer in transport.commands] == list(range(MAX_BATCH))
    await asyncio.sleep(0)
    assert len(handler.seen) == 2 * MAX_BATCH
    assert [answer.opaque for answer in transport.commands] == list(range(2 * MAX_BATCH))
    connection.data_received(asked(opaque=3 * MAX_BATCH))
    for _ in range(5):
        await turn()
    assert [command.opaque for command in handler.seen] == list(range(3 * MAX_BATCH + 1))
    assert [answer.opaque for answer in transport.commands] == list(range(3 * MAX_BATCH + 1))


@in_loop
async def test_one_way_requests_are_served_with_as_many_others(rig, recorder):
    handler = recorder(echo)
    connection, _ = rig.connect(handler)
    pairs = [asked(opaque=number, flag=FLAG_ONEWAY if number % 2 else 0) for number in range(4 * MAX_BATCH + 1)]
    connection.data_received(b"".join(pairs))
    await turn()
    await turn()
    assert [len(batch) for batch in handler.batches] == [2 * MAX_BATCH, 2 * MAX_BATCH, 1]


@in_loop
async def test_a_batch_of_one_way_requests_is_no_larger_than_others(rig, recorder):
    handler = recorder()
    connection, _ = rig.connect(handler)
    connection.data_received(b"".join(asked(opaque=number, flag=FLAG_ONEWAY) for number in range(MAX_BATCH + 5)))
    await turn()
    assert [len(batch) for batch in handler.batches] == [MAX_BATCH, 5]


@in_loop
async def test_the_longer_requests_take_the_fewer_are_served_a_turn(rig, recorder):
    cost_s = 0.0001

    def take(connection, command):
        rig.clock.advance(cost_s)
        return echo(connection, command)

    handler = recorder(take)
    connection, _ = rig.connect(handler)

    async def turns(count):
        seen, last = [len(handler.seen)], -1
        connection.data_received(b"".join(asked(opaque=number) for number in range(count)))
        seen.append(len(handler.seen))
        while seen[-1] != last:
            last = seen[-1]
            await asyncio.sleep(0)
            seen.append(len(handler.seen))
        return [after - before for before, after in itertools.pairwise(seen) if after > before]

    assert await turns(60) == [32, 16, 8, 4]
    assert await turns(20) == [8, 8, 4]
    cost_s = 0.0
    assert await turns(60) == [8, 16, 32, 4]


@in_loop
async def test_a_peer_that_asks_faster_than_it_is_served_is_not_read_from_meanwhile(rig, recorder):
    handler = recorder(echo)
    connection, transport = rig.connect(handler)
    connection.data_received(b"".join(asked(opaque=number) for number in range(MAX_WAITING)))
    assert transport.reading
    connection.data_received(b"".join(asked(opaque=number) for number in range(MAX_WAITING, 2 * MAX_WAITING)))
    assert not transport.reading
    for _ in range(20):
        await turn()
    assert transport.reading
    assert [command.opaque for command in handler.seen] == list(range(2 * MAX_WAITING))


@in_loop
async def test_requests_that_were_read_are_served_after_the_peer_closed(rig, recorder):
    """A client may send oneway requests and close at once."""
    gone, served_before = [], []
    handler = recorder()
    connection, transport = rig.connect(handler)
    connection.on_close(gone.append)
    connection.on_close(lambda _: served_before.append(len(handler.seen)))
    connection.data_received(b"".join(asked(opaque=number, flag=FLAG_ONEWAY) for number in range(3 * MAX_BATCH)))
    transport.close()
    for _ in range(5):
        await turn()
    assert [command.opaque for command in handler.seen] == list(range(3 * MAX_BATCH))
    assert gone == [connection]
    assert served_before == [3 * MAX_BATCH]
    connection.on_close(gone.append)
    assert gone == [connection] * 2
    assert transport.writes == []


@in_loop
async def test_held_requests_are_served_when_released_after_the_peer_closed(rig, recorder, caplog):
    caplog.set_level("INFO")
    gone = []

    def hold_the_first(connection, command):
        if len(handler.batches) == 1:
            connection.hold([command])

    handler = recorder(hold_the_first)
    connection, transport = rig.connect(handler)
    connection.on_close(gone.append)
    connection.data_received(asked(opaque=1))
    transport.close()
    await turn()
    assert transport.lost
    assert gone == []
    connection.release()
    await turn()
    assert [command.opaque for command in handler.seen] == [1, 1]
    assert gone == [connection]
    rig.clock.advance(LAST_REQUESTS_S)
    assert caplog.records == []


@in_loop
async def test_held_requests_of_a_lost_connection_wait_for_a_limited_time(rig, recorder):
    """Authentication may take long for each of them, and the connection counts as open meanwhile."""
    gone = []
    handler = recorder(lambda connection, command: connection.hold([command]))
    connection, transport = rig.connect(handler)
    connection.on_close(gone.append)
    connection.data_received(asked())
    transport.close()
    await turn()
    rig.clock.advance(LAST_REQUESTS_S - 1)
    assert gone == []
    rig.clock.advance(1)
    assert gone == [connection]
    connection.release()
    await turn()
    assert len(handler.seen) == 1


@in_loop
async def test_held_requests_of_a_lost_connection_do_not_outlive_an_abort(rig, recorder):
    gone = []
    handler = recorder(lambda connection, command: connection.hold([command]))
    connection, transport = rig.connect(handler)
    connection.on_close(gone.append)
    connection.data_received(asked())
    transport.close()
    await turn()
    connection.abort()
    assert gone == [connection]
    connection.release()
    await turn()
    assert len(handler.seen) == 1


@pytest.mark.parametrize("how", ["close", "abort"])
@in_loop
async def test_waiting_requests_are_discarded_when_this_side_closes(rig, recorder, how):
    gone = []
    handler = recorder()
    connection, _ = rig.connect(handler)
    connection.on_close(gone.append)
    connection.data_received(b"".join(asked(opaque=number) for number in range(3 * MAX_BATCH)))
    getattr(connection, how)()
    for _ in range(5):
        await turn()
    assert len(handler.seen) == MAX_BATCH
    assert gone == [connection]
