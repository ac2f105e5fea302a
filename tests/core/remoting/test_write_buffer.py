"""Write buffer of a connection: time of writes, limits, and lost data."""

import asyncio

from loop_tests import asked, echo, in_loop, turn
from one_frame import split_frame

from gantrymq.remoting.command import Command, decode, request
from gantrymq.remoting.limits import UnwrittenBytes


@in_loop
async def test_oneway_requests_that_were_not_written_are_told_and_logged(rig, caplog):
    connection, transport = rig.connect(pause_reading_bytes=1000)
    told = []
    connection.oneway(request(40, body=b"x" * 100), lambda: told.append("written"))
    connection.flush()
    transport.slow = True
    for n in range(3):
        connection.oneway(request(40, body=b"x" * 1000), lambda n=n: told.append(n))
        connection.flush()
    connection.oneway(request(40))
    transport.drain(1200)
    connection.abort()
    await asyncio.sleep(0)
    assert told == [1, 2]
    assert "the connection was lost with 3 oneway requests unwritten" in caplog.text
    connection.oneway(request(40), lambda: told.append("late"))
    assert told == [1, 2, "late"]


@in_loop
async def test_a_connection_that_is_closed_in_order_drops_no_oneway_request(rig, caplog):
    connection, transport = rig.connect()
    transport.slow = True
    connection.oneway(request(40))
    connection.close()
    await asyncio.sleep(0)
    assert transport.commands
    assert "unwritten" not in caplog.text


@in_loop
async def test_writers_wait_while_too_much_is_unwritten(rig):
    connection, transport = rig.connect(pause_reading_bytes=1000)
    transport.slow = True
    assert await connection.writable(3.0)
    connection.oneway(request(40, body=b"x" * 2000))
    waiting = [asyncio.ensure_future(connection.writable(3.0)) for _ in range(2)]
    for _ in range(3):
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting)
    transport.drain(transport.held)
    assert await asyncio.gather(*waiting) == [True, True]
    connection.oneway(request(40, body=b"x" * 2000))
    waiting = [asyncio.ensure_future(connection.writable(3.0)) for _ in range(2)]
    await asyncio.sleep(0)
    connection.abort()
    assert await asyncio.gather(*waiting) == [False, False]


@in_loop
async def test_flush_writes_what_is_gathered_at_once_and_only_once(rig, recorder):
    connection, transport = rig.connect(recorder())
    connection.flush()
    assert transport.writes == []
    connection.reply(7, Command(0))
    connection.flush()
    assert [answer.opaque for answer in transport.commands] == [7]
    await turn()
    assert len(transport.writes) == 1


@in_loop
async def test_a_reader_far_too_slow_is_closed(rig, recorder, caplog):
    connection, transport = rig.connect(recorder(), pause_reading_bytes=1000, max_unwritten_bytes=10_000)
    transport.slow = True
    for opaque in range(3):
        connection.reply(opaque, Command(0, body=bytes(4000)))
        await turn()
    assert transport.aborted
    assert "reads too slowly" in caplog.text
    assert connection.closed


@in_loop
async def test_close_writes_what_is_gathered(rig):
    connection, transport = rig.connect()
    connection.reply(1, Command(0))
    connection.close()
    connection.close()
    assert decode(split_frame(transport.writes[0])).opaque == 1
    assert "closed" in repr(connection)


@in_loop
async def test_a_crowd_of_slow_readers_costs_bounded_memory_and_the_greediest_goes_first(rig, recorder, caplog):
    rig.unwritten = UnwrittenBytes(50_000, rig.clock.monotonic)
    crowd = [rig.connect(recorder(echo)) for _ in range(10)]
    for number, (connection, transport) in enumerate(crowd):
        transport.slow = True
        connection.data_received(asked(body=bytes(1000 + 1000 * number)))
        await turn()
        assert rig.unwritten.total <= 50_000
    assert [transport.aborted for _, transport in crowd] == [False] * 9 + [True]
    assert "wait to be written, limit 50000" in caplog.text
    honest, transport = rig.connect(recorder(echo))
    honest.data_received(asked(body=bytes(30_000)))
    await turn()
    assert len(transport.commands) == 1
    assert not transport.closing


@in_loop
async def test_what_was_written_meanwhile_does_not_count(rig, recorder):
    rig.unwritten = UnwrittenBytes(10_000, rig.clock.monotonic)
    (first, one), (second, two) = rig.connect(recorder(echo)), rig.connect(recorder(echo))
    one.slow = two.slow = True
    first.data_received(asked(body=bytes(8000)))
    await turn()
    assert rig.unwritten.total == one.held > 8000
    one.drain(one.held)  # below the low-water mark, so without an event
    second.data_received(asked(body=bytes(9000)))
    await turn()
    assert not one.closing
    assert not two.closing
    assert rig.unwritten.total == two.held > 9000
    second.abort()
    await turn()
    assert rig.unwritten.total == 0


@in_loop
async def test_a_drained_backlog_leaves_the_account(rig, recorder):
    connection, transport = rig.connect(recorder(echo), pause_reading_bytes=1000)
    transport.slow = True
    connection.data_received(asked(body=bytes(5000)))
    await turn()
    assert rig.unwritten.total == transport.held > 5000
    transport.drain(transport.held)
    assert rig.unwritten.total == 0
