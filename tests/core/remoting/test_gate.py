"""What a port answers to who does not speak frames."""

import pytest

from gantrymq.config import Setting, Settings
from gantrymq.errors import RemoteProtocolError
from gantrymq.remoting.gate import Gate, gate_of
from gantrymq.remoting.preamble import Beginning
from gantrymq.remoting.tls_settings import TLS_SETTINGS

NOT_HTTP = b"\r\n\r\nThis port speaks the RocketMQ remoting protocol, not HTTP.\n"
METRICS = (
    Setting("metricsExporterType", "text", "PROM", ""),
    Setting("metricsPromExporterHost", "text", "127.0.0.1", ""),
    Setting("metricsPromExporterPort", "number", 5557, ""),
)


@pytest.mark.parametrize("mode", ["permissive", "disabled"])
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, b"Figures for Prometheus are at http://127.0.0.1:5557/metrics.\n"),
        ({"metricsExporterType": "DISABLE"}, b""),
        ({"metricsPromExporterPort": 0}, b""),
    ],
)
def test_http_is_told_where_the_figures_are(mode, values, named):
    settings = Settings([*TLS_SETTINGS, *METRICS], {"tls.server.mode": mode, **values})
    answer = gate_of(settings, lambda: 0).http_answer()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answer.endswith(NOT_HTTP + named)


def test_http_is_told_what_speaks_here_where_nothing_else_is_known():
    assert gate_of(Settings(TLS_SETTINGS), lambda: 0).http_answer().endswith(NOT_HTTP)


@pytest.mark.parametrize(
    ("mode", "beginning", "words"),
    [
        ("permissive", Beginning.HTTP, "the peer speaks HTTP; this port speaks"),
        ("permissive", Beginning.HTTP2, "gRPC needs RocketMQ's proxy"),
        ("enforcing", Beginning.FRAMES, "let it use TLS"),
        ("enforcing", Beginning.UNKNOWN, "let it use TLS"),
    ],
)
def test_who_stays_outside_is_told_why(mode, beginning, words):
    with pytest.raises(RemoteProtocolError, match=words):
        Gate(mode).check(beginning)


@pytest.mark.parametrize("mode", ["permissive", "disabled"])
def test_frames_come_in(mode):
    Gate(mode).check(Beginning.FRAMES)


def test_a_certificate_that_cannot_be_made_refuses_the_peer_and_is_tried_again():
    def make():
        raise OSError(28, "No space left on device")

    gate = Gate("permissive", make)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="no certificate could be made: .*No space left"):
            gate.tls_context()
