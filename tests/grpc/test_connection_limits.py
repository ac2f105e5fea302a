"""Clients that send too much, too fast, or against HTTP/2, and clients that do not read."""

import asyncio
import gzip
import logging

import pytest
from grpc_served import Note, note, prefixed
from hpack import Encoder

from gantrymq_grpc.transport.call import BidiStream, ServerStream, Unary
from gantrymq_grpc.transport.limits import Limits

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
NO_ERROR, PROTOCOL, INTERNAL, FLOW, TIMEOUT, CLOSED, SIZE, REFUSED, CANCEL, COMPRESSION, _, CALM = range(12)


def answer(request, call):
    return Note(text=request.text)


async def forever(*arguments):
    await asyncio.get_running_loop().create_future()


def block(method="Unary", **metadata):
    """Return a header block that does not depend on those before."""
    headers = {
        ":method": "POST", ":scheme": "http", ":path": f"/test.Notes/{method}", ":authority": "a",
        "content-type": "application/grpc", **metadata,
    }  # fmt: skip
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(list(headers.items()))


def goaway(client):
    """Return error code and text of the GOAWAY that a client of bytes has received; None before."""
    for kind, _flags, _stream, payload in frames(client):
        if kind == GOAWAY:
            return int.from_bytes(payload[4:8], "big"), payload[8:].decode()
    return None


def frames(client):
    found, rest = [], client.received
    while len(rest) >= 9 and len(rest) >= 9 + int.from_bytes(rest[:3], "big"):
        end = 9 + int.from_bytes(rest[:3], "big")
        found.append((rest[3], rest[4], int.from_bytes(rest[5:9], "big"), rest[9:end]))
        rest = rest[end:]
    return found


async def refused(client):
    """Wait for GOAWAY and the end of the connection, and return the error."""
    await client.until_lost()
    return goaway(client)


def test_more_calls_than_allowed_are_refused_and_the_log_says_it_before(serve, caplog):
    async def work(served):
        client = await served.connect()
        await served.world.clock.sleep(1)
        assert client.settings[3] == 10
        streams = [client.open("Bidi", end=False) for _ in range(7)]
        await served.world.clock.sleep(1)
        assert "in progress" not in caplog.text
        streams += [client.open("Bidi", end=False) for _ in range(3)]
        await served.world.clock.sleep(1)
        client.h2.remote_settings[3] = 100  # as a client that does not keep to it
        client.h2.remote_settings.acknowledge()
        one_more = await client.ended(client.open("Bidi", end=False))
        assert one_more.reset == REFUSED
        assert caplog.text.count("8 calls are in progress on one connection, the limit is 10") == 1
        client.reset(streams[0])
        await served.world.clock.sleep(1)
        assert len(served.connection.calls) == 9
        assert (await client.call()).status == 0

    serve(work, {"Bidi": BidiStream(forever), "Unary": Unary(answer)}, limits=Limits(max_streams=10))


def test_streams_reset_in_the_packet_that_opened_them_leave_nothing(serve):
    async def work(served):
        client = await served.raw()
        for number in range(900):
            stream = 2 * number + 1
            client.frame(HEADERS, END_HEADERS, stream, block("Bidi"))
            client.frame(RST, 0, stream, CANCEL.to_bytes(4, "big"))
        await served.world.clock.sleep(1)
        assert served.connection.calls == []
        assert goaway(client) is None

    serve(work, {"Bidi": BidiStream(forever)})


def open_and_reset(client, number):
    client.frame(HEADERS, END_HEADERS, 2 * number + 1, block("Bidi"))
    client.frame(RST, 0, 2 * number + 1, CANCEL.to_bytes(4, "big"))


def make_the_server_reset(client, number):
    client.frame(HEADERS, END_HEADERS, 2 * number + 1, block("Bidi"))
    client.frame(WINDOW, 0, 2 * number + 1, bytes(4))


FLOODS = {
    "streams that were reset or refused": open_and_reset,
    "streams that were reset or refused ": make_the_server_reset,
    "SETTINGS frames": lambda client, number: client.frame(SETTINGS),
    "acknowledgements of settings": lambda client, number: client.frame(SETTINGS, 1),
    "answers to pings": lambda client, number: client.frame(PING, 1, 0, bytes(8)),
    "PRIORITY frames": lambda client, number: client.frame(PRIORITY, 0, 1, bytes(5)),
    "frames of unknown kinds": lambda client, number: client.frame(77, 0, 1),
    "GOAWAY frames": lambda client, number: client.frame(GOAWAY, 0, 0, bytes(8)),
}


@pytest.mark.parametrize("what", FLOODS)
def test_floods_end_the_connection_with_the_reason(serve, caplog, what):
    async def work(served):
        client = await served.raw()
        for number in range(3000):
            FLOODS[what](client, number)
        assert await refused(client) == (CALM, f"too many {what.strip()}")
        assert served.server.connections == []

    serve(work, {"Bidi": BidiStream(forever)})
    assert f"closed: too many {what.strip()} (ENHANCE_YOUR_CALM)" in caplog.text


@pytest.mark.parametrize("opened", [True, False])
def test_empty_data_frames_are_a_flood(serve, opened):
    async def work(served):
        client = await served.raw()
        client.frame(HEADERS, END_HEADERS, 1, block("Bidi"))
        if not opened:
            client.frame(RST, 0, 1, bytes(4))
        for _ in range(1000):
            client.frame(DATA, 0, 1)
        assert await refused(client) == (CALM, "too many empty DATA frames")

    serve(work, {"Bidi": BidiStream(forever)})


@pytest.mark.parametrize(
    ("payload", "text"),
    [(b"", "headers of 5 bytes in 34 frames"), (b"x" * 16000, "headers of 48005 bytes in 4 frames")],
)
def test_continuations_are_limited(serve, payload, text):
    async def work(served):
        client = await served.raw()
        client.frame(HEADERS, 0, 1, b"x" * 5)
        for _ in range(50):
            client.frame(CONTINUATION, 0, 1, payload)
        code, said = await refused(client)
        assert code == CALM
        assert said == f"{text}, limits 32768 and 33"

    serve(work)


def test_metadata_beyond_the_limit_is_refused_and_the_connection_goes_on(serve):
    async def work(served):
        client = await served.connect()
        stream = client.open("Unary", note(), x_large="a" * 15_000, x_other="b" * 2_000)
        await client.ended(stream)
        assert (stream.status, stream.text) == (8, "the metadata exceeds 16384 bytes")
        assert (await client.call("Unary", x_large="a" * 15_000)).status == 0

    serve(work, {"Unary": Unary(answer)})


def test_references_to_large_entries_do_not_fill_memory(serve):
    async def work(served):
        client = await served.raw()
        entry = b"\x40\x01a\x7f" + bytes([0x80 | (4000 - 127) & 0x7F, (4000 - 127) >> 7]) + b"v" * 4000
        client.frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x3f\xe1\x1f" + entry + b"\xbe" * 10_000)
        await client.until(lambda: any(kind == HEADERS for kind, *_ in frames(client)))
        assert b"the metadata exceeds 16384 bytes" in client.received
        assert goaway(client) is None

    serve(work, {"Unary": Unary(answer)})


ILLEGAL = {
    "no settings first": ([(HEADERS, END_HEADERS, 1, block())], PROTOCOL, "first frame is not SETTINGS"),
    "a stream of the server": ([(HEADERS, END_HEADERS, 2, block())], PROTOCOL, "stream 2 is not a client's"),
    "headers on stream 0": ([(HEADERS, END_HEADERS, 0, block())], PROTOCOL, "HEADERS on stream 0"),
    "data before headers": ([(DATA, 0, 5, b"x")], PROTOCOL, "DATA on stream 5, which is not open"),
    "data on stream 0": ([(DATA, 0, 0, b"x")], PROTOCOL, "DATA on stream 0, which is not open"),
    "reset before headers": ([(RST, 0, 5, bytes(4))], PROTOCOL, "RST_STREAM on a stream"),
    "window before headers": ([(WINDOW, 0, 5, b"\0\0\0\1")], PROTOCOL, "WINDOW_UPDATE on a stream"),
    "window of 0": ([(WINDOW, 0, 0, bytes(4))], FLOW, "a WINDOW_UPDATE of 0"),
    "window of 2^31": ([(WINDOW, 0, 0, b"\x7f\xff\xff\xff")], FLOW, "a WINDOW_UPDATE of 2147483647"),
    "short window": ([(WINDOW, 0, 0, b"\0")], SIZE, "a WINDOW_UPDATE frame of 1 bytes"),
    "short reset": ([(RST, 0, 1, b"\0")], SIZE, "a RST_STREAM frame of 1 bytes"),
    "short ping": ([(PING, 0, 0, b"\0")], SIZE, "a PING of 1 bytes"),
    "short settings": ([(SETTINGS, 0, 0, b"\0")], SIZE, "a SETTINGS frame of 1 bytes"),
    "settings on a stream": ([(SETTINGS, 0, 1, b"")], PROTOCOL, "SETTINGS on a stream"),
    "initial window of 2^31": ([(SETTINGS, 0, 0, b"\0\4\x80\0\0\0")], FLOW, "an initial window of 2147483648"),
    "small frames": ([(SETTINGS, 0, 0, b"\0\5\0\0\0\1")], PROTOCOL, "a maximum frame size of 1"),
    "long frame": ([(DATA, 0, 1, bytes(16385))], SIZE, "a frame of 16385 bytes, limit 16384"),
    "push": ([(PUSH, 0, 1, b"")], PROTOCOL, "PUSH_PROMISE by a client"),
    "continuation alone": ([(CONTINUATION, 0, 1, b"")], PROTOCOL, "CONTINUATION without HEADERS"),
    "ping within headers": (
        [(HEADERS, 0, 1, b""), (PING, 0, 0, bytes(8))],
        PROTOCOL,
        "another frame within a header block",
    ),
    "padding": ([(HEADERS, END_HEADERS | 8, 1, b"\x09abc")], PROTOCOL, "padding longer than its frame"),
    "no priority": ([(HEADERS, END_HEADERS | 32, 1, b"abc")], SIZE, "without its priority"),
    "index 0": ([(HEADERS, END_HEADERS, 1, b"\x80")], COMPRESSION, "cannot be decoded: index 0"),
    "index too large": ([(HEADERS, END_HEADERS, 1, b"\xbe")], COMPRESSION, "index 62 of 61"),
    "cut block": ([(HEADERS, END_HEADERS, 1, b"\x40\x05ab")], COMPRESSION, "a string longer than its block"),
    "bad huffman": ([(HEADERS, END_HEADERS, 1, b"\x40\x84\xff\xff\xff\xff\0")], COMPRESSION, "cannot be decoded"),
    "endless integer": ([(HEADERS, END_HEADERS, 1, b"\xff" * 10)], COMPRESSION, "an integer of more than 28 bits"),
    "a name that is not ASCII": (
        [(HEADERS, END_HEADERS, 1, b"\0\1\xff\1a")],
        COMPRESSION,
        "name of a header is not ASCII",
    ),
    "large table": ([(HEADERS, END_HEADERS, 1, b"\x3f\xff\xff\x03")], COMPRESSION, "change of the table's size"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_frames_end_the_connection_with_the_reason(serve, name):
    sent, code, text = ILLEGAL[name]

    async def work(served):
        if sent[0][0] == HEADERS and "first" in text:
            _, client = await served.world.network.connect(*served.listener.address, type(await served.raw()))
            served.clients.append(client)
            client.transport.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        else:
            client = await served.raw()
            if "1 bytes" in text:
                client.frame(HEADERS, END_HEADERS, 1, block("Bidi"))
        for frame in sent:
            client.frame(*frame)
        found, said = await refused(client)
        assert found == code
        assert text in said

    serve(work, {"Bidi": BidiStream(forever), "Unary": Unary(answer)})


def test_what_is_not_http2_is_refused(serve, caplog):
    async def work(served):
        _, client = await served.world.network.connect(*served.listener.address, type(await served.raw()))
        served.clients.append(client)
        client.transport.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        code, text = await refused(client)
        assert code == PROTOCOL
        assert text.startswith("not HTTP/2: b'GET / HTTP/1.1")

    serve(work)


STREAM_ERRORS = {
    "data after the end": ([(DATA, 0, 1, b"x")], CLOSED),
    "headers without an end": ([(HEADERS, END_HEADERS, 1, b"")], PROTOCOL),
    "window of 0": ([(WINDOW, 0, 1, bytes(4))], FLOW),
    "window of 2^31": ([(WINDOW, 0, 1, b"\x7f\xff\xff\xff")], FLOW),
}


@pytest.mark.parametrize("name", STREAM_ERRORS)
def test_errors_of_a_stream_reset_it_and_the_connection_goes_on(serve, name):
    sent, code = STREAM_ERRORS[name]

    async def work(served):
        client = await served.raw()
        client.frame(HEADERS, END_HEADERS | END_STREAM, 1, block("Bidi"))
        for frame in sent:
            client.frame(*frame)
        await client.until(lambda: (RST, 0, 1, code.to_bytes(4, "big")) in frames(client))
        assert served.connection.calls == []
        client.frame(PING, 0, 0, b"12345678")
        await client.until(lambda: (PING, 1, 0, b"12345678") in frames(client))

    serve(work, {"Bidi": BidiStream(forever)})


def test_trailers_of_a_request_end_it(serve):
    async def work(served):
        client = await served.raw()
        client.frame(HEADERS, END_HEADERS, 1, block())
        client.frame(DATA, 0, 1, note("a"))
        client.frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x40\x01a\x01b")
        await client.until(lambda: any(kind == DATA and payload == note("a") for kind, _, _, payload in frames(client)))

    serve(work, {"Unary": Unary(answer)})


def test_padding_and_priority_are_taken_off(serve):
    async def work(served):
        client = await served.raw()
        client.frame(HEADERS, END_HEADERS | 8 | 32, 1, b"\x03" + bytes(5) + block() + b"pad")
        client.frame(DATA, END_STREAM | 8, 1, b"\x04" + note("a") + b"pads")
        await client.until(lambda: any(kind == DATA and payload == note("a") for kind, _, _, payload in frames(client)))

    serve(work, {"Unary": Unary(answer)})


def test_settings_are_acknowledged_before_the_data_that_they_allow(serve):
    async def handler(request, call):
        await call.send(Note(text="x" * 10_000))

    async def work(served):
        client = await served.raw()
        client.frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0")
        client.frame(HEADERS, END_HEADERS, 1, block("Server"))
        client.frame(DATA, END_STREAM, 1, note())
        await served.world.clock.sleep(1)
        client.frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff")
        await client.until(lambda: any(kind == DATA for kind, *_ in frames(client)))
        kinds = [(kind, flags) for kind, flags, *_ in frames(client)]
        assert kinds[-4:] == [(HEADERS, END_HEADERS), (SETTINGS, 1), (DATA, 0), (HEADERS, END_HEADERS | END_STREAM)]

    serve(work, {"Server": ServerStream(handler)})


def test_requests_of_one_read_are_handled_in_turns(serve):
    turns = [0]

    def handler(request, call):
        turns[-1] += 1
        return Note()

    async def work(served):
        await served.raw()
        await served.world.clock.sleep(1)
        sent = b""
        for number in range(2000):
            for kind, flags, payload in ((HEADERS, 4, block()), (DATA, 1, note())):
                sent += len(payload).to_bytes(3, "big") + bytes([kind, flags]) + (2 * number + 1).to_bytes(4, "big")
                sent += payload
        served.connection.data_received(sent)
        while sum(turns) < 2000:
            turns.append(0)
            await asyncio.sleep(0)
        assert max(turns) <= 64

    serve(work, {"Unary": Unary(handler)})


def test_requests_that_grow_when_decompressed_end_their_turn(serve):
    turns = [0]

    def handler(request, call):
        turns[-1] += 1
        return Note()

    async def work(served):
        client = await served.connect()
        packed = prefixed(gzip.compress(Note(text="x" * 3_000_000).SerializeToString()), 1)
        opened = [client.open("Unary", packed, grpc_encoding="gzip") for _ in range(20)]
        received = []
        served_connection = served.connection
        original = served_connection.data_received
        served_connection.data_received = received.append
        await served.world.clock.sleep(1)
        served_connection.data_received = original
        original(b"".join(received))
        while sum(turns) < 20:
            turns.append(0)
            await asyncio.sleep(0)
        assert max(turns) == 1
        for stream in opened:
            assert (await client.ended(stream)).status == 0

    serve(work, {"Unary": Unary(handler)})


async def turns_of(served, sent, seen):
    """Pass all of *sent* to the newest connection in one read. Return how many events each turn had."""
    connection = served.connection
    await served.world.clock.sleep(1)
    turns, before = [], len(seen)
    connection.data_received(b"".join(sent))
    while connection._turn_scheduled:
        turns.append(len(seen) - before)
        before = len(seen)
        await asyncio.sleep(0)
    return [*turns, len(seen) - before]


def frame_of(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def slow_calls(served, seconds, seen):
    """Return a handler after which the clock of the newest connection shows *seconds* more."""
    connection, spent = served.connection, [0.0]

    class Clock:
        def monotonic(self):
            return served.world.clock.monotonic() + spent[0]

        def __getattr__(self, name):
            return getattr(served.world.clock, name)

    connection._clock = Clock()

    def handler(request, call):
        spent[0] += seconds
        seen.append(request)
        return Note()

    return handler


def unary_calls(numbers):
    sent = []
    for number in numbers:
        sent.append(frame_of(HEADERS, END_HEADERS, 2 * number + 1, block()))
        sent.append(frame_of(DATA, END_STREAM, 2 * number + 1, note()))
    return sent


def test_requests_that_take_long_for_their_size_end_their_turn(serve):
    seen, handlers = [], []

    async def work(served):
        await served.raw()
        await served.world.clock.sleep(1)
        handlers.append(slow_calls(served, 0.002, seen))
        assert max(await turns_of(served, unary_calls(range(30)), seen)) == 2
        assert len(seen) == 30

    serve(work, {"Unary": Unary(lambda request, call: handlers[0](request, call))})


def test_what_arrives_between_turns_is_handled_without_further_data(serve):
    seen, handlers = [], []

    async def work(served):
        await served.raw()
        await served.world.clock.sleep(1)
        handlers.append(slow_calls(served, 0.01, seen))
        connection = served.connection
        connection.data_received(b"".join(unary_calls(range(3))))
        assert len(seen) == 1
        connection.data_received(b"".join(unary_calls(range(3, 5))))
        await served.world.clock.sleep(1)
        assert len(seen) == 5

    serve(work, {"Unary": Unary(lambda request, call: handlers[0](request, call))})


def test_headers_that_take_long_to_decode_end_their_turn(serve, monkeypatch):
    async def work(served):
        await served.raw()
        seen = []
        decode = served.connection._decoder.decode
        served.connection._decoder.decode = lambda block: seen.append(block) or decode(block)
        references = b"\x90" * 16_000  # an entry of a byte each
        sent = [frame_of(HEADERS, END_HEADERS | END_STREAM, 2 * each + 1, references) for each in range(64)]
        assert max(await turns_of(served, sent, seen)) <= 5
        assert len(seen) == 64

    serve(work)


def test_streamed_requests_that_grow_when_decompressed_end_their_turn(serve):
    async def work(served):
        client = await served.raw()
        packed = prefixed(gzip.compress(Note(text="x" * 3_000_000).SerializeToString()), 1)
        client.frame(HEADERS, END_HEADERS, 1, block("Bidi", **{"grpc-encoding": "gzip"}))
        await served.world.clock.sleep(1)
        served.connection.data_received(frame_of(DATA, 0, 1, packed) * 20)
        (call,) = served.connection.calls
        assert call.waiting_requests == 1
        await served.world.clock.sleep(1)
        assert call.waiting_requests == 20

    serve(work, {"Bidi": BidiStream(forever)})


def test_requests_that_grow_beyond_the_limit_end_their_turn(serve):
    async def work(served):
        await served.raw()
        packed = prefixed(gzip.compress(bytes(5_000_000)), 1)
        sent = []
        for number in range(20):
            sent.append(frame_of(HEADERS, END_HEADERS, 2 * number + 1, block(**{"grpc-encoding": "gzip"})))
            sent.append(frame_of(DATA, END_STREAM, 2 * number + 1, packed))
        errors = served.server.errors
        before = errors.total()
        await served.world.clock.sleep(1)
        served.connection.data_received(b"".join(sent))
        assert errors.total() - before == 1
        await served.world.clock.sleep(1)
        assert errors.total() - before == 20

    serve(work, {"Unary": Unary(answer)}, limits=Limits(max_message_bytes=4_000_000))


def test_a_stream_of_many_small_requests_leaves_others_their_turns(serve):
    async def handler(call):
        while await call.receive() is not None:
            seen.append(None)

    seen = []

    async def work(served):
        client = await served.raw()
        client.frame(HEADERS, END_HEADERS, 1, block("Bidi"))
        await served.world.clock.sleep(1)
        served.connection.data_received(frame_of(DATA, 0, 1, prefixed(b"") * 900))
        for passed in range(100):
            assert len(seen) <= passed
            await asyncio.sleep(0)
        await served.world.clock.sleep(1)
        assert len(seen) == 900

    serve(work, {"Bidi": BidiStream(handler)})


def test_a_stream_with_too_many_waiting_requests_ends(serve):
    async def work(served):
        client = await served.connect()
        stream = client.open("Bidi", end=False)
        for _ in range(10):
            client.data(stream, prefixed(b"") * 150)
        await client.ended(stream)
        assert (stream.status, stream.text) == (8, "more than 1000 requests of the stream wait; send fewer at once")
        assert served.server._serving.partial.total == 0
        assert (await client.call()).status == 0

    serve(work, {"Bidi": BidiStream(forever), "Unary": Unary(answer)})


def test_the_last_initial_window_of_a_frame_counts(serve):
    async def handler(request, call):
        await call.send(Note(text="x" * 100))

    async def work(served):
        client = await served.raw()
        client.frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0")
        client.frame(HEADERS, END_HEADERS, 1, block("Server"))
        client.frame(DATA, END_STREAM, 1, note())
        await served.world.clock.sleep(1)
        client.frame(SETTINGS, 0, 0, b"\0\4\0\0\0\1\0\4\0\0\0\0" * 1000)
        await served.world.clock.sleep(1)
        assert DATA not in [kind for kind, *_ in frames(client)]  # else each change is work for every call
        client.frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff")
        await client.until(lambda: any(kind == DATA and payload for kind, _, _, payload in frames(client)))

    serve(work, {"Server": ServerStream(handler)})


@pytest.mark.parametrize("name", [":path", "content-type", "grpc-encoding", "grpc-timeout", ":method"])
def test_headers_that_are_not_utf8_are_refused_with_a_readable_text(serve, name, caplog):
    async def work(served):
        client = await served.raw()
        headers = {":method": "POST", ":path": "/test.Notes/Unary", "content-type": "application/grpc", name: b"\xff"}
        client.frame(HEADERS, END_HEADERS | END_STREAM, 1, Encoder().encode(list(headers.items())))
        client.frame(PING, 0, 0, b"12345678")
        await client.until(lambda: (PING, 1, 0, b"12345678") in frames(client))
        assert b"%EF%BF%BD" in client.received
        assert goaway(client) is None

    serve(work, {"Unary": Unary(answer)})
    assert not caplog.records


def test_a_client_that_reads_nothing_is_bounded_and_closed(serve, caplog):
    caplog.set_level(logging.INFO)

    async def handler(request, call):
        while True:
            await call.send(Note(text="x" * 100_000))

    async def work(served):
        client = await served.connect()
        client.h2.increment_flow_control_window(1 << 30)
        client.h2.update_settings({4: 1 << 30})
        client.flush()
        for _ in range(100):
            client.open("Server", note())
        client.transport.pause_reading()
        await served.world.clock.sleep(20)
        connection = served.connection
        held = connection.output.unsent_bytes + connection._transport.get_write_buffer_size()
        assert held < 6_000_000
        assert connection.calls
        await served.world.clock.sleep(45)
        assert served.server.connections == []
        assert connection.closed

    serve(work, {"Server": ServerStream(handler)})
    assert "closed: the client has not answered a ping for 10 s" in caplog.text


def test_a_client_that_opens_no_window_is_closed(serve, caplog):
    caplog.set_level(logging.INFO)

    large = Note(text="x" * 1_000_000)

    async def handler(request, call):
        await call.send(large)

    async def work(served):
        client = await served.connect(acknowledging=False)
        for _ in range(1000):
            client.open("Server", note())
        await served.world.clock.sleep(30)
        assert served.connection.output.unsent_bytes < 6_000_000
        await served.world.clock.sleep(45)
        assert served.server.connections == []
        assert served.server._serving.unsent.total == 0

    serve(work, {"Server": ServerStream(handler)})
    assert "closed: the client has read none of" in caplog.text


def test_unread_responses_of_unary_calls_end_the_connection(serve, caplog):
    caplog.set_level(logging.INFO)

    async def work(served):
        client = await served.connect(acknowledging=False)
        for _ in range(30):
            client.open("Unary", note())
        await client.until_lost()
        assert served.server._serving.unsent.total == 0

    handler = Unary(lambda request, call: Note(text="x" * 100_000))
    serve(work, {"Unary": handler}, limits=Limits(max_unsent_bytes=2_000_000))
    assert "closed: unread responses take 2" in caplog.text


def test_of_all_connections_the_one_with_most_incomplete_requests_is_closed(serve, caplog):
    caplog.set_level(logging.INFO)

    async def work(served):
        clients = [await served.connect() for _ in range(2)]
        for size, client in zip((900_000, 500_000), clients, strict=True):
            stream = client.open("Unary", end=False)
            await client.upload(stream, note("x" * 1_000_000)[:size], end=False)
            await served.world.clock.sleep(1)
        assert clients[0].lost
        assert not clients[1].lost
        assert 500_000 <= served.server._serving.partial.total < 500_100

    serve(work, {"Unary": Unary(answer)}, limits=Limits(max_partial_bytes=1_200_000))
    assert "closed: incomplete requests take 900000 bytes here, the limit is 1200000" in caplog.text


def test_a_client_may_send_no_more_than_its_windows(serve):
    async def work(served):
        client = await served.raw()
        client.frame(HEADERS, END_HEADERS, 1, block("Bidi"))
        for _ in range(7):
            client.frame(DATA, 0, 1, prefixed(bytes(16_000)))
        await client.until(lambda: (RST, 0, 1, FLOW.to_bytes(4, "big")) in frames(client))
        for _ in range(70):
            client.frame(DATA, 0, 1, bytes(16_000))
        code, text = await refused(client)
        assert (code, text) == (FLOW, "more data than the connection's window")

    limits = Limits(stream_window_bytes=100_000, connection_window_bytes=200_000)
    serve(work, {"Bidi": BidiStream(forever)}, limits=limits)
