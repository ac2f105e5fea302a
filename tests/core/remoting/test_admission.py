"""Responses of a port to peers of other protocols."""

import pytest

from gantrymq.config import Setting, Settings
from gantrymq.errors import RemoteProtocolError
from gantrymq.remoting.admission import ADMISSION_SETTINGS, Admission, admission_of
from gantrymq.remoting.preamble import ProtocolKind
from gantrymq.world.real import RealFiles, real_world

NOT_HTTP = b"\r\n\r\nThis port speaks the RocketMQ remoting protocol, not HTTP.\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"  # and empty SETTINGS
ASKING = b"\0\0\0\x04\x01\0\0\0\0\0\0\x03\x01\x05\0\0\0\x05\x82\x84\x86"  # SETTINGS acknowledged; GET / on stream 5
METRICS = (
    Setting("metricsExporterType", "text", "PROM", ""),
    Setting("metricsPromExporterHost", "text", "127.0.0.1", ""),
    Setting("metricsPromExporterPort", "number", 5557, ""),
    Setting("brokerIP1", "text", "", ""),
)


@pytest.mark.parametrize("mode", ["permissive", "disabled"])
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, b"are at http://127.0.0.1:5557/metrics."),
        ({"metricsExporterType": "DISABLE"}, b"are turned off; metricsExporterType=PROM turns them on."),
        ({"metricsPromExporterPort": 0}, b"are at the port in the broker's log, as metricsPromExporterPort is 0."),
        ({"metricsPromExporterHost": ""}, b"are at port 5557 of the broker's address, /metrics."),
        ({"metricsPromExporterHost": "", "brokerIP1": "10.0.0.7"}, b"are at http://10.0.0.7:5557/metrics."),
    ],
)
def test_http_is_told_where_the_figures_are(mode, values, told):
    settings = Settings([*ADMISSION_SETTINGS, *METRICS], {"tls.server.mode": mode, **values})
    answer = admission_of(settings, real_world().clock, RealFiles()).answer(ProtocolKind.HTTP, b"GET /")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    assert answer.endswith(NOT_HTTP + b"Metrics for Prometheus " + told + b"\n")


def test_http_is_told_what_shows_figures_where_no_plugin_does():
    answer = admission_of(Settings(ADMISSION_SETTINGS), real_world().clock, RealFiles()).answer(
        ProtocolKind.HTTP, b"GET /"
    )
    told = b"Metrics for Prometheus come from a broker with the plugin gantrymq-metrics, usually at port 5557.\n"
    assert answer.endswith(NOT_HTTP + told)


def test_http_2_is_sent_away_in_its_own_frame_once_it_asks():
    assert Admission().answer(ProtocolKind.HTTP2, PREFACE) is None
    answer = Admission().answer(ProtocolKind.HTTP2, PREFACE + ASKING)
    with pytest.raises(RemoteProtocolError) as refused:
        Admission().check(ProtocolKind.HTTP2)
    text = str(refused.value).encode()
    assert b"install it with: pip install gantrymq-grpc" in text
    assert answer[:9] == (8 + len(text)).to_bytes(3, "big") + b"\x07\0\0\0\0\0"
    assert answer[9:] == b"\0\0\0\x05" + b"\0\0\0\x01" + text


@pytest.mark.parametrize("protocol", [ProtocolKind.FRAMES, ProtocolKind.UNKNOWN])
def test_frames_are_told_nothing(protocol):
    assert Admission().answer(protocol, b"\0\0\0\x06") == b""


@pytest.mark.parametrize(
    ("mode", "protocol", "words"),
    [
        ("permissive", ProtocolKind.HTTP, "the peer speaks HTTP; this port speaks"),
        ("permissive", ProtocolKind.HTTP2, "gRPC clients need a listener of a broker for gRPC"),
        ("enforcing", ProtocolKind.FRAMES, "let it use TLS"),
        ("enforcing", ProtocolKind.UNKNOWN, "let it use TLS"),
    ],
)
def test_who_stays_outside_is_told_why(mode, protocol, words):
    with pytest.raises(RemoteProtocolError, match=words):
        Admission(mode).check(protocol)


@pytest.mark.parametrize("mode", ["permissive", "disabled"])
def test_frames_come_in(mode):
    Admission(mode).check(ProtocolKind.FRAMES)


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
def test_inside_tls_frames_come_in_and_other_protocols_do_not(mode):
    Admission(mode).check(ProtocolKind.FRAMES, inside_tls=True)
    for other in (ProtocolKind.HTTP, ProtocolKind.HTTP2):
        with pytest.raises(RemoteProtocolError, match="the peer speaks HTTP"):
            Admission(mode).check(other, inside_tls=True)


def test_a_certificate_that_cannot_be_made_refuses_the_peer_and_is_tried_again():
    def make():
        raise OSError(28, "No space left on device")

    admission = Admission("permissive", make)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="no certificate could be made: .*No space left"):
            admission.tls_context()
