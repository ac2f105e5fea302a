"""Entry point ``schedule``: the interceptor that stores delayed messages aside, and the service that delivers them."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, InterceptorRegistry, ServiceRegistry
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.serving import HandlerRegistry
from gantrymq_schedule.pending import PENDING, PendingRequests
from gantrymq_schedule.service import Schedule
from gantrymq_schedule.settings import SCHEMA
from gantrymq_schedule.timer.requests import TimerRequests
from gantrymq_schedule.timer.settings import SCHEMA as TIMER_SCHEMA

# Shared by the hooks of one plugin load, which run in sequence; the interceptor hook runs before the service hook.
_of_this_load: list[Schedule] = []


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in (*SCHEMA, *TIMER_SCHEMA):
        registry.add(setting)


@hookimpl
def gantry_register_interceptors(registry: InterceptorRegistry) -> None:
    """Register the interceptor of delayed messages."""
    _of_this_load[:] = [Schedule()]
    registry.add(_of_this_load[0].interceptor)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service that delivers delayed messages."""
    registry.add(_of_this_load[0])


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers of requests about delayed messages."""
    timers = _of_this_load[0].timers
    requests = TimerRequests(timers)
    schedule = _of_this_load[0]
    registry.add(PENDING, PendingRequests(schedule.pending).serve)
    registry.add(RequestCode.GET_ALL_DELAY_OFFSET, schedule.delay_offsets)
    registry.add(RequestCode.RECALL_MESSAGE, schedule.recalls.serve)
    registry.add(RequestCode.GET_TIMER_CHECK_POINT, requests.checkpoint)
    registry.add(RequestCode.GET_TIMER_METRICS, requests.metrics)
