"""Entry point ``pop``: the service, its requests and its settings."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, HandlerRegistry, ServiceRegistry
from gantrymq_pop.service import CODES, PopService
from gantrymq_pop.settings import SCHEMA

_of_this_load = [PopService()]  # handlers are asked for before services are, and both are one object


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare pop's settings."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Run while the broker runs."""
    registry.add(_of_this_load[0])


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Serve pops, and assignments, which may say POP."""
    service = _of_this_load[0] = PopService()
    for code in CODES:
        registry.add(code, service.serve)
