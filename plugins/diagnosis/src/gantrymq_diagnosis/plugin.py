"""Entry point ``diagnosis``: the service that watches groups, its requests, and its setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import ConfigRegistry, ServiceRegistry
    from gantrymq.plugin.remoting import HandlerRegistry
    from gantrymq_diagnosis.service import DiagnosisService

_of_this_load: list[DiagnosisService] = []  # pluggy calls the hooks of one load in a row; handlers come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the setting for conflicting members."""
    from gantrymq_diagnosis.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers of requests that operators' tools send."""
    from gantrymq_diagnosis.service import DiagnosisService

    _of_this_load[:] = [DiagnosisService()]
    for code, handler in _of_this_load[0].handlers.items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service that observes heartbeats."""
    registry.add(_of_this_load[0])
