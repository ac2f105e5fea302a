"""Connection options of a client, and the check of option names."""

from __future__ import annotations

import inspect
import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, TypeVar, Unpack

import attrs

from gantrymq.client.argument_types import check_text, shown
from gantrymq.client.calls.client_ids import DEFAULT_INSTANCE
from gantrymq.errors import InvalidParameter

if TYPE_CHECKING:
    from gantrymq.client.calls.credentials import Credentials
    from gantrymq.remoting.tls_contexts import TlsClient
    from gantrymq.world import World


class ConnectOptions(TypedDict, total=False):
    """Options of `Client`, which everything that it creates uses; each may be omitted."""

    namespace: str
    """Separates the program's topics and groups from others in the same cluster: ``Orders`` is ``NS%Orders`` on the
    servers and ``Orders`` again in received messages. See docs/client/connecting.md.
    """

    namespace_v2: str
    """Namespace of RocketMQ 5 brokers, sent as a field of every request; names are not changed."""

    credentials: Credentials | None
    """Account at a cluster with access control; None for $GANTRYMQ_ACCESS_KEY and $GANTRYMQ_SECRET_KEY, if set."""

    vip_channel: bool
    """Whether sends, and most other requests to brokers, use the port two below the broker's."""

    world: World | None
    """None for the real one; tests pass a simulated one."""

    instance_name: str
    """Name in the client id, and in the file of offsets of broadcasting consumers. Clients with the same name share
    connections; by default the name is unique.
    """

    unit_name: str
    """Unit name, for a cluster divided into units."""

    client_ip: str | None
    """IP address in the client id; None for the local address of the connection to the name servers."""

    tls: bool | TlsClient | None
    """True for TLS with the ``tls.client.*`` settings of the environment and of ``tls.config.file``, or a `TlsClient`;
    None to follow ``tls.enable`` there. By default any server certificate is accepted, as in RocketMQ.
    """


Settings = TypeVar("Settings", bound=attrs.AttrsInstance)

CONNECT_OPTIONS: Final = tuple(ConnectOptions.__annotations__)


@attrs.frozen
class ConnectionConfig:
    """`ConnectOptions` with their defaults, and the name servers."""

    namesrv: str | None = None  # host:port;host:port, or an address server; None for $NAMESRV_ADDR, then 127.0.0.1:9876
    namespace: str = ""
    namespace_v2: str = ""
    credentials: Credentials | None = None
    vip_channel: bool = False
    world: World | None = None
    instance_name: str = DEFAULT_INSTANCE
    unit_name: str = ""
    client_ip: str | None = None
    tls: bool | TlsClient | None = None

    @classmethod
    def of(cls, owner: type, namesrv: str | None, **options: Unpack[ConnectOptions]) -> Self:
        """Return the configuration of a client of class *owner*.

        Raises:
            InvalidParameter: unknown option, or a value of another type.
        """
        for name in options:
            if name not in CONNECT_OPTIONS:
                raise _unknown_option(owner, name, CONNECT_OPTIONS)
        config = cls(namesrv, **options)
        _check_types(config)
        return config


def settings_of(owner: type, settings: type[Settings], options: Mapping[str, Any]) -> Settings:
    """Return the *settings* of an object of class *owner* with the given *options*.

    Raises:
        InvalidParameter: unknown option, or a value that is not legal.
    """
    known = [field.name for field in attrs.fields(settings)]
    for name in options:
        if name in ("namesrv", *CONNECT_OPTIONS):
            raise InvalidParameter(f"{name} is an option of the Client: Client(..., {name}=...)")
        if name not in known:
            raise _unknown_option(owner, name, known)
    return settings(**options)


def _check_types(config: Any) -> None:  # a program without type checks may give anything
    if config.namesrv is not None:
        check_text("namesrv", config.namesrv)
        if re.search(r"\b(?!http://)[a-z0-9+]+://", config.namesrv):
            raise InvalidParameter(
                f"namesrv is {shown(config.namesrv)}; expected host:port;host:port of name servers, or the http:// URL "
                "of an address server"
            )
    for name in ("namespace", "namespace_v2", "instance_name", "unit_name"):
        check_text(name, getattr(config, name))
    if not isinstance(config.vip_channel, bool):
        raise InvalidParameter(f"vip_channel is {shown(config.vip_channel)}; expected True or False")
    if config.client_ip is not None:
        check_text("client_ip", config.client_ip)
        try:
            ipaddress.ip_address(config.client_ip.partition("%")[0])
        except ValueError:
            raise InvalidParameter(f"client_ip is {config.client_ip!r}; expected an IP address") from None
    if config.credentials is not None:
        from gantrymq.client.calls.credentials import Credentials

        if not isinstance(config.credentials, Credentials):
            kind = type(config.credentials).__name__  # the value may hold a secret key
            raise InvalidParameter(f"credentials is a {kind}; expected Credentials or None")
    if config.tls is not None and not isinstance(config.tls, bool):
        from gantrymq.remoting.tls_contexts import TlsClient

        if not isinstance(config.tls, TlsClient):
            raise InvalidParameter(f"tls is {shown(config.tls)}; expected True, False, a TlsClient or None")
    if config.world is not None:
        from gantrymq.world import World

        if not isinstance(config.world, World):
            raise InvalidParameter(f"world is {shown(config.world)}; expected a World or None")


def _unknown_option(owner: type, name: str, known: Iterable[str]) -> InvalidParameter:
    """Return the error for an unknown option *name* of *owner*; *known* are options missing from its signature."""
    init: Any = owner.__init__  # type: ignore[misc]  # the class is inspected, not instantiated
    named = [each.name for each in inspect.signature(init).parameters.values() if each.kind is each.KEYWORD_ONLY]
    return InvalidParameter(f"a {owner.__name__} has no option {name}; it has {', '.join((*named, *known))}")
