"""One connection over a recording transport, on a manual clock."""

import pytest
from loop_tests import asked, echo, in_loop, turn

from gantrymq.errors import CallTimeout, ConnectionLost
from gantrymq.remoting.command import Command, encode, request, response_to
from gantrymq.remoting.limits import UnfinishedFrames


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
    clock.advance(60)  # gathered, not written: the time of the call has not started
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


@in_loop
async def test_a_frame_error_closes_after_all_batches_before_it_are_served(rig, recorder):
    handler = recorder(echo)
    connection, transport = rig.connect(handler)
    connection.data_received(b"".join(asked(opaque=n) for n in range(100)) + b"\x7f\xff\xff\xff\0\0\0\0")
    connection.data_received(asked(opaque=100))
    assert not transport.reading
    for _ in range(5):
        await turn()
    assert [command.opaque for command in transport.commands] == list(range(100))
    assert transport.lost


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
async def test_close_callbacks_that_raise_do_not_stop_others(rig, caplog):
    connection, _ = rig.connect()
    gone = []
    connection.on_close(lambda _: 1 / 0)
    connection.on_close(gone.append)
    connection.abort()
    await turn()
    assert gone == [connection]
    assert "a close callback failed" in caplog.text
