"""Bytes that are not a frame, and unreadable frames. Broker and name server answer alike."""

import socket
import ssl
import struct
from contextlib import contextmanager

import pytest
from faulty_broker import FAST, Peer, frame

from gantrymq.model.hosts import format_address, parse_address
from gantrymq.remoting.certificates import self_signed_available
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, encode

MIB = 1024 * 1024
needs_a_certificate = pytest.mark.skipif(not self_signed_available(), reason="the extra gantrymq[tls] is not installed")


@pytest.fixture(params=["broker", "name_server"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def refuses(server, logged, row):
    """Write bytes on a connection of their own; the server closes it without an answer and logs the row's sentence."""

    def check(data, **values):
        with server.peer() as peer:
            peer.write(data)
            assert peer.is_closed()
            row.check(logged.wait_for(peer.name), "closed", peer=peer.name, **values)

    return check


def test_bi01_a_frame_over_16_mib(refuses):
    refuses(struct.pack(">II", 17 * MIB, 10), size=17 * MIB + 4)


def test_bi02_a_header_longer_than_its_frame(refuses):
    refuses(frame(b"{}", b"rest", header_bytes=100), size=14, header=100)


def test_bi03_a_header_that_is_not_json(server, logged, row):
    bad = frame(b"{bad")
    good = encode(Command(9999, opaque=5))
    with server.peer() as peer:
        peer.write(good + bad)  # earlier requests are answered
        assert peer.answer().opaque == 5
        assert peer.is_closed()
        row.check(logged.wait_for(peer.name), "closed", peer=peer.name, place=4, expected=":", seen="the end")


def test_bi04_a_header_with_a_number_that_is_none(refuses):
    refuses(frame(b'{"code":"abc","opaque":1}'), field="code", value="'abc'")


def test_bi05_an_unknown_header_form(refuses):
    refuses(frame(b"{}", codec=7), form=7)


def test_bi06_a_binary_header_cut_short(refuses):
    refuses(frame(b"\0\x0a", codec=1), size=2)


def test_bi07_half_a_frame_and_then_the_end(server, logged, row):
    whole = encode(Command(RequestCode.HEART_BEAT, opaque=5))
    with server.peer() as peer:
        peer.write(whole[:20])
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.is_closed()
        row.check(logged.wait_for(peer.name), "closed", peer=peer.name, size=20)


REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex(
    "000000040000000000 000000040100000000 000003010500000001828486"  # settings, SETTINGS ACK, GET / on stream 1
)
FIGURES = b"Metrics for Prometheus come from a broker with the plugin gantrymq-metrics, usually at port 5557.\n"


def is_bad_request(answer):
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answer.endswith(b"\r\n\r\nThis port speaks the RocketMQ remoting protocol, not HTTP.\n" + FIGURES)


def is_goaway(answer, row):
    """Empty SETTINGS, then GOAWAY for stream 1 with PROTOCOL_ERROR and the sentence."""
    sentence = row.filled(peer="").removeprefix(": closed: ").encode()
    goaway = struct.pack(">IIBI", (8 + len(sentence)) << 8 | 7, 0, 0, 1)
    assert answer == bytes.fromhex("000000040000000000") + goaway + struct.pack(">I", 1) + sentence


@contextmanager
def inside_tls(peer, *protocols):
    """The peer's socket in TLS, without verifying the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(protocols)
    with context.wrap_socket(peer.socket) as peer.socket:
        assert peer.socket.selected_alpn_protocol() == protocols[0]
        yield peer


def test_bi08_a_request_of_http(server, logged, row):
    with server.peer() as peer:
        peer.write(REQUEST)
        is_bad_request(peer.read_to_end())
        row.check(logged.wait_for(peer.name), "closed", peer=peer.name)


def test_bi09_a_hello_of_tls(broker_with, logged, row):
    server = broker_with(**{"tls.server.mode": "disabled"})
    with server.peer() as peer:
        peer.write(bytes.fromhex("1603010200010001fc0303"))
        assert peer.is_closed()
        row.check(logged.wait_for(peer.name), "closed", peer=peer.name)


def test_bi10_the_text_of_another_protocol(refuses):
    refuses(b"SSH-2.0-OpenSSH_9.6\r\n", size=0x5353482D + 4, text="'SSH-'")


def test_bi97_http_2(server, logged, row):
    with server.peer() as peer:
        peer.write(HTTP2)
        is_goaway(peer.read_to_end(), row)
        row.check(logged.wait_for(peer.name), "closed", peer=peer.name)


@needs_a_certificate
def test_bi104_http_inside_tls(server, logged, row):
    with server.peer() as peer, inside_tls(peer, "http/1.1", "h2"):
        peer.write(REQUEST)
        is_bad_request(peer.read_to_end())
        row.check(logged.wait_for(peer.name), "closed", peer=peer.name)


@needs_a_certificate
def test_bi105_http_2_inside_tls(server, logged, row):
    with server.peer() as peer, inside_tls(peer, "h2"):
        peer.write(HTTP2)
        is_goaway(peer.read_to_end(), row)
        row.check(logged.wait_for(peer.name), "closed", peer=peer.name)


@pytest.fixture
def grpc_port(broker_with):
    """A broker with a listener for gRPC, and a peer of that."""
    pytest.importorskip("gantrymq_grpc")
    names = f"{FAST['plugins']},grpc,pop,schedule,transaction"
    server = broker_with(plugins=names, listeners="sdk=grpc://127.0.0.1:0")
    peer = Peer(parse_address(server.server.identity.listeners["sdk"]))
    yield server, peer
    peer.socket.close()


def test_bi397_a_remoting_request_at_the_port_for_grpc(grpc_port, logged, row):
    server, peer = grpc_port
    answer = peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert peer.is_closed()
    values = {"name": "sdk", "protocol": "grpc", "address": format_address(*server.address)}
    row.check(f"{peer.name}: closed: {answer.remark}", answer.code, peer=peer.name, **values)
    row.check(logged.wait_for(peer.name), answer.code, peer=peer.name, **values)


def test_bi398_http_at_the_port_for_grpc(grpc_port, logged, row):
    _, peer = grpc_port
    peer.write(REQUEST)
    answer = peer.read_to_end()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"\r\n\r\nThis port speaks the protocol grpc, not HTTP/1.\n" in answer
    row.check(logged.wait_for(peer.name), "closed", peer=peer.name, name="sdk", protocol="grpc")


def test_bi399_other_bytes_at_the_port_for_grpc(grpc_port, logged, row):
    _, peer = grpc_port
    peer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    assert peer.is_closed()
    row.check(logged.wait_for(peer.name), "closed", peer=peer.name, name="sdk", protocol="grpc")
