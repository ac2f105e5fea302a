"""Entry point ``diagnosis``: the service that watches groups, requests about them, and its setting."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, HandlerRegistry, ServiceRegistry
from gantrymq.remoting.serving import handlers_of
from gantrymq_diagnosis.service import EXPLAIN_GROUP, SHOWN_FIGURES, DiagnosisService
from gantrymq_diagnosis.settings import SCHEMA

_of_this_load: list[DiagnosisService] = []  # hooks of one load are called in a row; handlers come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare what happens to members that disagree."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Explain groups, and pass questions on to their members."""
    _of_this_load[:] = [DiagnosisService()]
    registry.add(EXPLAIN_GROUP, _of_this_load[0].explain)
    registry.add(SHOWN_FIGURES, _of_this_load[0].shown)
    for code, handler in handlers_of(_of_this_load[0].members).items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Hear heartbeats for as long as the broker runs."""
    registry.add(_of_this_load[0])
