"""Entry point ``grpc``: the protocol of listeners, its settings, and the service that watches the broker's role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import ConfigRegistry, ListenerProtocol, ProtocolRegistry, ServiceRegistry
    from gantrymq_grpc.mastership import Mastership

_HTTP2: Final = b"PRI * HTTP/2.0"  # begins the preface of a client

_of_this_load: list[Mastership] = []  # the protocol hook runs before the service hook, and both use the same object


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings of the protocol."""
    from gantrymq_grpc.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_protocols(registry: ProtocolRegistry) -> None:
    """Register the protocol; what it needs is imported when a broker has a listener for it."""
    from gantrymq_grpc.mastership import Mastership

    mastership = Mastership()
    _of_this_load[:] = [mastership]

    def protocol() -> ListenerProtocol:
        from gantrymq_grpc.protocol import GrpcProtocol

        return GrpcProtocol(mastership)

    registry.add("grpc", protocol, first=(_HTTP2,), alpn=("h2",))


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Watch the broker's role."""
    registry.add(_of_this_load[0])
