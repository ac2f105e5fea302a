"""Entry point ``schedule``: what moves delayed messages aside, and the service that brings them back."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, HandlerRegistry, InterceptorRegistry, ServiceRegistry
from gantrymq.remoting.codes import RequestCode
from gantrymq_schedule.pending import PENDING, PendingRequests
from gantrymq_schedule.service import Schedule
from gantrymq_schedule.settings import SCHEMA
from gantrymq_schedule.timer.recall import Recall
from gantrymq_schedule.timer.requests import TimerRequests
from gantrymq_schedule.timer.settings import SCHEMA as TIMER_SCHEMA

_of_this_load: list[Schedule] = []  # hooks of one load are called in a row; interceptors come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in (*SCHEMA, *TIMER_SCHEMA):
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


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Serve what is asked about delayed messages."""
    timers = _of_this_load[0].timers
    requests = TimerRequests(timers)
    schedule = _of_this_load[0]
    registry.add(PENDING, PendingRequests(schedule.pending).serve)
    registry.add(RequestCode.GET_ALL_DELAY_OFFSET, schedule.delay_offsets)
    registry.add(RequestCode.RECALL_MESSAGE, Recall(timers).serve)
    registry.add(RequestCode.GET_TIMER_CHECK_POINT, requests.checkpoint)
    registry.add(RequestCode.GET_TIMER_METRICS, requests.metrics)
