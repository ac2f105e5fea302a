"""FastStream's security objects as options of the client."""

from __future__ import annotations

import ssl
from typing import Any

import attrs
from faststream.exceptions import SetupError
from faststream.security import BaseSecurity

from gantrymq.client import TlsClient

__all__ = ["connect_options"]


@attrs.frozen(kw_only=True)
class _Given(TlsClient):
    """A context that the application made itself."""

    given: ssl.SSLContext = attrs.field(eq=False)

    def context(self) -> ssl.SSLContext:
        return self.given


def connect_options(security: BaseSecurity | None) -> dict[str, Any]:
    """Options of `gantrymq.client.Client`.

    Args:
        security: ``BaseSecurity(ssl_context=...)`` for TLS with that context, ``BaseSecurity(use_ssl=True)`` for TLS
            with RocketMQ's defaults, which believe any certificate.

    Raises:
        SetupError: it is of a kind that RocketMQ does not have.
    """
    if security is None:
        return {}
    if type(security) is not BaseSecurity:
        raise SetupError(f"GantryBroker does not support {type(security).__name__}; expected BaseSecurity, for TLS")
    if security.ssl_context is not None:
        return {"tls": _Given(given=security.ssl_context)}
    return {"tls": TlsClient()} if security.use_ssl else {}
