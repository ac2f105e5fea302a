"""Converts FastStream's security objects to options of the client."""

from __future__ import annotations

import ssl
from typing import Any

import attrs
from faststream.exceptions import SetupError
from faststream.security import BaseSecurity, SASLPlaintext

from gantrymq.client import Credentials, TlsClient


@attrs.frozen(kw_only=True)
class _ContextTls(TlsClient):
    """TLS settings with an SSL context created by the application."""

    given: ssl.SSLContext = attrs.field(eq=False)

    def context(self) -> ssl.SSLContext:
        return self.given


def connect_options(security: BaseSecurity | None) -> dict[str, Any]:
    """Return options of `gantrymq.client.Client`.

    Args:
        security: ``BaseSecurity(ssl_context=...)`` for TLS with that context, ``BaseSecurity(use_ssl=True)`` for TLS
            with RocketMQ's defaults, which accept any certificate. ``SASLPlaintext(access_key, secret_key)`` for an
            account at a cluster with access control: requests are signed, the secret key is not sent.

    Raises:
        SetupError: RocketMQ does not support this kind.
        InvalidParameter: a key is empty.
    """
    if security is None:
        return {}
    options: dict[str, Any] = {}
    if isinstance(security, SASLPlaintext):
        options["credentials"] = Credentials(security.username, security.password)
    elif type(security) is not BaseSecurity:
        raise SetupError(
            f"GantryBroker does not support {type(security).__name__}; expected BaseSecurity for TLS, or SASLPlaintext "
            "with access key and secret key for access control"
        )
    if security.ssl_context is not None:
        options["tls"] = _ContextTls(given=security.ssl_context)
    elif security.use_ssl:
        options["tls"] = TlsClient()
    return options
