"""Pings, idle connections, old connections, incomplete requests, and the stop of a server, on a virtual clock."""

import asyncio
import logging

import pytest
from grpc_served import Note, note, prefixed

from gantrymq_grpc.transport.call import BidiStream, ServerStream, Unary
from gantrymq_grpc.transport.frames import MAX_FRAME_BYTES
from gantrymq_grpc.transport.limits import Limits

LARGE = 1 << 22


def answer(request, call):
    return Note(text=request.text)


async def forever(*arguments):
    await asyncio.get_running_loop().create_future()


@pytest.fixture(autouse=True)
def _with_info(caplog):
    caplog.set_level(logging.INFO, "gantrymq.grpc")


def test_a_silent_client_is_pinged_and_stays_if_it_answers(serve):
    async def work(served):
        client = await served.connect()
        client.open("Bidi", end=False)
        await served.world.clock.sleep(29)
        assert client.pings == 0
        await served.world.clock.sleep(600)
        assert client.pings == 20  # one in 30 s
        assert len(served.connection.calls) == 1

    serve(work, {"Bidi": BidiStream(forever)})


def test_a_client_that_does_not_answer_a_ping_is_closed(serve, caplog):
    closed = []

    async def handler(request, call):
        call.on_close(lambda call: closed.append(call.connection._clock.monotonic()))
        await forever()

    async def work(served):
        client = await served.connect()
        start = served.world.clock.monotonic()
        client.open("Server", note())
        await served.world.clock.sleep(1)
        client.transport.pause_reading()  # half open: it neither reads nor answers
        await served.world.clock.sleep(60)
        assert served.server.connections == []
        assert 40 <= closed[0] - start < 41

    serve(work, {"Server": ServerStream(handler)})
    assert "closed: the client has not answered a ping for 10 s" in caplog.text


def test_clients_may_ping_every_ten_seconds_also_without_calls(serve):
    async def work(served):
        client = await served.connect()
        for number in range(100):
            client.h2.ping(number.to_bytes(8, "big"))
            client.flush()
            await served.world.clock.sleep(10 + (number % 3 - 1) * 0.5)  # as the network delays them
        assert client.pongs == 100
        assert client.goaway is None

    serve(work, limits=Limits(idle_timeout_s=0))


def test_pings_with_responses_between_are_allowed_as_often(serve):
    async def work(served):
        client = await served.connect()
        for number in range(50):
            assert (await client.call()).status == 0
            client.h2.ping(number.to_bytes(8, "big"))
            client.flush()
            await client.until(lambda number=number: client.pongs == number + 1)
        assert client.goaway is None

    serve(work, {"Unary": Unary(answer)})


def test_pings_that_measure_one_large_response_are_allowed(serve):
    """Go's library sends one for a piece of data when the one before was answered, also after the last was written."""

    async def work(served):
        client = await served.connect()
        stream = client.open("Unary", prefixed(Note().SerializeToString()))
        await client.ended(stream)
        assert (stream.status, len(stream.data)) == (0, LARGE + 10)
        for number in range(LARGE // MAX_FRAME_BYTES):
            client.h2.ping(bytes(8))
            client.flush()
            await client.until(lambda number=number: client.pongs > number or client.goaway is not None)
            assert client.goaway is None

    serve(work, {"Unary": Unary(lambda request, call: Note(text="x" * LARGE))})


def test_a_flood_of_pings_ends_the_connection(serve, caplog):
    async def work(served):
        client = await served.connect()
        while not client.goaway:
            client.h2.ping(client.pongs.to_bytes(8, "big"))
            client.flush()
            await served.world.clock.sleep(1)
        assert client.pongs == 3
        await client.until_lost()
        assert client.goaway.error_code == 11
        assert client.goaway.additional_data == b"too_many_pings"

    serve(work)
    assert "closed: too_many_pings (ENHANCE_YOUR_CALM)" in caplog.text


def test_an_idle_connection_gets_goaway_after_two_minutes(serve):
    async def work(served):
        client = await served.connect()
        assert (await client.call()).status == 0
        start = served.world.clock.monotonic()
        await client.until(lambda: client.goaway)
        assert 119 < served.world.clock.monotonic() - start < 121
        assert client.goaway.error_code == 0
        assert client.goaway.last_stream_id == 1
        assert client.goaway.additional_data == b"no call for 120 s"
        await client.until_lost()
        assert served.world.clock.monotonic() - start < 125

    serve(work, {"Unary": Unary(answer)})


def test_an_open_stream_counts_as_use_and_pings_do_not(serve):
    async def work(served):
        streaming, pinging = await served.connect(), await served.connect()
        stream = streaming.open("Bidi", end=False)
        for number in range(13):
            await served.world.clock.sleep(10)
            if not pinging.lost:
                pinging.h2.ping(number.to_bytes(8, "big"))
                pinging.flush()
        assert pinging.goaway is not None
        await served.world.clock.sleep(1000)
        assert streaming.goaway is None
        streaming.reset(stream)
        await served.world.clock.sleep(115)
        assert streaming.goaway is None
        await served.world.clock.sleep(15)
        assert streaming.goaway is not None

    serve(work, {"Bidi": BidiStream(forever)})


def test_old_connections_close_in_order_and_not_all_at_once(serve):
    async def work(served):
        clients = [await served.connect() for _ in range(20)]
        ages = []
        for client in clients:
            client.stream = client.open("Bidi", end=False)
        start = served.world.clock.monotonic()
        waiting = [asyncio.ensure_future(aged(served, client, start, ages)) for client in clients]
        await served.world.clock.sleep(1200)
        await asyncio.gather(*waiting)
        assert len(ages) == 20
        assert 890 < min(ages) < 960
        assert 1040 < max(ages) < 1110
        assert all(client.stream.status == 14 and client.lost for client in clients)

    async def aged(served, client, start, ages):
        await client.until(lambda: client.goaway)
        assert client.goaway.additional_data == b"the connection has reached its greatest age of 1000 s"
        assert client.stream.status is None
        ages.append(served.world.clock.monotonic() - start)

    serve(work, {"Bidi": BidiStream(forever)}, limits=Limits(max_age_s=1000))


def test_calls_of_an_old_connection_are_finished_and_new_ones_refused(serve):
    async def slow(request, call):
        await call.connection._clock.sleep(20)
        return Note(text="slow")

    async def work(served):
        client = await served.connect()
        await served.world.clock.sleep(10)
        stream = client.open("Unary", note())
        await served.world.clock.sleep(10)
        served.connection.drain("old", 30.0, end_streams=False)
        late = client.open("Unary", note())
        await client.ended(stream)
        assert stream.notes == [Note(text="slow")]
        assert late.reset == 7  # refused, so that clients repeat it elsewhere
        await client.until_lost()

    serve(work, {"Unary": Unary(slow)})


def test_incomplete_requests_end_after_a_minute(serve):
    async def work(served):
        client = await served.connect()
        stream = client.open("Unary", note("abc")[:-1], end=False)
        await client.ended(stream)
        assert (stream.status, stream.text) == (4, "the request is incomplete after 60 s")
        assert served.server._serving.partial.total == 0
        assert (await client.call()).status == 0

    serve(work, {"Unary": Unary(answer)})


def test_a_stop_ends_streams_at_once_and_waits_for_unary_calls(serve):
    async def slow(request, call):
        await call.connection._clock.sleep(request.number)
        return Note(text="done")

    async def work(served):
        client = await served.connect()
        streams = [client.open("Bidi", end=False) for _ in range(500)]
        streams += [client.open("Server", note()) for _ in range(400)]
        quick, slow = client.open("Unary", note(number=3)), client.open("Unary", note(number=100))
        idle = await served.connect()
        await served.world.clock.sleep(1)
        start = served.world.clock.monotonic()
        stopping = asyncio.ensure_future(served.server.stop())
        for stream in streams:
            await client.ended(stream)
            assert (stream.status, stream.text) == (14, "the server is stopping")
        assert served.world.clock.monotonic() - start < 0.5
        assert client.goaway.error_code == 0
        await client.ended(quick)
        assert quick.notes == [Note(text="done")]
        await client.ended(slow)
        assert slow.status == 14
        await stopping
        assert 4.9 < served.world.clock.monotonic() - start < 7
        assert served.server.connections == []
        await client.until_lost()
        await idle.until_lost()

    handlers = {"Bidi": BidiStream(forever), "Server": ServerStream(forever), "Unary": Unary(slow)}
    serve(work, handlers)


def test_a_stop_without_calls_takes_no_longer_than_clients_take_to_close(serve):
    async def work(served):
        await served.server.stop()
        client = await served.connect()
        await client.call()
        start = served.world.clock.monotonic()
        stopping = asyncio.ensure_future(served.server.stop())
        await client.until(lambda: client.goaway)
        client.transport.close()
        await stopping
        assert served.world.clock.monotonic() - start < 0.5

    serve(work, {"Unary": Unary(answer)})
