"""TLS contexts of clients and servers: certificates, keys and trusted authorities.

The oldest supported version is TLS 1.2. Host names are not verified, as in RocketMQ: brokers are known by addresses.

Source: apache/rocketmq remoting/.../netty/TlsHelper.java (buildSslContext). Different here: Java can request a
client's certificate without verifying it; Python's ssl cannot, so that combination is refused (require) or requests no
certificate (optional).
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final, Literal

import attrs

from gantrymq.errors import ConfigError
from gantrymq.remoting.tls_transport import tls_error_text

ClientAuth = Literal["none", "optional", "require"]

# gRPC clients disconnect if h2 is not selected; with h2 they receive the reason that this is the wrong port.
# Clients of RocketMQ's remoting do not use ALPN.
REMOTING_ALPN: Final = ("http/1.1", "h2")


@attrs.frozen(kw_only=True)
class TlsClient:
    """TLS configuration of a client. The defaults are RocketMQ's: any server certificate is accepted.

    That protects against eavesdropping, not against an impersonated server. *auth_server* protects against both.
    """

    cert_path: str = ""  # certificate chain of the client, PEM; empty sends none
    key_path: str = ""  # its private key, PEM; empty means it is in cert_path
    key_password: str = attrs.field(default="", repr=False)
    auth_server: bool = False  # verify the server's certificate
    trust_cert_path: str = ""  # trusted authorities, PEM; empty means the system's

    def context(self) -> ssl.SSLContext:
        """Read the files and return the context.

        Raises:
            ConfigError: a file cannot be used; the message names its setting.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        if self.auth_server:
            _load_trust(context, ssl.Purpose.SERVER_AUTH, self.trust_cert_path, "tls.client.trustCertPath")
        else:
            context.verify_mode = ssl.CERT_NONE
        if self.cert_path:
            load_chain(context, self.cert_path, self.key_path, self.key_password, "tls.client")
        elif self.key_path:
            raise ConfigError(f"tls.client.keyPath={self.key_path} has no certificate: set tls.client.certPath as well")
        return context


def server_context(
    need: ClientAuth, auth_client: bool, trust_cert_path: str, alpn: Sequence[str] = REMOTING_ALPN
) -> ssl.SSLContext:
    """Return the context of a server, without its certificate, which `load_chain` adds.

    Args:
        need: whether client certificates are requested.
        auth_client: whether client certificates are verified.
        trust_cert_path: authorities that sign client certificates; empty means the system's.
        alpn: protocols to select if a client offers one of them, the preferred one first.

    Raises:
        ConfigError: the authorities cannot be read, or certificates are required and not verified.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if need == "require" and not auth_client:
        raise ConfigError(
            "tls.server.need.client.auth=require: clients' certificates are always verified here; set "
            "tls.server.authClient=true, and tls.server.trustCertPath to the authorities that sign them"
        )
    if need != "none" and auth_client:
        _load_trust(context, ssl.Purpose.CLIENT_AUTH, trust_cert_path, "tls.server.trustCertPath")
        context.verify_mode = ssl.CERT_REQUIRED if need == "require" else ssl.CERT_OPTIONAL
    return context


def load_chain(context: ssl.SSLContext, cert_path: str, key_path: str, password: str, side: str) -> None:
    """Load a certificate and its key into *context*; *side* is the prefix of the settings' names.

    Raises:
        ConfigError: a file cannot be read, or the key does not belong to the certificate.
    """
    files = f"{side}.certPath={cert_path}" + (f", {side}.keyPath={key_path}" if key_path else "")
    try:
        # Always pass a password: without one OpenSSL would prompt for it on the terminal.
        context.load_cert_chain(cert_path, key_path or None, password)
    except ssl.SSLError as error:
        raise ConfigError(f"{files}: no certificate with its key in PEM: {tls_error_text(error)}") from error
    except OSError as error:
        raise ConfigError(f"{files}: {error.strerror or error}") from error


def _load_trust(context: ssl.SSLContext, purpose: ssl.Purpose, path: str, key: str) -> None:
    if not path:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise ConfigError(f"{key}={path}: no certificates in PEM: {tls_error_text(error)}") from error
    except OSError as error:
        raise ConfigError(f"{key}={path}: {error.strerror or error}") from error
