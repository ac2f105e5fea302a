"""Entry point ``schedule``: the interceptor that stores delayed messages aside, and the service that delivers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import ConfigRegistry, InterceptorRegistry, ServiceRegistry
    from gantrymq.plugin.remoting import HandlerRegistry
    from gantrymq_schedule.progress import ProgressService

# Shared by the hooks of one plugin load, which run in sequence; the interceptor hook runs before the service hook.
_of_this_load: list[ProgressService] = []


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    from gantrymq_schedule.settings import LEVEL_SCHEMA, TIMER_SCHEMA

    for setting in (*LEVEL_SCHEMA, *TIMER_SCHEMA):
        registry.add(setting)


@hookimpl
def gantry_register_interceptors(registry: InterceptorRegistry) -> None:
    """Register the interceptor of delayed messages."""
    from gantrymq_schedule.progress import ProgressService
    from gantrymq_schedule.service import Schedule

    _of_this_load[:] = [ProgressService(Schedule())]
    registry.add(_of_this_load[0].schedule.interceptor)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service that delivers delayed messages, and the one that tells its progress."""
    registry.add(_of_this_load[0].schedule)
    registry.add(_of_this_load[0])


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers of requests about delayed messages."""
    from gantrymq.plugin.remoting import handlers_of
    from gantrymq_schedule.pending import PendingRequests

    progress, schedule = _of_this_load[0], _of_this_load[0].schedule
    for family in (progress, schedule.recalls, PendingRequests(schedule.pending)):
        for code, handler in handlers_of(family).items():
            registry.add(code, handler)
