"""Entry point ``request_reply``: who serves replies, and what may be set of it."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, HandlerRegistry, ServiceRegistry
from gantrymq.remoting.serving import handlers_of
from gantrymq_request_reply.replies import SETTINGS, ReplyService

_made: list[ReplyService] = []  # by the hook of handlers, for the hook of services, which is called behind it


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare whether replies are kept."""
    for setting in SETTINGS:
        registry.add(setting)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Serve replies, of each broker by itself."""
    replies = ReplyService()
    _made[:] = [replies]
    for code, handler in handlers_of(replies).items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Be told which broker this is."""
    for each in _made:
        registry.add(each)
