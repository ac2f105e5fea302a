"""Entry point ``pop``: the service, its requests and its settings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import ConfigRegistry, ServiceRegistry
    from gantrymq.plugin.remoting import HandlerRegistry
    from gantrymq_pop.service import PopService

_of_this_load: list[PopService] = []  # the handler hook runs before the service hook, and both use the same object


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare pop's settings."""
    from gantrymq_pop.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service."""
    registry.add(_of_this_load[0])


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers of pops and queue assignments."""
    from gantrymq.plugin.remoting import RequestCode, copy_statement, serve_together
    from gantrymq_pop.service import REQUESTS, PopService

    service = PopService()
    _of_this_load[:] = [service]
    for code, served in REQUESTS.items():
        handler = copy_statement(served, partial(service.serve))
        if code == RequestCode.ACK_MESSAGE:
            serve_together(handler, service.acknowledge_together)
        registry.add(code, handler)
