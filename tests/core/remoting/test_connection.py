"""One connection over a transport that records, on a clock that moves when told."""

import asyncio
import functools
import ipaddress
import itertools
import logging

import pytest

from gantrymq.errors import CallTimeout, ConnectionLost
from gantrymq.remoting.admission import Admission
from gantrymq.remoting.command import Command, decode, encode, request, response_to
from gantrymq.remoting.frame import split_frame
from gantrymq.remoting.limits import UnfinishedFrames, UnwrittenBytes
from gantrymq.remoting.proxies import Proxies
from gantrymq.remoting.request_queue import HAND_OVER, MOST_WAITING


def in_loop(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


async def turn():
    """Let everything that is due now run."""
    for _ in range(3):
        await asyncio.sleep(0)


def asked(code=11, opaque=1, serialize=0, flag=0, body=None):
    return encode(Command(code, opaque=opaque, serialize=serialize, flag=flag, body=body))


def echo(connection, command):
    connection.reply(command, Command(0, ext={"code": str(command.code)}, body=command.body))


@in_loop
async def test_all_requests_of_a_read_come_at_once_and_answers_leave_in_one_write(rig, recorder):
    handler = recorder(echo)
    connection, transport = rig.connect(handler)
    connection.data_received(b"".join(asked(opaque=n, body=b"x" * n) for n in range(20)))
    assert [len(batch) for batch in handler.batches] == [20]
    assert len(transport.writes) == 1
    await turn()
    assert len(transport.writes) == 1
    assert [(c.opaque, c.is_response, len(c.payload)) for c in transport.commands] == [(n, True, n) for n in range(20)]


@in_loop
async def test_answers_have_the_header_form_of_the_request(rig, recorder):
    handler = recorder()
    connection, transport = rig.connect(handler)
    connection.data_received(asked(opaque=1, serialize=1) + asked(opaque=2))
    connection.reply(handler.batches[0][0], Command(0))
    connection.reply(handler.batches[0][1], Command(0))
    connection.reply(7, Command(0))
    await turn()
    assert [(c.opaque, c.serialize) for c in transport.commands] == [(1, 1), (2, 0), (7, 0)]


@in_loop
async def test_oneway_requests_are_not_answered(rig, recorder):
    connection, transport = rig.connect(recorder(echo))
    connection.data_received(asked(flag=2))
    await turn()
    assert transport.writes == []


@in_loop
async def test_encoded_answers_and_answers_in_parts(rig, recorder):
    connection, transport = rig.connect(recorder())
    answer = response_to(Command(11, opaque=5), body=b"one two")
    whole = encode(answer)
    connection.reply(5, whole)
    connection.reply_parts([whole[:-7], memoryview(b"one "), memoryview(b"two")])
    await turn()
    assert b"".join(transport.writes) == whole * 2


@in_loop
async def test_both_sides_ask_with_the_same_opaque(rig, recorder):
    connection, transport = rig.connect(recorder(echo))
    call = connection.send_request(request(221, {"group": "g"}), 5.0)
    await turn()
    (out,) = transport.commands
    connection.data_received(asked(opaque=out.opaque) + encode(response_to(out, ext={"a": "1"})))
    assert (await call).ext == {"a": "1"}
    await turn()
    assert transport.commands[1].is_response


@in_loop
async def test_answers_in_any_order_and_answers_nobody_waits_for(rig):
    connection, transport = rig.connect()
    calls = [connection.send_request(request(100 + n), 5.0) for n in range(3)]
    await turn()
    out = transport.commands
    assert len({c.opaque for c in out}) == 3
    for command in reversed(out):
        connection.data_received(encode(response_to(command, command.code)))
    connection.data_received(encode(response_to(Command(1, opaque=999))))
    assert [(await call).code for call in calls] == [100, 101, 102]


@in_loop
async def test_a_call_times_out_on_the_worlds_clock(rig, clock):
    connection, _ = rig.connect()
    call = connection.send_request(request(105), 3.0)
    clock.advance(60)  # gathered, not written: the time of the call has not begun
    connection.flush()
    clock.advance(2.9)
    assert not call.done()
    clock.advance(0.2)
    with pytest.raises(CallTimeout, match="GET_ROUTEINFO_BY_TOPIC within 3 s"):
        await call


@in_loop
async def test_a_call_behind_what_the_peer_reads_slowly_is_waited_for(rig, clock):
    connection, transport = rig.connect()
    transport.slow = True
    connection.oneway(request(310, body=b"x" * 10_000))
    call = connection.send_request(request(105), 3.0)
    connection.flush()
    for _ in range(3):
        transport.drain(2000)
        clock.advance(3.0)
        assert not call.done()
    transport.drain(transport.held)
    clock.advance(3.0)
    assert isinstance(call.exception(), CallTimeout)


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
async def test_calls_fail_when_the_connection_goes(rig):
    connection, _ = rig.connect()
    gone = []
    connection.on_close(gone.append)
    call = connection.send_request(request(105), 3.0)
    connection.abort()
    await turn()
    with pytest.raises(ConnectionLost):
        await call
    with pytest.raises(ConnectionLost):
        await connection.call(request(105), 3.0)
    connection.on_close(gone.append)
    connection.oneway(request(15))
    connection.reply(1, Command(0))
    assert gone == [connection, connection]
    assert connection.closed


@in_loop
async def test_oneway_requests_carry_the_flag_and_the_peers_header_form(rig, recorder):
    connection, transport = rig.connect(recorder())
    connection.data_received(asked(serialize=1))
    connection.oneway(request(40, {"consumerGroup": "g"}))
    connection.oneway(request(200050))
    await turn()
    assert [(c.code, c.flag, c.serialize) for c in transport.commands] == [(40, 2, 1), (200050, 2, 0)]


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
async def test_a_frame_error_closes_after_what_came_before_it_is_served(rig, recorder, caplog):
    handler = recorder(echo)
    connection, transport = rig.connect(handler)
    connection.data_received(asked(opaque=3) + b"\x7f\xff\xff\xff\0\0\0\0")
    assert len(handler.batches) == 1
    assert transport.closing
    assert len(transport.commands) == 1
    connection.data_received(asked())
    await turn()
    assert len(handler.batches) == 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize("header", [b"nonsense", b'{"code":"x"}', b"[]"])
@in_loop
async def test_a_header_that_cannot_be_read_closes_without_an_answer(rig, recorder, caplog, header):
    connection, transport = rig.connect(recorder())
    connection.data_received((4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
    await turn()
    assert transport.lost
    assert transport.writes == []
    assert len(caplog.records) == 1


@in_loop
async def test_a_slow_reader_is_not_read_from_until_it_has_read(rig, recorder):
    connection, transport = rig.connect(recorder(echo), pause_reading_bytes=1000, max_unwritten_bytes=10_000)
    transport.slow = True
    connection.data_received(asked(body=bytes(2000)))
    await turn()
    assert not transport.reading
    connection.pause_reading()
    transport.drain(transport.held - 250)
    assert not transport.reading
    connection.resume_reading()
    assert transport.reading
    assert connection.unwritten_bytes == 250


@in_loop
async def test_requests_behind_answers_that_are_not_read_wait_until_they_are(rig, recorder):
    """A peer that asks for much in one write and then reads slowly, but steadily, is not cut off."""
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
    connection.data_received(b"".join(asked(opaque=number) for number in range(3 * HAND_OVER)))
    assert len(handler.seen) == HAND_OVER
    assert [answer.opaque for answer in transport.commands] == list(range(HAND_OVER))
    await asyncio.sleep(0)
    assert len(handler.seen) == 2 * HAND_OVER
    assert [answer.opaque for answer in transport.commands] == list(range(2 * HAND_OVER))
    connection.data_received(asked(opaque=3 * HAND_OVER))
    for _ in range(5):
        await turn()
    assert [command.opaque for command in handler.seen] == list(range(3 * HAND_OVER + 1))
    assert [answer.opaque for answer in transport.commands] == list(range(3 * HAND_OVER + 1))


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
    connection.data_received(b"".join(asked(opaque=number) for number in range(MOST_WAITING)))
    assert transport.reading
    connection.data_received(b"".join(asked(opaque=number) for number in range(MOST_WAITING, 2 * MOST_WAITING)))
    assert not transport.reading
    for _ in range(20):
        await turn()
    assert transport.reading
    assert [command.opaque for command in handler.seen] == list(range(2 * MOST_WAITING))


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
    connection, transport = rig.connect(recorder(echo), pause_reading_bytes=1000, max_unwritten_bytes=10_000)
    transport.slow = True
    for _ in range(3):
        connection.data_received(asked(body=bytes(4000)))
        await turn()
    assert transport.aborted
    assert "reads too slowly" in caplog.text
    assert connection.closed


@in_loop
async def test_idle_connections_close_after_reads_and_writes_cease(rig, recorder, clock):
    connection, transport = rig.connect(recorder(echo), idle_timeout_s=120)
    clock.advance(100)
    connection.data_received(asked())
    await turn()
    clock.advance(100)
    connection.oneway(request(40))
    await turn()
    clock.advance(119)
    assert not transport.closing
    assert connection.last_heard == 1100
    clock.advance(2)
    assert transport.aborted


@in_loop
async def test_a_slow_but_steady_reader_is_not_idle(rig, recorder, clock):
    connection, transport = rig.connect(recorder(echo), idle_timeout_s=120)
    transport.slow = True
    connection.data_received(asked(body=bytes(5000)))
    await turn()
    for _ in range(4):
        clock.advance(110)
        transport.drain(100)
    assert not transport.closing
    clock.advance(500)
    assert transport.aborted


@in_loop
async def test_no_idle_limit(rig, clock):
    _, transport = rig.connect(idle_timeout_s=0)
    clock.advance(1e9)
    assert not transport.closing


@in_loop
async def test_the_proxy_header_gives_the_peer(rig, recorder):
    handler = recorder()
    connection, _ = rig.connect(handler, admission=Admission(proxies=Proxies((ipaddress.ip_network("10.0.0.9"),))))
    assert connection.peer_packed_host == bytes.fromhex("0a00000900001267")
    assert connection.address == "10.0.0.9:4711"
    for byte in b"PROXY TCP4 10.1.2.3 10.0.0.1 5555 80\r\n" + asked():
        connection.data_received(bytes([byte]))
    assert connection.peer == ("10.1.2.3", 5555)
    assert connection.peer_packed_host == bytes.fromhex("0a010203000015b3")
    assert len(handler.batches) == 1


@in_loop
async def test_a_proxy_header_of_somebody_else_closes_and_is_told(rig, recorder, caplog):
    handler = recorder()
    connection, transport = rig.connect(handler)
    connection.data_received(b"PROXY TCP4 10.1.2.3 10.0.0.1 5555 80\r\n" + asked())
    await turn()
    assert transport.lost and handler.batches == []
    assert connection.peer == ("10.0.0.9", 4711)
    (line,) = caplog.messages
    assert "sends a PROXY header and is no proxy; if it is one, add 10.0.0.9 to proxyProtocolAddresses" in line


ASKING = b"\0\0\0\x04\x01\0\0\0\0\0\0\x03\x01\x05\0\0\0\x01\x82\x84\x86"  # SETTINGS acknowledged; GET / on stream 1


@in_loop
async def test_http_2_is_greeted_once_and_sent_away_when_it_asks(rig, recorder, caplog):
    connection, transport = rig.connect(recorder())
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":
        connection.data_received(bytes([byte]))
        await turn()
    assert transport.writes == [b"\0\0\0\x04\0\0\0\0\0"]
    assert caplog.messages == []
    connection.data_received(ASKING)
    await turn()
    assert transport.lost
    assert b"usually at port 8081" in transport.writes[1]
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("first", "words", "answered"),
    [
        (b"\x16\x03\x01\x02\x00", "wants TLS, and this server has no certificate", False),
        (b"GET /metrics HTTP/1.1\r\n", "speaks HTTP; this port speaks the RocketMQ remoting protocol", True),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + ASKING,
            "gRPC clients need RocketMQ's proxy, usually at port 8081",
            True,
        ),
        (b"PROXY nonsense\r\n", "PROXY header", False),
        (b"SSH-2.0-x", "frame of", False),
    ],
)
@in_loop
async def test_other_protocols_are_closed_with_one_line(rig, recorder, caplog, first, words, answered):
    handler = recorder()
    connection, transport = rig.connect(handler)
    connection.data_received(first)
    await turn()
    assert transport.lost
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert words in caplog.text
    assert bool(transport.writes) == answered
    assert handler.batches == []


@in_loop
async def test_a_crowd_of_half_sent_frames_costs_bounded_memory_and_stalls_nobody(rig, recorder, caplog):
    rig.unfinished = UnfinishedFrames(100_000)
    handler = recorder(echo)
    crowd = []
    for _ in range(50):
        connection, transport = rig.connect(recorder())
        connection.data_received(asked(body=bytes(10_000))[:5000])
        crowd.append(transport)
        assert rig.unfinished.total <= 100_000
    honest, transport = rig.connect(handler)
    data = asked(body=bytes(30_000))
    for at in range(0, len(data), 1000):
        honest.data_received(data[at : at + 1000])
        assert rig.unfinished.total <= 100_000
    await turn()
    assert len(handler.batches) == 1
    assert not transport.closing
    assert sum(t.aborted for t in crowd) >= 30
    assert crowd[0].aborted
    assert not crowd[-1].aborted
    assert "unfinished frames" in caplog.text


@in_loop
async def test_the_account_forgets_what_is_whole_or_gone(rig, recorder):
    connection, _ = rig.connect(recorder())
    data = asked(body=bytes(1000))
    connection.data_received(data[:500])
    assert rig.unfinished.total == 500
    connection.data_received(data[500:] + data[:100])
    assert rig.unfinished.total == 100
    connection.eof_received()
    connection.abort()
    await turn()
    assert rig.unfinished.total == 0


@in_loop
async def test_old_connections_that_hold_little_are_spared(rig, recorder):
    rig.unfinished = UnfinishedFrames(10_000)
    small, small_transport = rig.connect(recorder())
    small.data_received(asked()[:10])
    big, big_transport = rig.connect(recorder())
    big.data_received(asked(body=bytes(20_000))[:9000])
    other, other_transport = rig.connect(recorder())
    other.data_received(asked(body=bytes(20_000))[:2000])
    assert (small_transport.aborted, big_transport.aborted, other_transport.aborted) == (False, True, False)
    assert rig.unfinished.total == 2010


@in_loop
async def test_close_writes_what_is_gathered(rig):
    connection, transport = rig.connect()
    connection.reply(1, Command(0))
    connection.close()
    connection.close()
    assert decode(split_frame(transport.writes[0])).opaque == 1
    assert "closed" in repr(connection)


@in_loop
async def test_close_callbacks_that_raise_do_not_stop_others(rig, caplog):
    connection, _ = rig.connect()
    gone = []
    connection.on_close(lambda _: 1 / 0)
    connection.on_close(gone.append)
    connection.abort()
    await turn()
    assert gone == [connection]
    assert "a close callback failed" in caplog.text


@in_loop
async def test_a_crowd_of_slow_readers_costs_bounded_memory_and_the_greediest_goes_first(rig, recorder, caplog):
    rig.unwritten = UnwrittenBytes(50_000)
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
    rig.unwritten = UnwrittenBytes(10_000)
    (first, one), (second, two) = rig.connect(recorder(echo)), rig.connect(recorder(echo))
    one.slow = two.slow = True
    first.data_received(asked(body=bytes(8000)))
    await turn()
    assert rig.unwritten.total == one.held > 8000
    one.drain(one.held)  # below the mark of a pause, so nobody is told
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
