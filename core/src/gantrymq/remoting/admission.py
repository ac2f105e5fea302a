"""Admission of connections by their first bytes.

    first bytes      disabled    permissive    enforcing
    TLS hello        closed      TLS           TLS
    frames           served      served        closed
    HTTP             response 400 that names the protocol of this port, then closed
    HTTP/2           GOAWAY with the reason after the first request, then closed

The first bytes inside TLS are checked in the same way, except that frames are served in every mode. A trusted proxy
(`preamble.TrustedProxies`) may send a PROXY header first; a PROXY header from any other peer closes the connection.
`remoting.protocol_admission` has the rules for listeners with a protocol of a plugin.

Source: apache/rocketmq remoting/.../netty/NettyRemotingServer.java (TlsModeHandler).
"""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import cast

from gantrymq.config import Settings
from gantrymq.errors import ConfigError, RemoteProtocolError, install_command
from gantrymq.remoting.certificates import Certificates, self_signed_available, write_self_signed
from gantrymq.remoting.listeners import GRPC_TO_INSTALL
from gantrymq.remoting.preamble import (
    PROXY_SETTING,
    ProtocolKind,
    TrustedProxies,
    http2_goaway,
    http_response,
    requested_stream,
    trusted_proxies,
)
from gantrymq.remoting.tls_contexts import REMOTING_ALPN, ClientAuth, load_chain, server_context
from gantrymq.remoting.tls_settings import TLS_SETTINGS
from gantrymq.world import Clock, FileReader

ADMISSION_SETTINGS = (*TLS_SETTINGS, PROXY_SETTING)

_NO_CERTIFICATE = (
    "set tls.server.certPath and tls.server.keyPath, or for tests install gantrymq[tls], which lets it make one"
)
_REMOTING = "the RocketMQ remoting protocol"


def grpc_advice() -> str:
    """Return the advice for gRPC clients of a server without a listener for them."""
    return (
        "gRPC clients need a listener of a broker for gRPC, such as listeners=sdk=grpc://0.0.0.0:8081 with the plugin "
        f"{GRPC_TO_INSTALL}; install it with: {install_command(GRPC_TO_INSTALL)}"
    )


class Admission:
    """Rules for connections to one port.

    Args:
        mode: ``tls.server.mode``.
        context: returns the server's TLS context for a TLS client; None without a certificate.
        http: sentence about an HTTP endpoint of this server for HTTP clients; empty for none.
        proxies: peers that may send a PROXY header; loopback addresses by default.
        required_by: why enforcing refuses clients without TLS.
        grpc: returns the part of a sentence that says where gRPC clients connect.
    """

    def __init__(
        self,
        mode: str = "permissive",
        context: Callable[[], ssl.SSLContext] | None = None,
        http: str = "",
        proxies: TrustedProxies | None = None,
        required_by: str = "tls.server.mode=enforcing",
        grpc: Callable[[], str] = grpc_advice,
    ) -> None:
        self.mode = mode
        self.proxies = proxies or TrustedProxies()
        self.http = http
        self.context = context
        self.required_by = required_by
        self._grpc = grpc

    def requiring_tls(self, listener: str, protocol: str = "remoting") -> Admission:
        """Return the rules of *listener*, which serves only clients with TLS, with the same certificate.

        Raises:
            ConfigError: TLS is disabled, or there is no certificate.
        """
        wants = f"listener {listener} has the protocol {protocol}+tls"
        if self.mode == "disabled":
            raise ConfigError(f"{wants}, and tls.server.mode=disabled; set permissive")
        if self.context is None:
            raise ConfigError(f"{wants}, and this server has no certificate: {_NO_CERTIFICATE}")
        return Admission("enforcing", self.tls_context, self.http, self.proxies, wants, self._grpc)

    def first_bytes(self, *, inside_tls: bool) -> tuple[bytes, ...]:
        """Return the first bytes of clients to admit, for `sniff`; remoting needs none, as it knows frames."""
        return ()

    def tls_context(self) -> ssl.SSLContext:
        """Return the context for a peer that sent a TLS hello.

        Raises:
            RemoteProtocolError: TLS is refused; the message says what to do.
        """
        if self.mode == "disabled":
            raise RemoteProtocolError(
                "the peer wants TLS, and tls.server.mode=disabled; let it connect without, or set permissive"
            )
        if self.context is None:
            raise RemoteProtocolError(f"the peer wants TLS, and this server has no certificate: {_NO_CERTIFICATE}")
        try:
            return self.context()
        except (OSError, ConfigError) as error:
            raise RemoteProtocolError(f"the peer wants TLS, and no certificate could be made: {error}") from error

    def prepare_tls(self) -> None:
        """Make the self-signed certificate now, if there will be one: the first client does not wait for it."""
        if self.context is not None:
            with suppress(OSError, ConfigError):  # `tls_context` refuses clients with the reason
                self.context()

    def answer(self, protocol: ProtocolKind, data: bytes, *, inside_tls: bool = False) -> bytes | None:
        """Return the response to a peer of another protocol, sent before `check` closes it; empty for none.

        Return None if more data is needed. *data* is everything received.
        """
        if protocol is ProtocolKind.HTTP:
            return http_response(f"This port speaks {self._speaks()}.\n{self.http}")
        if protocol is not ProtocolKind.HTTP2:
            return b""
        stream = requested_stream(data)
        return None if stream is None else http2_goaway(stream, self.refusal(protocol, inside_tls=inside_tls))

    def check(self, protocol: ProtocolKind, *, inside_tls: bool = False) -> None:
        """Admit a connection or raise.

        Raises:
            RemoteProtocolError: the connection is refused.
        """
        if refusal := self.refusal(protocol, inside_tls=inside_tls):
            raise RemoteProtocolError(refusal)

    def refusal(self, protocol: ProtocolKind, *, inside_tls: bool) -> str:
        """Return why a connection is refused; empty if it is admitted.

        Unknown protocols count as frames; the frame decoder reports them.
        """
        if protocol is ProtocolKind.HTTP:
            return f"the peer speaks HTTP; this port speaks {_REMOTING}"
        if protocol is ProtocolKind.HTTP2:
            return f"the peer speaks HTTP/2, as gRPC does, and this port speaks {_REMOTING}; {self._grpc()}"
        return f"{self._without_tls()} (tls.enable=true)" if self.mode == "enforcing" and not inside_tls else ""

    def _speaks(self) -> str:
        return f"{_REMOTING}, not HTTP"

    def _without_tls(self) -> str:
        return f"the peer connects without TLS, and {self.required_by}; let it use TLS"


def admission_of(
    settings: Settings,
    clock: Clock,
    files: FileReader,
    *,
    grpc: Callable[[], str] = grpc_advice,
    alpn: Sequence[str] = REMOTING_ALPN,
) -> Admission:
    """Return the admission rules of a server with these settings (`ADMISSION_SETTINGS`).

    Certificate files are read now, so that a bad file fails the start and not the first client, and again after they
    have changed (`remoting.certificates`).

    Args:
        settings, clock, files: of the server.
        grpc: see `Admission`.
        alpn: protocols that are selected in TLS if a client offers one of them, the preferred one first.

    Raises:
        ConfigError: a file cannot be used, enforcing has no certificate, or a proxy address is invalid.
    """
    mode = settings.text("tls.server.mode")
    admission = partial(Admission, mode, http=_metrics_hint(settings), proxies=trusted_proxies(settings), grpc=grpc)
    cert, key = settings.text("tls.server.certPath"), settings.text("tls.server.keyPath")
    if mode == "disabled":
        return admission()
    if key and not cert:
        raise ConfigError(f"tls.server.keyPath={key} has no certificate: set tls.server.certPath as well")
    trust = settings.text("tls.server.trustCertPath")
    need, auth_client = settings.text("tls.server.need.client.auth"), settings.flag("tls.server.authClient")
    if cert:

        def load() -> ssl.SSLContext:
            context = server_context(cast(ClientAuth, need), auth_client, trust, alpn)
            load_chain(context, cert, key, settings.text("tls.server.keyPassword"), "tls.server")
            return context

        return admission(Certificates(files, clock, [cert, key, trust], load).context)
    context = server_context(cast(ClientAuth, need), auth_client, trust, alpn)
    if settings.flag("tls.test.mode.enable") and self_signed_available():
        return admission(cache(lambda: _with_self_signed(context, clock.now_ms())))
    if mode == "enforcing":
        raise ConfigError(f"tls.server.mode=enforcing, and this server has no certificate: {_NO_CERTIFICATE}")
    return admission()


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
