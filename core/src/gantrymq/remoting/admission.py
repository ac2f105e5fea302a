"""Admission of connections by their first bytes.

    first bytes      disabled    permissive    enforcing
    TLS hello        closed      TLS           TLS
    frames           served      served        closed
    HTTP             response 400 that names the protocol of this port, then closed
    HTTP/2           GOAWAY with the reason after the first request, then closed

The first bytes inside TLS are checked in the same way, except that frames are served in every mode. A trusted proxy
(`preamble.TrustedProxies`) may send a PROXY header first; a PROXY header from any other peer closes the connection.

Source: apache/rocketmq remoting/.../netty/NettyRemotingServer.java (TlsModeHandler).
"""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Callable
from functools import cache
from typing import cast

from gantrymq.config import Settings
from gantrymq.errors import ConfigError, RemoteProtocolError
from gantrymq.remoting.certificates import Certificates, self_signed_available, write_self_signed
from gantrymq.remoting.preamble import (
    PROXY_SETTING,
    ProtocolKind,
    TrustedProxies,
    http2_goaway,
    http_response,
    requested_stream,
    trusted_proxies,
)
from gantrymq.remoting.tls_contexts import ClientAuth, load_chain, server_context
from gantrymq.remoting.tls_settings import TLS_SETTINGS
from gantrymq.world import Clock, FileReader

ADMISSION_SETTINGS = (*TLS_SETTINGS, PROXY_SETTING)

_NO_CERTIFICATE = (
    "set tls.server.certPath and tls.server.keyPath, or for tests install gantrymq[tls], which lets it make one"
)
_NOT_HTTP2 = (
    "the peer speaks HTTP/2, as gRPC does; gRPC clients need RocketMQ's proxy, usually at port 8081, which is not "
    "built: use a client of the remoting protocol on this port"
)


class Admission:
    """Rules for connections to one port.

    Args:
        mode: ``tls.server.mode``.
        context: returns the server's TLS context for a TLS client; None without a certificate.
        http: sentence about an HTTP endpoint of this server for HTTP clients; empty for none.
        proxies: peers that may send a PROXY header; loopback addresses by default.
        required_by: why enforcing refuses clients without TLS.
    """

    def __init__(
        self,
        mode: str = "permissive",
        context: Callable[[], ssl.SSLContext] | None = None,
        http: str = "",
        proxies: TrustedProxies | None = None,
        required_by: str = "tls.server.mode=enforcing",
    ) -> None:
        self.mode = mode
        self.proxies = proxies or TrustedProxies()
        self._http = http
        self._make = context
        self._required_by = required_by

    def requiring_tls(self, listener: str) -> Admission:
        """Return the rules of *listener*, which serves only clients with TLS, with the same certificate.

        Raises:
            ConfigError: TLS is disabled, or there is no certificate.
        """
        wants = f"listener {listener} has the protocol remoting+tls"
        if self.mode == "disabled":
            raise ConfigError(f"{wants}, and tls.server.mode=disabled; set permissive")
        if self._make is None:
            raise ConfigError(f"{wants}, and this server has no certificate: {_NO_CERTIFICATE}")
        return Admission("enforcing", self.tls_context, self._http, self.proxies, wants)

    def tls_context(self) -> ssl.SSLContext:
        """Return the context for a peer that sent a TLS hello.

        Raises:
            RemoteProtocolError: TLS is refused; the message says what to do.
        """
        if self.mode == "disabled":
            raise RemoteProtocolError(
                "the peer wants TLS, and tls.server.mode=disabled; let it connect without, or set permissive"
            )
        if self._make is None:
            raise RemoteProtocolError(f"the peer wants TLS, and this server has no certificate: {_NO_CERTIFICATE}")
        try:
            return self._make()
        except (OSError, ConfigError) as error:
            raise RemoteProtocolError(f"the peer wants TLS, and no certificate could be made: {error}") from error

    def answer(self, protocol: ProtocolKind, data: bytes) -> bytes | None:
        """Return the response to a peer of another protocol, sent before `check` closes it; empty for frames.

        Return None if more data is needed, which happens for HTTP/2 only. *data* is everything received.
        """
        if protocol is ProtocolKind.HTTP:
            return http_response(f"This port speaks the RocketMQ remoting protocol, not HTTP.\n{self._http}")
        if protocol is not ProtocolKind.HTTP2:
            return b""
        stream = requested_stream(data)
        return None if stream is None else http2_goaway(stream, _NOT_HTTP2)

    def check(self, protocol: ProtocolKind, *, inside_tls: bool = False) -> None:
        """Admit a connection or raise. Unknown protocols count as frames; the frame decoder reports them.

        Raises:
            RemoteProtocolError: the connection is refused.
        """
        if protocol is ProtocolKind.HTTP:
            raise RemoteProtocolError("the peer speaks HTTP; this port speaks the RocketMQ remoting protocol")
        if protocol is ProtocolKind.HTTP2:
            raise RemoteProtocolError(_NOT_HTTP2)
        if self.mode == "enforcing" and not inside_tls:
            raise RemoteProtocolError(
                f"the peer connects without TLS, and {self._required_by}; let it use TLS (tls.enable=true)"
            )


def admission_of(settings: Settings, clock: Clock, files: FileReader) -> Admission:
    """Return the admission rules of a server with these settings (`ADMISSION_SETTINGS`).

    Certificate files are read now, so that a bad file fails the start and not the first client, and again after they
    have changed (`remoting.certificates`).

    Raises:
        ConfigError: a file cannot be used, enforcing has no certificate, or a proxy address is invalid.
    """
    mode, http, proxies = settings.text("tls.server.mode"), _metrics_hint(settings), trusted_proxies(settings)
    cert, key = settings.text("tls.server.certPath"), settings.text("tls.server.keyPath")
    if mode == "disabled":
        return Admission(mode, None, http, proxies)
    if key and not cert:
        raise ConfigError(f"tls.server.keyPath={key} has no certificate: set tls.server.certPath as well")
    trust = settings.text("tls.server.trustCertPath")
    need, auth_client = settings.text("tls.server.need.client.auth"), settings.flag("tls.server.authClient")
    if cert:

        def load() -> ssl.SSLContext:
            context = server_context(cast(ClientAuth, need), auth_client, trust)
            load_chain(context, cert, key, settings.text("tls.server.keyPassword"), "tls.server")
            return context

        return Admission(mode, Certificates(files, clock, [cert, key, trust], load).context, http, proxies)
    context = server_context(cast(ClientAuth, need), auth_client, trust)
    if settings.flag("tls.test.mode.enable") and self_signed_available():
        return Admission(mode, cache(lambda: _with_self_signed(context, clock.now_ms())), http, proxies)
    if mode == "enforcing":
        raise ConfigError(f"tls.server.mode=enforcing, and this server has no certificate: {_NO_CERTIFICATE}")
    return Admission(mode, None, http, proxies)


def _metrics_hint(settings: Settings) -> str:
    """Return a sentence that says where Prometheus finds metrics, or how to enable them."""
    port = "metricsPromExporterPort"
    if port not in settings.schema:
        return "Metrics for Prometheus come from a broker with the plugin gantrymq-metrics, usually at port 5557.\n"
    if settings.text("metricsExporterType") not in ("PROM", "2"):
        return "Metrics for Prometheus are turned off; metricsExporterType=PROM turns them on.\n"
    number, host = settings.number(port), settings.text("metricsPromExporterHost") or settings.text("brokerIP1")
    if not number:
        return f"Metrics for Prometheus are at the port in the broker's log, as {port} is 0.\n"
    if not host:
        return f"Metrics for Prometheus are at port {number} of the broker's address, /metrics.\n"
    return f"Metrics for Prometheus are at http://{host}:{number}/metrics.\n"


def _with_self_signed(context: ssl.SSLContext, now_ms: int) -> ssl.SSLContext:
    now = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
    with write_self_signed(now) as folder:
        load_chain(context, f"{folder}/cert.pem", "", "", "tls.server")
    return context
