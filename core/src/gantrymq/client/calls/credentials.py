"""Credentials and TLS settings, as given by the application or by the environment.

For clusters with access control, credentials are an access key and a signature of every request
(`gantrymq.remoting.signatures`). Brokers with ``aclEnable`` (4.4 to 5.2) and with ``authenticationEnabled`` (5.3 on)
verify the same bytes. Responses are not signed in either direction.

Sources: apache/rocketmq client/.../acl/common/AclClientRPCHook.java, SessionCredentials.java, AclUtils.java,
remoting/.../netty/TlsSystemConfig.java, TlsHelper.java.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from gantrymq.client.calls.grants import advice
from gantrymq.config import Settings
from gantrymq.errors import BrokerRefused, ConfigError, InvalidParameter, NoPermission
from gantrymq.remoting.codes import ResponseCode
from gantrymq.remoting.signatures import ACL_ERROR, is_access_refusal
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.remoting.tls_settings import TLS_SETTINGS, tls_client, tls_file_layer
from gantrymq.settings_load import environment_layer, nearest, strongest
from gantrymq.world import FileReader

ENVIRONMENT: Final = ("GANTRYMQ_ACCESS_KEY", "GANTRYMQ_SECRET_KEY", "GANTRYMQ_SECURITY_TOKEN")
_JAVA_PLACE: Final = re.compile(r", [\w.]+\([\w.:]+\)$")


def _filled(_: object, field: attrs.Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidParameter(f"{field.name} of the credentials is empty; expected the text that the cluster knows")


@attrs.frozen
class Credentials:
    """An account at a cluster. `repr` shows only the access key. Raises InvalidParameter if a key is empty."""

    access_key: str = attrs.field(validator=_filled)
    secret_key: str = attrs.field(validator=_filled, repr=False)
    security_token: str | None = attrs.field(default=None, repr=False)  # of a temporary account


class AccessDenied(BrokerRefused, NoPermission):
    """Raised when the cluster's access control rejects the client; retrying with the same credentials does not help."""

    def __init__(self, remark: str, address: str, request: int = 0) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark, address)
        advised = advice(remark, request)
        said = f"{remark.rstrip('.')}; {advised}" if advised else remark
        self.args = (f"{address} controls access and refused this client: {said}",)


def access_denied(code: int, remark: str, address: str, request: int = 0) -> AccessDenied | None:
    """Return the error if a response comes from access control, or None for any other refusal.

    Args:
        code: of the response.
        remark: of the response.
        address: of the server.
        request: code of the request; 0 if unknown.
    """
    if not is_access_refusal(code, remark):
        return None
    plain = code == ResponseCode.SYSTEM_ERROR
    return AccessDenied(_JAVA_PLACE.sub("", remark.removeprefix(ACL_ERROR)) if plain else remark, address, request)


def resolve_credentials(given: Credentials | None, environ: Mapping[str, str]) -> Credentials | None:
    """Return *given*, else the credentials of the environment, if any.

    Raises:
        ConfigError: the environment has an access key without its secret, or a secret without its access key.
    """
    access, secret, token = (environ.get(name, "").strip() for name in ENVIRONMENT)
    if given is not None or not (access or secret):
        return given
    for name, value, other in ((ENVIRONMENT[0], access, ENVIRONMENT[1]), (ENVIRONMENT[1], secret, ENVIRONMENT[0])):
        if not value:
            raise ConfigError(f"${other} is set and ${name} is not; set both, or neither")
    return Credentials(access, secret, token or None)


def tls_of_environment(files: FileReader, environ: Mapping[str, str], wanted: bool | None) -> TlsClient | None:
    """Return the TLS configuration that the environment sets, or None for a connection without TLS.

    Environment variables are named like RocketMQ's settings, and override the file in tls.config.file.

    Args:
        wanted: whether to use TLS; None to follow ``tls.enable``.

    Raises:
        ConfigError: a value is invalid, or the file cannot be read or has an unknown key.
    """
    if wanted is False:
        return None
    environment = environment_layer(environ, TLS_SETTINGS)
    layers = [tls_file_layer(files, strongest([environment], "tls.config.file")), environment]
    settings = Settings(TLS_SETTINGS)
    for key, entry in layers[0].entries.items():
        if key not in settings.schema:  # ignored, a misspelt tls.client.authServer would accept any certificate
            raise ConfigError(f"{entry.source}: there is no setting {key}{nearest(key, settings.schema)}")
    for key in settings.schema:
        if (key == "tls.enable" or key.startswith("tls.client.")) and (given := strongest(layers, key)) is not None:
            settings.set(key, given.text, given.source)
    return tls_client(settings) if wanted or settings.text("tls.enable") == "true" else None
