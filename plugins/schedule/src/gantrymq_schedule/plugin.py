"""Entry point ``schedule``: what moves delayed messages aside, and the service that brings them back."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, InterceptorRegistry, ServiceRegistry
from gantrymq_schedule.service import Schedule
from gantrymq_schedule.settings import SCHEMA

_of_this_load: list[Schedule] = []  # hooks of one load are called in a row; interceptors come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_interceptors(registry: InterceptorRegistry) -> None:
    """Move messages that ask for a delay."""
    _of_this_load[:] = [Schedule()]
    registry.add(_of_this_load[0].interceptor)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Deliver them when they are due."""
    registry.add(_of_this_load[0])
