"""TLS settings from the environment, named as in RocketMQ, for a client without a ``tls`` option.

Source: apache/rocketmq remoting/.../netty/TlsSystemConfig.java, TlsHelper.java.
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.config import Settings
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.remoting.tls_settings import TLS_SETTINGS, tls_client, tls_file_layer
from gantrymq.settings_load import environment_layer, strongest
from gantrymq.world import Files

__all__ = ["tls_of_environment"]


def tls_of_environment(files: Files, environ: Mapping[str, str], wanted: bool | None) -> TlsClient | None:
    """Return the TLS configuration, or None for a connection without TLS.

    Environment variables named after the settings override the file in tls.config.file.

    Args:
        wanted: whether to use TLS; None to follow ``tls.enable``.

    Raises:
        ConfigError: a value is invalid, or the file cannot be read.
    """
    if wanted is False:
        return None
    environment = environment_layer(environ, TLS_SETTINGS)
    layers = [tls_file_layer(files, strongest([environment], "tls.config.file")), environment]
    settings = Settings(TLS_SETTINGS)
    for key in settings.schema:
        if (key == "tls.enable" or key.startswith("tls.client.")) and (given := strongest(layers, key)) is not None:
            settings.set(key, given.text, given.source)
    return tls_client(settings) if wanted or settings.text("tls.enable") == "true" else None
