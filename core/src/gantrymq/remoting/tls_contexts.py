"""What both sides of TLS are made of: certificates, keys and whom they trust.

TLS 1.2 is the oldest version spoken. Host names are not compared, as in RocketMQ: brokers are known by addresses.

Source: apache/rocketmq remoting/.../netty/TlsHelper.java (buildSslContext). Different here: Java can ask for a client's
certificate without looking at it; Python's ssl cannot, so that combination is refused (require) or asks for none
(optional).
"""

from __future__ import annotations

import ssl
from typing import Literal

import attrs

from gantrymq.errors import ConfigError
from gantrymq.remoting.tls_stream import tls_error_text

__all__ = ["ClientAuth", "TlsClient", "load_chain", "server_context"]

ClientAuth = Literal["none", "optional", "require"]


@attrs.frozen(kw_only=True)
class TlsClient:
    """How a client speaks TLS. The defaults are RocketMQ's: any certificate of a server is believed.

    That keeps listeners out, not a server that pretends to be another; *auth_server* does.
    """

    cert_path: str = ""  # chain of our own certificate, PEM; empty shows none
    key_path: str = ""  # its private key, PEM; empty means it is in cert_path
    key_password: str = attrs.field(default="", repr=False)
    auth_server: bool = False  # verify the server's certificate
    trust_cert_path: str = ""  # authorities, PEM; empty means those of this machine

    def context(self) -> ssl.SSLContext:
        """Read the files.

        Raises:
            ConfigError: one of them cannot be used; names its setting.
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


def server_context(need: ClientAuth, auth_client: bool, trust_cert_path: str) -> ssl.SSLContext:
    """A server's context without its certificate, which `load_chain` adds.

    Args:
        need: whether clients are asked for certificates.
        auth_client: whether those are verified.
        trust_cert_path: the authorities that sign them; empty means those of this machine.

    Raises:
        ConfigError: the authorities cannot be read, or certificates are required and not verified.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Clients of gRPC hang up where h2 is not chosen; like this they hear why they are at the wrong port. Clients of
    # RocketMQ's remoting ask for nothing here.
    context.set_alpn_protocols(["http/1.1", "h2"])
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
    """Give *context* a certificate and its key; *side* is the beginning of the settings' names.

    Raises:
        ConfigError: a file cannot be read, or the key does not belong to the certificate.
    """
    files = f"{side}.certPath={cert_path}" + (f", {side}.keyPath={key_path}" if key_path else "")
    try:
        # A password is always given: without one OpenSSL would ask for it at the terminal.
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
