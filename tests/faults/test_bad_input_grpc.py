"""Frames of HTTP/2 that the listener for gRPC does not accept. A client gets GOAWAY with the reason."""

import pytest
from faulty_broker import FAST, Peer

from gantrymq.model.hosts import parse_address

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RST, SETTINGS, GOAWAY, CONTINUATION = 1, 3, 4, 7, 9
CALM = 11
ODD = range(1, 4001, 2)  # streams of a client


def http2_frame(kind, flags=0, stream=0, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


@pytest.fixture
def refuses(broker_with, logged, row):
    """Write frames at a port for gRPC; the server closes the connection with the row's sentence."""
    pytest.importorskip("gantrymq_grpc")
    names = f"{FAST['plugins']},grpc,pop,schedule,transaction"
    server = broker_with(plugins=names, listeners="sdk=grpc://127.0.0.1:0")
    peer = Peer(parse_address(server.server.identity.listeners["sdk"]))

    def check(sent, error, /, **values):
        peer.write(PREFACE + http2_frame(SETTINGS) + b"".join(sent))
        sentence = row.filled(peer="", **values).removeprefix(": closed: ")
        goaway = error.to_bytes(4, "big") + sentence.partition(" (")[0].encode()
        assert peer.read_to_end().endswith(goaway)
        row.check(logged.wait_for(peer.name), "closed", peer=peer.name, **values)

    yield check
    peer.socket.close()


def test_bi400_a_flood_of_streams_that_are_reset(refuses):
    opened = (http2_frame(HEADERS, 4, stream, b"\x83") + http2_frame(RST, 0, stream, bytes(4)) for stream in ODD)
    refuses(opened, CALM, events="streams that were reset or refused")


def test_bi401_headers_without_end(refuses):
    endless = [http2_frame(HEADERS, 0, 1, b"\x83")] + [http2_frame(CONTINUATION, 0, 1)] * 100
    refuses(endless, CALM, size=1, frames=34, limit=32768, most=33)


def test_bi402_a_frame_that_http_2_does_not_allow(refuses):
    refuses([http2_frame(CONTINUATION, 0, 1)], 1, problem="CONTINUATION without HEADERS", kind="PROTOCOL_ERROR")
