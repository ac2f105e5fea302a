"""Protocol detection before the first frame, and refused peers."""

import ipaddress
import logging

import pytest
from loop_tests import asked, in_loop, turn

from gantrymq.remoting.admission import Admission
from gantrymq.remoting.preamble import TrustedProxies


@in_loop
async def test_the_proxy_header_gives_the_peer(rig, recorder):
    handler = recorder()
    connection, _ = rig.connect(
        handler, admission=Admission(proxies=TrustedProxies((ipaddress.ip_network("10.0.0.9"),)))
    )
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
    assert "sends a PROXY header and is not a proxy; if it is one, add 10.0.0.9 to proxyProtocolAddresses" in line


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
    assert (
        b"gRPC clients need a listener of a broker for gRPC, such as listeners=sdk=grpc://0.0.0.0:8081"
        in transport.writes[1]
    )
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("first", "words", "answered"),
    [
        (b"\x16\x03\x01\x02\x00", "wants TLS, and this server has no certificate", False),
        (b"GET /metrics HTTP/1.1\r\n", "speaks HTTP; this port speaks the RocketMQ remoting protocol", True),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + ASKING,
            "gRPC clients need a listener of a broker for gRPC",
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
