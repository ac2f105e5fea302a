"""TLS settings under RocketMQ's names, for a server's port and for its connections to other servers.

A broker is a client of name servers, and a name server sometimes a client of brokers, so both have both parts.

    values      defaults  <  the file in tls.config.file  <  broker.conf  <  environment  <  --set

Source: apache/rocketmq remoting/.../netty/TlsSystemConfig.java, TlsHelper.java. Different here: a configured
certificate is used even in test mode, and the keys may be set in all sources of settings.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.settings_file import read_settings_file
from gantrymq.settings_load import Given, Layer, file_layer
from gantrymq.world import FileReader

DEFAULT_FILE = "/etc/rocketmq/tls.properties"

_tls_setting = partial(Setting, local=True)

TLS_SETTINGS: tuple[Setting, ...] = (
    _tls_setting(
        "tls.config.file", "text", DEFAULT_FILE, "File with further tls.* settings; the default one may be missing."
    ),
    _tls_setting(
        "tls.server.mode",
        "text",
        "permissive",
        "disabled rejects clients with TLS, permissive serves both, enforcing rejects clients without TLS.",
        choices=("disabled", "permissive", "enforcing"),
    ),
    _tls_setting(
        "tls.test.mode.enable",
        "flag",
        True,
        "Create a self-signed certificate if tls.server.certPath is not set (needs gantrymq[tls]).",
    ),
    _tls_setting("tls.server.certPath", "text", "", "File of the server's certificate chain, PEM."),
    _tls_setting("tls.server.keyPath", "text", "", "File of its private key, PEM; empty means the key is in certPath."),
    _tls_setting("tls.server.keyPassword", "text", "", "Password of the server's key.", secret=True),
    _tls_setting(
        "tls.server.need.client.auth",
        "text",
        "none",
        "Whether a certificate of clients is requested; used with tls.server.authClient=true.",
        choices=("none", "optional", "require"),
    ),
    _tls_setting("tls.server.authClient", "flag", False, "Verify the certificates of clients."),
    _tls_setting(
        "tls.server.trustCertPath", "text", "", "File of the authorities that sign clients' certificates, PEM."
    ),
    _tls_setting(
        "tls.enable",
        "text",
        "",
        "Use TLS for connections to other servers; empty means only if tls.server.mode=enforcing.",
        choices=("", "true", "false"),
    ),
    _tls_setting("tls.client.certPath", "text", "", "File of the certificate chain sent to other servers, PEM."),
    _tls_setting("tls.client.keyPath", "text", "", "File of its private key, PEM; empty means the key is in certPath."),
    _tls_setting("tls.client.keyPassword", "text", "", "Password of that key.", secret=True),
    _tls_setting(
        "tls.client.authServer",
        "flag",
        False,
        "Verify the certificates of other servers; false, RocketMQ's default, accepts any. Host names are never "
        "verified.",
    ),
    _tls_setting(
        "tls.client.trustCertPath", "text", "", "File of the authorities that sign servers' certificates, PEM."
    ),
)


def tls_file_layer(files: FileReader, given: Given | None) -> Layer:
    """Return the ``tls.*`` settings of the file named by *given*, or of the default file.

    Raises:
        ConfigError: a file named explicitly cannot be read or has no TLS setting.
    """
    path = Path(given.text.strip() if given is not None else DEFAULT_FILE)
    if given is None and files.stat(path) is None:
        return file_layer(str(path), [])
    lines = read_settings_file(files, path)
    found = [line for line in lines if line.key.startswith("tls.")]
    if given is not None and lines and not found:
        raise ConfigError(f"{given.source}: {path} has no setting of TLS, such as tls.server.mode=enforcing")
    return file_layer(str(path), found)


def client_of(settings: Settings) -> TlsClient | None:
    """Return the TLS configuration for connections to other servers, None without TLS."""
    wanted = settings.text("tls.enable") or str(settings.text("tls.server.mode") == "enforcing").lower()
    return tls_client(settings) if wanted == "true" else None


def tls_client(settings: Settings) -> TlsClient:
    """Return the TLS configuration of a client, whether TLS is enabled or not."""
    return TlsClient(
        cert_path=settings.text("tls.client.certPath"),
        key_path=settings.text("tls.client.keyPath"),
        key_password=settings.text("tls.client.keyPassword"),
        auth_server=settings.flag("tls.client.authServer"),
        trust_cert_path=settings.text("tls.client.trustCertPath"),
    )
