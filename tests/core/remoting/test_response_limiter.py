"""Limit of long responses: concurrency, waiting and lost connections."""

import asyncio

import pytest
from loop_tests import asked, echo, in_loop, turn

from gantrymq.errors import ConnectionLost
from gantrymq.remoting.command import Command
from gantrymq.remoting.limits import UnwrittenBytes
from gantrymq.remoting.request_queue import CHECK_INTERVAL_S, MAX_WAITING_RESPONSES

KB = 1024


class Work:
    """Makes an answer of *size* bytes for each opaque, on request."""

    def __init__(self, connection, size):
        self.connection, self.size = connection, size
        self.begun, self.may_end = [], asyncio.Event()

    async def make(self, opaque):
        self.begun.append(opaque)
        await self.may_end.wait()

    async def answer(self, opaque):
        await self.connection.response_limiter.run(self.make(opaque))
        self.connection.reply(opaque, Command(0, body=bytes(self.size)))

    def start(self, count):
        return [asyncio.ensure_future(self.answer(opaque)) for opaque in range(count)]


@in_loop
async def test_no_more_answers_are_made_than_there_is_room_for(rig):
    connection, transport = rig.connect(pause_reading_bytes=1024 * KB)
    transport.slow = True
    work = Work(connection, 300 * KB)
    tasks = work.start(40)
    await turn()
    assert len(work.begun) == 16  # without a measurement a response counts as 64 KiB
    work.may_end.set()
    await turn()
    await turn()
    assert len(work.begun) == 16
    assert connection.response_limiter.busy
    sizes = []
    while not all(task.done() for task in tasks):
        transport.drain(transport.held)
        await turn()
        await turn()
        sizes.append(transport.held)
    assert work.begun == list(range(40))
    assert max(sizes) < 1024 * KB + 2 * 300 * KB
    transport.drain(transport.held)
    assert not connection.response_limiter.busy


@in_loop
async def test_those_that_wait_are_told_when_the_connection_is_lost_and_their_work_is_not_begun(rig):
    connection, transport = rig.connect(pause_reading_bytes=1000)
    transport.slow = True
    connection.reply(1, Command(0, body=bytes(2000)))
    await turn()
    work = Work(connection, 10)
    tasks = work.start(3)
    await turn()
    connection.abort()
    await turn()
    assert all(isinstance(task.exception(), ConnectionLost) for task in tasks)
    (late,) = work.start(1)
    await turn()
    assert isinstance(late.exception(), ConnectionLost)
    assert work.begun == []


@pytest.mark.parametrize("given", [False, True], ids=["while it waits", "as its turn comes"])
@in_loop
async def test_one_that_is_cancelled_leaves_its_turn_to_the_next(rig, given):
    connection, transport = rig.connect(pause_reading_bytes=1000)
    transport.slow = True
    connection.reply(1, Command(0, body=bytes(2000)))
    await turn()
    work = Work(connection, 10)
    tasks = work.start(2)
    await turn()
    if given:
        transport.drain(transport.held)
    tasks[0].cancel()
    await turn()
    if not given:
        transport.drain(transport.held)
        await turn()
    assert work.begun == [1]
    work.may_end.set()
    await turn()
    assert tasks[0].cancelled()
    assert tasks[1].done()
    assert not connection.response_limiter.busy


@in_loop
async def test_nothing_more_is_read_while_many_wait(rig):
    connection, transport = rig.connect(pause_reading_bytes=1000)
    transport.slow = True
    connection.reply(1, Command(0, body=bytes(1500)))
    await turn()
    transport.drain(1000)  # not enough for the peer's pause, so that only the turns count
    transport.paused = False
    connection.resume_writing()
    assert transport.reading
    work = Work(connection, 10)
    tasks = work.start(MAX_WAITING_RESPONSES + 100)
    await turn()
    assert not transport.reading
    work.may_end.set()
    for _ in range(200):
        transport.drain(transport.held)
        await turn()
    assert all(task.done() for task in tasks)
    assert transport.reading


@in_loop
async def test_while_it_is_tight_for_all_each_may_have_less_and_looks_by_itself(rig):
    rig.unwritten = UnwrittenBytes(100_000, rig.clock.monotonic)
    crowd = [rig.connect(pause_reading_bytes=16_000) for _ in range(4)]
    for connection, transport in crowd:
        transport.slow = True
        connection.reply(1, Command(0, body=bytes(8000)))
        await turn()
    assert rig.unwritten.tight
    connection, transport = crowd[0]
    work = Work(connection, 10)
    (task,) = work.start(1)
    await turn()
    assert work.begun == []
    transport.held = 500  # no event, because it was below the low-water mark
    rig.clock.advance(CHECK_INTERVAL_S)
    await turn()
    assert work.begun == [0]
    work.may_end.set()
    await turn()
    assert task.done()
    for _, other in crowd:
        other.held = 0
    rig.clock.advance(2.0)
    assert not rig.unwritten.tight


@in_loop
async def test_requests_wait_and_are_served_again_while_it_is_tight(rig, recorder):
    rig.unwritten = UnwrittenBytes(10_000, rig.clock.monotonic)
    handler = recorder(echo)
    connection, transport = rig.connect(handler, pause_reading_bytes=16_000)
    transport.slow = True
    connection.data_received(asked(opaque=1, body=bytes(5000)))
    await turn()
    connection.data_received(asked(opaque=2))
    await turn()
    assert [command.opaque for command in handler.seen] == [1]
    transport.held = 0
    rig.clock.advance(CHECK_INTERVAL_S)
    await turn()
    assert [command.opaque for command in handler.seen] == [1, 2]
    assert transport.reading


@in_loop
async def test_what_a_handler_puts_back_is_served_first_once_there_is_room(rig, recorder):
    class Stopping(recorder):
        def requests(self, connection, commands):
            for index, command in enumerate(commands):
                if index and connection.full:
                    connection.put_back(commands[index:])
                    return
                super().requests(connection, [command])

    handler = Stopping(echo)
    connection, transport = rig.connect(handler, pause_reading_bytes=1000)
    transport.slow = True
    connection.data_received(b"".join(asked(opaque=number, body=bytes(1000)) for number in range(50)))
    await turn()
    assert len(handler.seen) == 1
    for _ in range(60):
        assert transport.held < 3000
        transport.drain(transport.held)
        await turn()
    assert [command.opaque for command in handler.seen] == list(range(50))
    assert transport.reading
