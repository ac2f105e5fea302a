"""Entry point ``request_reply``: the service of replies, its handlers and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import ConfigRegistry, ServiceRegistry
    from gantrymq.plugin.remoting import HandlerRegistry
    from gantrymq_request_reply.replies import ReplyService

_made: list[ReplyService] = []  # set by the handler hook for the service hook, which runs after it


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    from gantrymq_request_reply.replies import SETTINGS

    for setting in SETTINGS:
        registry.add(setting)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers of replies; each broker has its own object."""
    from gantrymq.plugin.remoting import handlers_of
    from gantrymq_request_reply.replies import ReplyService

    replies = ReplyService()
    _made[:] = [replies]
    for code, handler in handlers_of(replies).items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service."""
    for each in _made:
        registry.add(each)
