"""Idle timeout of connections."""

from loop_tests import asked, echo, in_loop, turn

from gantrymq.remoting.command import request


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
