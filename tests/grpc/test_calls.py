"""Calls over HTTP/2: requests, responses, metadata, errors, deadlines and ends, with a client of the library h2."""

import asyncio
import gc
import gzip
import json
import weakref

import pytest
from grpc_served import Note, note, prefixed

from gantrymq.errors import ConnectionLost
from gantrymq_grpc.transport.call import BidiStream, ServerStream, Unary
from gantrymq_grpc.transport.limits import Limits
from gantrymq_grpc.transport.status import GrpcError, StatusCode


def echo(request, call):
    return Note(text=request.text, number=request.number + 1)


async def late_echo(request, call):
    await asyncio.sleep(0)
    return echo(request, call)


@pytest.mark.parametrize("handler", [echo, late_echo])
def test_a_unary_call_is_answered(serve, handler):
    async def work(served):
        client = await served.connect()
        stream = await client.call("Unary", note("a", 1))
        assert stream.headers[":status"] == "200"
        assert stream.headers["content-type"] == "application/grpc"
        assert stream.notes == [Note(text="a", number=2)]
        assert stream.status == 0
        assert served.connection.calls == []

    serve(work, {"Unary": Unary(handler)})


def test_a_future_as_a_result_needs_no_task(serve):
    def handler(request, call):
        future = asyncio.get_running_loop().create_future()
        call.connection.notes["future"] = future
        return future

    async def work(served):
        client = await served.connect()
        stream = client.open("Unary", note())
        await client.until(lambda: served.server.connections and served.connection.notes)
        served.connection.notes["future"].set_result(Note(text="done"))
        assert (await client.ended(stream)).notes == [Note(text="done")]

    serve(work, {"Unary": Unary(handler)})


def test_responses_of_one_loop_iteration_are_one_write(serve):
    waiting = []

    def handler(request, call):
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    async def work(served):
        client = await served.connect()
        streams = [client.open("Unary", note()) for _ in range(20)]
        await served.world.clock.sleep(1)
        assert len(waiting) == 20
        transport = served.connection._transport
        writes = []
        original, transport.write = transport.write, lambda data: (writes.append(data), original(data))
        for each in waiting:
            each.set_result(Note(text="x"))
        for stream in streams:
            assert (await client.ended(stream)).status == 0
        assert len(writes) == 1

    serve(work, {"Unary": Unary(handler)})


def test_a_handler_sees_metadata_peer_listener_and_authority(serve):
    def handler(request, call):
        found = {
            "id": call.metadata["x-mq-client-id"],
            "several": call.metadata["x-several"],
            "bin": call.binary_metadata["x-some-bin"].hex(),
            "peer": call.peer[0],
            "listener": call.listener,
            "encrypted": call.encrypted,
            "certificate": call.certificate,
            "authority": call.authority,
            "of the connection": call.connection.authority,
            "method": call.method,
            "pseudo": [name for name in call.metadata if name.startswith(":")],
        }
        return Note(text=json.dumps(found))

    async def work(served):
        client = await served.connect()
        stream = client.open("Unary", end=False, x_mq_client_id="c1", x_some_bin="AAEC", x_several="1")
        client.data(stream, note(), end=True)
        await client.ended(stream)
        assert json.loads(stream.notes[0].text) == {
            "id": "c1",
            "several": "1",
            "bin": "000102",
            "peer": "127.0.0.1",
            "listener": "sdk",
            "encrypted": False,
            "certificate": "",
            "authority": "broker:8081",
            "of the connection": "broker:8081",
            "method": "/test.Notes/Unary",
            "pseudo": [],
        }

    serve(work, {"Unary": Unary(handler)})


def test_values_of_one_name_are_joined(serve):
    async def work(served):
        client = await served.connect()
        headers = [
            (":method", "POST"), (":scheme", "http"), (":path", "/test.Notes/Unary"), (":authority", "a"),
            ("content-type", "application/grpc+proto"), ("x-one", "1"), ("x-one", "2"),
        ]  # fmt: skip
        stream = client.open("Server", note())  # not served; its number is what counts
        number = client.h2.get_next_available_stream_id()
        client.streams[number] = stream = type(stream)()
        stream.id = number
        client.h2.send_headers(number, headers)
        client.data(stream, note(), end=True)
        assert (await client.ended(stream)).notes == [Note(text="1,2")]

    serve(work, {"Unary": Unary(lambda request, call: Note(text=call.metadata["x-one"]))})


def test_binary_metadata_that_is_not_base64_is_refused(serve):
    def handler(request, call):
        return Note(text=str(call.binary_metadata))

    async def work(served):
        client = await served.connect()
        stream = await client.call("Unary", x_bin="%%%")
        assert stream.status == StatusCode.INVALID_ARGUMENT
        assert "x-bin is not base64" in stream.text

    serve(work, {"Unary": Unary(handler)})


def test_a_server_stream_sends_messages_and_ends(serve):
    async def handler(request, call):
        for number in range(request.number):
            await call.send(Note(number=number))

    async def work(served):
        client = await served.connect()
        stream = await client.call("Server", note(number=3))
        assert [each.number for each in stream.notes] == [0, 1, 2]
        assert stream.status == 0

    serve(work, {"Server": ServerStream(handler)})


def test_a_bidi_stream_receives_and_sends_until_the_client_ends_its_half(serve):
    async def handler(call):
        while (request := await call.receive()) is not None:
            await call.send(Note(text=request.text + "!"))
        await call.send(Note(text="end"))

    async def work(served):
        client = await served.connect()
        stream = client.open("Bidi", end=False)
        client.data(stream, note("a"))
        await client.until(lambda: len(stream.notes) == 1)
        client.data(stream, note("b") + note("c"))
        await client.until(lambda: len(stream.notes) == 3)
        assert stream.status is None
        client.data(stream, b"", end=True)
        await client.ended(stream)
        assert [each.text for each in stream.notes] == ["a!", "b!", "c!", "end"]
        assert stream.status == 0

    serve(work, {"Bidi": BidiStream(handler)})


def test_a_handler_may_end_before_the_client_ends_its_half(serve):
    async def handler(call):
        await call.receive()
        raise GrpcError(StatusCode.INVALID_ARGUMENT, "neither publishing nor subscription")

    async def work(served):
        client = await served.connect()
        stream = client.open("Bidi", note(), end=False)
        await client.ended(stream)
        assert (stream.status, stream.text) == (3, "neither publishing nor subscription")
        assert (await client.call("Unary")).status == 0  # the connection goes on

    serve(work, {"Bidi": BidiStream(handler), "Unary": Unary(echo)})


def raises(error):
    def handler(request, call):
        raise error

    async def later(request, call):
        raise error

    return [handler, later]


@pytest.mark.parametrize("handler", raises(GrpcError(StatusCode.UNAVAILABLE, "not yet: 100 % “busy”\n")))
def test_an_error_of_grpc_has_its_status_and_text(serve, handler):
    async def work(served):
        client = await served.connect()
        stream = await client.call()
        assert stream.status == 14
        assert stream.text == "not yet: 100 %25 %E2%80%9Cbusy%E2%80%9D%0A"
        assert stream.headers["grpc-status"] == "14"  # in the headers: there is nothing else

    serve(work, {"Unary": Unary(handler)})


@pytest.mark.parametrize("handler", raises(ValueError("a bug")))
def test_an_error_of_a_handler_is_logged_and_not_shown(serve, handler, caplog):
    async def work(served):
        client = await served.connect()
        stream = await client.call()
        assert stream.status == StatusCode.INTERNAL
        assert "a bug" not in stream.text

    serve(work, {"Unary": Unary(handler)})
    assert "a bug" in caplog.text


async def no_message(request, call):
    return None


@pytest.mark.parametrize("handler", [lambda request, call: None, lambda request, call: "text", no_message])
def test_a_handler_that_returns_no_message_is_a_logged_error(serve, handler, caplog):
    async def work(served):
        client = await served.connect()
        assert (await client.call()).status == StatusCode.INTERNAL
        assert (await client.call("Server", note(number=1))).status == 0

    async def server(request, call):
        await call.send(Note())

    serve(work, {"Unary": Unary(handler), "Server": ServerStream(server)})
    assert "the handler returned" in caplog.text


def test_an_error_of_our_own_ends_the_connection_with_goaway(serve, caplog, monkeypatch):
    def broken(self, frame):
        raise KeyError("a bug")

    async def work(served):
        client = await served.connect()
        await served.world.clock.sleep(1)
        monkeypatch.setattr(type(served.connection), "_data", broken)
        client.open("Unary", note())
        await client.until_lost()
        assert client.goaway.error_code == 2
        assert b"a bug" not in client.goaway.additional_data

    serve(work, {"Unary": Unary(echo)})
    assert "a bug" in caplog.text


def test_a_long_text_is_cut(serve):
    def handler(request, call):
        raise GrpcError(StatusCode.INTERNAL, "错" * 5000)

    async def work(served):
        client = await served.connect()
        stream = await client.call()
        assert stream.status == 13
        assert 1000 < len(stream.text) <= 4096

    serve(work, {"Unary": Unary(handler)})


def test_unknown_methods_are_unimplemented(serve):
    async def work(served):
        client = await served.connect()
        stream = await client.call("Nothing")
        assert (stream.status, stream.text) == (12, "unknown method /test.Notes/Nothing")
        stream = await client.call("PullMessage", service="apache.rocketmq.v2.MessagingService")
        assert stream.status == 12
        stream = await client.ended(client.open("Nothing", end=False))
        assert stream.status == 12
        assert served.server.errors == {StatusCode.UNIMPLEMENTED: 3}

    serve(work)


@pytest.mark.parametrize(
    ("headers", "status", "text"),
    [
        ({":method": "GET"}, "405", "the method is GET, expected POST"),
        ({"content-type": "application/json"}, "415", "content-type is application/json, expected application/grpc"),
    ],
)
def test_requests_that_are_not_grpc_get_a_status_of_http(serve, headers, status, text):
    async def work(served):
        client = await served.connect()
        stream = await client.call(**headers)
        assert stream.headers[":status"] == status
        assert text in stream.text

    serve(work, {"Unary": Unary(echo)})


def test_gzip_is_accepted(serve):
    async def work(served):
        client = await served.connect()
        data = gzip.compress(Note(text="a" * 10_000).SerializeToString())
        stream = await client.call("Unary", prefixed(data, 1), grpc_encoding="gzip")
        assert stream.notes[0].text == "a" * 10_000
        assert stream.headers["grpc-accept-encoding"] == "identity,gzip"

    serve(work, {"Unary": Unary(echo)})


@pytest.mark.parametrize(
    ("body", "encoding", "status", "text"),
    [
        (prefixed(b"x", 1), "identity", 13, "grpc-encoding is identity; expected gzip"),
        (prefixed(b"x", 1), "gzip", 13, "cannot be decompressed"),
        (prefixed(gzip.compress(b"x", mtime=0)[:-3], 1), "gzip", 13, "incomplete"),
        (prefixed(gzip.compress(bytes(2 << 20), mtime=0), 1), "gzip", 8, "the limit is 1048576"),
        (note(), "snappy", 12, "grpc-encoding snappy is not supported"),
        (prefixed(b"\xff\xff"), "identity", 13, "cannot be parsed"),
        (note() + note(), "identity", 13, "more than one request"),
        (note("abc")[:-1], "identity", 13, "ends within a message"),
        (b"", "identity", 13, "without a request"),
    ],
)
def test_requests_that_cannot_be_read_are_refused(serve, body, encoding, status, text):
    async def work(served):
        client = await served.connect()
        stream = await client.call("Unary", body, grpc_encoding=encoding)
        assert stream.status == status
        assert text in stream.text
        assert (await client.call()).status == 0

    serve(work, {"Unary": Unary(echo)}, limits=Limits(max_message_bytes=1 << 20))


def test_a_request_beyond_the_limit_is_refused_before_it_arrives(serve):
    async def work(served):
        client = await served.connect()
        stream = client.open("Unary", end=False)
        client.data(stream, b"\0" + (130 << 20).to_bytes(4, "big") + bytes(1000))
        await client.ended(stream)
        assert (stream.status, stream.text) == (8, "the request has 136314880 bytes, the limit is 16777216")
        assert served.server._serving.partial.total == 0
        assert (await client.call()).status == 0

    serve(work, {"Unary": Unary(echo)})


def test_a_handler_can_have_a_lower_limit(serve):
    async def work(served):
        client = await served.connect()
        assert (await client.call("Unary", note("a" * 98))).status == 0
        assert (await client.call("Unary", note("a" * 99))).status == 8

    serve(work, {"Unary": Unary(echo, max_bytes=100)})


def test_requests_and_responses_beyond_the_windows_pass(serve):
    async def work(served):
        client = await served.connect()
        stream = client.open("Unary", end=False)
        await client.upload(stream, note("b" * 6_000_000))
        await client.ended(stream)
        assert stream.status == 0
        assert len(stream.data) == 6_000_000 + 5 + 5 + 2
        assert served.server._serving.partial.total == 0
        assert served.connection.output.unsent_bytes == 0

    serve(work, {"Unary": Unary(echo)})


@pytest.mark.parametrize("field", [b"\x0a\0", b"\x10\1", b"\x7a\0", b"\x0b\x0c"])
def test_large_requests_with_very_many_fields_are_refused_before_they_are_parsed(serve, field):
    async def work(served):
        client = await served.connect()
        stream = client.open("Unary", end=False)
        await client.upload(stream, prefixed(field * 600_000))
        assert (await client.ended(stream)).status == 8
        assert "the request has more than 25000 fields in" in stream.text

    serve(work, {"Unary": Unary(echo)})


def test_a_request_in_single_bytes_is_read(serve):
    async def work(served):
        client = await served.connect()
        stream = client.open("Unary", end=False)
        body = note("abc")
        for at in range(len(body)):
            client.data(stream, body[at : at + 1], end=at == len(body) - 1)
        assert (await client.ended(stream)).notes[0].text == "abc"

    serve(work, {"Unary": Unary(echo)})


def test_a_reset_by_the_client_cancels_the_handler_and_runs_callbacks(serve):
    seen = []

    async def handler(request, call):
        call.on_close(lambda closed: seen.append(closed is call and call.closed))
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            with pytest.raises(ConnectionLost):
                await call.send(Note())
            raise

    async def work(served):
        client = await served.connect()
        stream = client.open("Server", note())
        await served.world.clock.sleep(1)
        client.reset(stream)
        await served.world.clock.sleep(1)
        assert seen == [True, "cancelled"]
        assert served.connection.calls == []
        assert (await client.call()).status == 0

    serve(work, {"Server": ServerStream(handler), "Unary": Unary(echo)})


def reporting(last):
    """Return a handler that writes two messages and waits for *last*, and the reports whether they were received."""
    seen = []

    async def handler(request, call):
        call.on_received(seen.append)
        await call.send(Note())
        await call.send(Note())
        await last(call)

    return handler, seen


async def nothing(call):
    pass


@pytest.mark.parametrize("streams", [1, 3])
def test_a_response_that_was_received_is_reported_once(serve, streams):
    handler, seen = reporting(nothing)

    async def work(served):
        client = await served.connect()
        calls = [client.open("Server", note()) for _ in range(streams)]
        for each in calls:
            await client.ended(each)
        assert seen == []
        await served.world.clock.sleep(1)
        assert seen == [True] * streams
        assert client.pings <= 2  # responses share pings
        client.transport.abort()
        await served.world.clock.sleep(1)
        assert seen == [True] * streams

    serve(work, {"Server": ServerStream(handler)})


async def reset(client, stream):
    client.reset(stream)


async def lose(client, stream):
    client.transport.abort()


@pytest.mark.parametrize("end", [reset, lose])
@pytest.mark.parametrize("still_runs", [False, True])
def test_a_response_that_a_client_did_not_read_to_its_end_is_reported(serve, end, still_runs):
    """It was written, also the end of it, but the client leaves before it reads that."""

    async def last(call):
        if still_runs:
            await asyncio.get_running_loop().create_future()

    handler, seen = reporting(last)

    async def work(served):
        client = await served.connect()
        stream = client.open("Server", note())
        client.transport.pause_reading()
        await served.world.clock.sleep(1)
        assert (seen, bool(served.connection.calls)) == ([], still_runs)
        await end(client, stream)
        await served.world.clock.sleep(1)
        assert seen == [False]

    serve(work, {"Server": ServerStream(handler)})


def test_a_response_that_ends_with_an_error_is_not_received(serve):
    async def late(call):
        await asyncio.get_running_loop().create_future()

    handler, seen = reporting(late)

    async def work(served):
        client = await served.connect()
        stream = await client.call("Server", grpc_timeout="1S")
        assert (stream.status, seen) == (StatusCode.DEADLINE_EXCEEDED, [False])

    serve(work, {"Server": ServerStream(handler)})


def test_a_lost_connection_cancels_handlers_and_runs_the_callbacks_of_the_connection(serve):
    seen = []

    async def handler(call):
        call.connection.on_close(lambda connection: seen.append("connection"))
        call.on_close(lambda closed: seen.append("call"))
        try:
            await call.receive()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def work(served):
        client = await served.connect()
        client.open("Bidi", end=False)
        await served.world.clock.sleep(1)
        connection = served.connection
        client.transport.abort()
        await served.world.clock.sleep(1)
        assert seen == ["call", "connection", "cancelled"]
        assert served.server.connections == []
        connection.on_close(lambda connection: seen.append("late"))
        assert seen[-1] == "late"

    serve(work, {"Bidi": BidiStream(handler)})


@pytest.mark.parametrize("method", ["Unary", "Server", "Bidi"])
def test_calls_of_a_lost_connection_are_freed_without_the_cycle_collector(serve, method):
    """It runs rarely on a broker: thousands of streams that end would take up to a gigabyte meanwhile."""

    async def forever(*arguments):
        await asyncio.get_running_loop().create_future()

    async def receive(call):
        while await call.receive() is not None:
            pass

    async def work(served):
        client = await served.connect()
        for _ in range(10):
            client.open(method, note(), end=method != "Bidi")
        await served.world.clock.sleep(1)
        tasks = [weakref.ref(call.task) for call in served.connection.calls]  # they have the calls
        assert len(tasks) == 10
        gc.disable()
        try:
            client.transport.abort()
            await served.world.clock.sleep(1)
            assert [task() for task in tasks] == [None] * 10
        finally:
            gc.enable()

    serve(work, {"Unary": Unary(forever), "Server": ServerStream(forever), "Bidi": BidiStream(receive)})


def test_a_deadline_ends_the_call(serve):
    cancelled = []

    async def handler(request, call):
        assert call.deadline is not None
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(call.method)
            raise

    async def work(served):
        client = await served.connect()
        start = served.world.clock.monotonic()
        for method in ("Unary", "Server"):
            stream = await client.call(method, grpc_timeout="3S")
            assert (stream.status, stream.text) == (4, "the deadline of 3S has passed")
        assert 6 <= served.world.clock.monotonic() - start < 6.5
        assert cancelled == ["/test.Notes/Unary", "/test.Notes/Server"]

    serve(work, {"Unary": Unary(handler), "Server": ServerStream(handler)})


@pytest.mark.parametrize("timeout", ["", "S", "3", "3s", "-1S", "123456789S", "٣S"])
def test_a_malformed_timeout_is_refused(serve, timeout):
    async def work(served):
        client = await served.connect()
        stream = await client.call("Unary", grpc_timeout=timeout)
        assert stream.status == 13
        assert "grpc-timeout" in stream.text

    serve(work, {"Unary": Unary(echo)})


def test_a_handler_or_another_part_can_end_a_call(serve):
    calls, tasks = [], []

    async def handler(call):
        calls.append(call)
        tasks.append(asyncio.current_task())
        await call.receive()

    async def work(served):
        client = await served.connect()
        stream = client.open("Bidi", end=False)
        await served.world.clock.sleep(1)
        calls[0].end(GrpcError(StatusCode.UNAVAILABLE, "the role has changed"))
        await client.ended(stream)
        assert (stream.status, stream.text) == (14, "the role has changed")
        await served.world.clock.sleep(0)
        assert tasks[0].cancelled()
        calls[0].end()  # does nothing
        second = client.open("Bidi", end=False)
        await served.world.clock.sleep(1)
        served.server.end_streams("the role has changed")
        assert (await client.ended(second)).status == 14

    serve(work, {"Bidi": BidiStream(handler)})


def test_send_waits_for_a_client_that_does_not_read(serve):
    sent = []

    async def handler(request, call):
        for number in range(100):
            await call.send(Note(text="x" * 10_000))
            sent.append(number)

    async def work(served):
        client = await served.connect(acknowledging=False)
        stream = client.open("Server", note())
        await served.world.clock.sleep(10)
        assert len(sent) == 6  # of 65,535 bytes
        assert 0 < served.connection.output.unsent_bytes < 10_100
        client.h2.increment_flow_control_window(1 << 20)
        client.h2.increment_flow_control_window(1 << 20, stream.id)
        client.flush()
        await client.ended(stream)
        assert len(stream.notes) == 100
        assert served.connection.output.unsent_bytes == 0

    serve(work, {"Server": ServerStream(handler)})


def test_streams_share_a_small_window(serve):
    async def handler(request, call):
        await call.send(Note(text="x" * 1_000_000))

    async def work(served):
        client = await served.connect()
        streams = [client.open("Server", note()) for _ in range(5)]
        for stream in streams:
            await client.ended(stream)
            assert len(stream.data) == 1_000_009
            assert stream.status == 0

    serve(work, {"Server": ServerStream(handler)})


def test_a_client_may_change_its_initial_window(serve):
    async def handler(request, call):
        await call.send(Note(text="x" * 60_000))
        await call.send(Note(text="y" * 60_000))

    async def work(served):
        client = await served.connect(acknowledging=False)
        stream = client.open("Server", note())
        await served.world.clock.sleep(1)
        client.h2.update_settings({4: 10})  # less than what was sent: the window is negative
        client.flush()
        await served.world.clock.sleep(1)
        client.h2.update_settings({4: 1 << 20})
        client.h2.increment_flow_control_window(1 << 20)
        client.flush()
        await client.ended(stream)
        assert len(stream.notes) == 2

    serve(work, {"Server": ServerStream(handler)})


def test_requests_that_a_handler_does_not_receive_close_the_window(serve):
    async def handler(call):
        await asyncio.get_running_loop().create_future()

    async def work(served):
        client = await served.connect()
        stream = client.open("Bidi", end=False)
        await served.world.clock.sleep(1)
        window = client.h2.local_flow_control_window(stream.id)
        for _ in range(window // 10_000):
            client.data(stream, note("x" * 9_900))
        await served.world.clock.sleep(1)
        assert client.h2.local_flow_control_window(stream.id) < 50_000
        assert served.server._serving.partial.total > 4_000_000

    serve(work, {"Bidi": BidiStream(handler)})
