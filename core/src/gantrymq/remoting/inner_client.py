"""Connections of a server to other servers of its cluster: name servers, brokers, controllers.

Requests are signed with the account in ``innerClientAuthenticationCredentials``, and so accepted by servers with access
control. Requests of a broker to its clients are never signed.

Source: apache/rocketmq auth/.../authentication/AuthenticationEvaluator.java, broker/.../BrokerOuterAPI.java (its hook).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gantrymq import strict_json
from gantrymq.config import Setting, Settings
from gantrymq.errors import BrokerRefused, ConfigError
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import Command
from gantrymq.remoting.limits import Limits
from gantrymq.remoting.signatures import Signer, is_access_refusal
from gantrymq.remoting.tls_settings import client_of
from gantrymq.world import World

INNER_CREDENTIALS: Final = Setting.text(
    "innerClientAuthenticationCredentials",
    "",
    'Account for requests to other servers of the cluster: {"accessKey":"NAME","secretKey":"SECRET"}.',
    secret=True,
    local=True,
    private=True,
)
_KEY: Final = INNER_CREDENTIALS.key
_MEMBERS: Final = ("accessKey", "secretKey")


@attrs.frozen
class InnerCredentials:
    """The account of a server at the other servers of its cluster."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    security_token: None = None


def inner_credentials(settings: Settings) -> InnerCredentials | None:
    """Return the account in ``innerClientAuthenticationCredentials``; None without one.

    Raises:
        ConfigError: the value is not the expected JSON object. The text does not show it.
    """
    text = settings.text(_KEY).strip()
    if not text:
        return None
    where = f"{settings.source(_KEY)}: {_KEY}"
    try:
        found: Any = strict_json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, Mapping) or set(found) != set(_MEMBERS):
        raise ConfigError(f'{where} is not of the form {{"accessKey":"NAME","secretKey":"SECRET"}}')
    for name in _MEMBERS:
        if not isinstance(found[name], str) or not found[name].strip():
            raise ConfigError(f"{where}: {name} is empty or not a text; expected the one that the cluster knows")
    return InnerCredentials(found["accessKey"], found["secretKey"])


def inner_client(world: World, settings: Settings, *, limits: Limits | None = None, tls: bool = True) -> RemotingClient:
    """Return a client for requests to other servers of the cluster, with TLS and the account of *settings*.

    Args:
        tls: False to read no TLS files, for a server that makes no connection.

    Raises:
        ConfigError: the account or a TLS file cannot be used.
    """
    account = inner_credentials(settings)
    return RemotingClient(
        world,
        limits=limits,
        tls=client_of(settings) if tls else None,
        sign=None if account is None else Signer(account).sign,
    )


def refused(client: RemotingClient, answer: Command, address: str) -> BrokerRefused:
    """Return the error for an answer with an error code; for a refusal of access, it names the setting to check.

    *client*: from `inner_client`.
    """
    remark = answer.remark or "no reason given"
    if is_access_refusal(answer.code, remark):
        advice = (
            "check the account in {} of this server, and what it may do there"
            if client.signs
            else "it controls access: set {} of this server to an account of the cluster"
        )
        remark = f"{remark.rstrip('.')}; {advice.format(_KEY)}"
    return BrokerRefused(answer.code, remark, address)
