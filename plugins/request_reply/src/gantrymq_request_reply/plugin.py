"""Entry point ``request_reply``: the service of replies, its handlers and settings."""

from __future__ import annotations

from gantrymq.plugin import hookimpl
from gantrymq.plugin.interfaces import ConfigRegistry, ServiceRegistry
from gantrymq.plugin.remoting import HandlerRegistry, handlers_of
from gantrymq_request_reply.replies import SETTINGS, ReplyService

_made: list[ReplyService] = []  # set by the handler hook for the service hook, which runs after it


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in SETTINGS:
        registry.add(setting)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers of replies; each broker has its own object."""
    replies = ReplyService()
    _made[:] = [replies]
    for code, handler in handlers_of(replies).items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service."""
    for each in _made:
        registry.add(each)
