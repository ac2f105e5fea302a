"""Entry point ``access_plain``: the authorizer, its settings, and the requests that manage its files."""

from __future__ import annotations

from gantrymq.plugin import hookimpl
from gantrymq.plugin.interfaces import AuthorizerRegistry, ConfigRegistry, ServiceRegistry
from gantrymq.plugin.remoting import HandlerRegistry, handlers_of
from gantrymq_access_plain.authorizer import NAME, SETTINGS, PlainAuthorizer
from gantrymq_access_plain.requests import PlainRequests

_made: list[PlainRequests] = []  # set by the handler hook for the service hook, which runs after it


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in SETTINGS:
        registry.add(setting)


@hookimpl
def gantry_register_authorizers(registry: AuthorizerRegistry) -> None:
    """Register the authorizer."""
    registry.add(NAME, PlainAuthorizer)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers; each broker has its own object."""
    requests = PlainRequests()
    _made[:] = [requests]
    for code, handler in handlers_of(requests).items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service of the handlers."""
    for each in _made:
        registry.add(each)
