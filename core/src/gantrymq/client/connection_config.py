"""How a client connects: the options that every kind of client takes, stated once.

class Producer(BaseClient):
    def __init__(self, group: str, namesrv: str | None = None, *, retries: int = 2,
                 **connect: Unpack[ConnectOptions]) -> None:
        super().__init__(namesrv, **connect)
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, Unpack, cast

import attrs

from gantrymq.client.identity import DEFAULT_INSTANCE
from gantrymq.errors import InvalidParameter

if TYPE_CHECKING:
    from gantrymq.client.credentials import Credentials
    from gantrymq.remoting.tls_contexts import TlsClient
    from gantrymq.world import World

__all__ = ["CONNECT_OPTIONS", "ConnectOptions", "ConnectionConfig", "split_options", "unknown_option"]


class ConnectOptions(TypedDict, total=False):
    """Options of `Client` and of whatever it makes, made by itself; each may be left out.

    What a `Client` makes has those of the client.
    """

    namespace: str
    """Keeps the program's topics and groups apart from others' in one cluster: ``Orders`` is ``NS%Orders`` there, and
    comes back as ``Orders``. See docs/client-connecting.md."""

    namespace_v2: str
    """Namespace of RocketMQ 5 brokers that are asked for it in every request; names stay as they are."""

    credentials: Credentials | None
    """Account at a cluster with access control; None for the one that $GANTRYMQ_ACCESS_KEY and $GANTRYMQ_SECRET_KEY
    say, if they are set."""

    vip_channel: bool
    """Whether sends, and most of what else brokers are asked, go to the port two below the broker's."""

    world: World | None
    """None for the real one; tests give a simulated one."""

    instance_name: str
    """Name in the client's id, and of the file of offsets of broadcasting consumers; clients that share a name share
    connections. By default none do."""

    unit_name: str
    """Unit of a cluster divided into units."""

    client_ip: str | None
    """IP address to be known by; None for the address that leads to the name servers."""

    tls: bool | TlsClient | None
    """True for TLS with the settings ``tls.client.*`` of environment and ``tls.config.file``, or a `TlsClient`; None
    for what ``tls.enable`` says there. By default any certificate of a server is believed, as in RocketMQ."""


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
        """Those of a client of the class *owner*. Raises InvalidParameter: there is no option of a name given."""
        for name in options:
            if name not in CONNECT_OPTIONS:
                raise unknown_option(owner, name)
        return cls(namesrv, **options)


def split_options(
    owner: type, options: Mapping[str, Any], settings: Collection[str]
) -> tuple[dict[str, Any], ConnectOptions]:
    """Options given to a class *owner*: those named in *settings*, and those that say how to connect.

    Raises:
        InvalidParameter: there is no option of a name given.
    """
    given = dict(options)
    connect = {name: given.pop(name) for name in CONNECT_OPTIONS if name in given}
    for name in given:
        if name not in settings:
            raise unknown_option(owner, name, *settings)
    return given, cast("ConnectOptions", connect)


def unknown_option(owner: type, name: str, *more: str) -> InvalidParameter:
    """The sentence for an option *name* that class *owner* has not; *more* are options that its signature lacks."""
    init: Any = owner.__init__  # type: ignore[misc]  # of a class that is looked at, not made
    named = [each.name for each in inspect.signature(init).parameters.values() if each.kind is each.KEYWORD_ONLY]
    known = dict.fromkeys((*named, *more, *CONNECT_OPTIONS))
    return InvalidParameter(f"a {owner.__name__} has no option {name}; it has {', '.join(known)}")
