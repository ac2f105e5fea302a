"""Entry point ``lite``: the interceptor of messages for lite topics, the service, its requests and its settings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import ConfigRegistry, InterceptorRegistry, ServiceRegistry
    from gantrymq.plugin.remoting import HandlerRegistry
    from gantrymq_lite.service import LiteService

_of_this_load: list[LiteService] = []  # the hooks run in sequence, that of interceptors first, and use the same object


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    from gantrymq_lite.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_interceptors(registry: InterceptorRegistry) -> None:
    """Register the interceptor of messages for lite topics."""
    from gantrymq_lite.service import LiteService

    _of_this_load[:] = [LiteService()]
    registry.add(_of_this_load[0].interceptor)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service."""
    registry.add(_of_this_load[0])


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers of requests about lite topics."""
    from gantrymq.plugin.remoting import copy_statement
    from gantrymq_lite.service import REQUESTS

    service = _of_this_load[0]
    for code, served in REQUESTS.items():
        registry.add(code, copy_statement(served, partial(service.serve)))
