"""Registration of request handlers: methods decorated with request codes and with what the sender must be allowed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import attrs

from gantrymq.model.access import Action, Requirement, requirements
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection

_SERVED: Final = "served_requests"
_TOGETHER: Final = "served_together"

Method = TypeVar("Method", bound=Callable[..., Any])

Handler = Callable[[Command, Connection], Command | Awaitable[Command | None] | None]
"""Handler of one request code. It returns the response, an awaitable of it, or None (directly or awaited) if the
response is sent through ``connection.reply``, or never for one-way requests. If it raises a GantryError, the response
has its code and text."""

HandlerOfMany = Callable[[Sequence[Command], int, Connection], int]
"""Serves several requests of one read, from an index on, and returns their number; 0 leaves that request to the handler
of its code. All of them are answered through ``connection``, now or later."""

AccessRule = Callable[[Command], Sequence[Requirement]]
"""Returns what the sender of a request must be allowed. An exception becomes the response, like one of the handler."""


@attrs.frozen
class _Served:
    codes: Sequence[int]
    rule: AccessRule | None


class HandlerRegistry(Protocol):
    """Handlers by request code."""

    def add(self, code: int, handler: Handler) -> None:
        """Serve *code*. Raises PluginConflict if another plugin already serves it."""


class ServerAccess(Protocol):
    """Access control of a server that is no broker."""

    async def start(self) -> None:
        """Begin, before the first request is served. Raises GantryError if the server must not start."""

    async def stop(self) -> None:
        """End, after the last request was served."""

    def admitted(self, asked: Command, connection: Connection, rule: AccessRule) -> bool:
        """Check that the sender of a request may do what *rule* returns.

        False if the sender is not identified yet: pass this request and the later ones to ``connection.hold``, which
        passes them to the handler again.

        Raises:
            GantryError: the request is refused.
        """


def in_operation(asked: Command) -> Sequence[Requirement]:
    """Require nothing here: the operation checks the principal, or every authenticated client may send the request."""
    return ()


def serves(
    *codes: int,
    action: Action | Sequence[Action] | None = None,
    topic: str = "",
    group: str = "",
    access: AccessRule | None = None,
) -> Callable[[Method], Method]:
    """Mark a method as the handler of requests with one of *codes*, for `handlers_of`.

    Args:
        action: what the sender must be allowed to do with the topic and the group, or with the cluster if the request
            names neither; of several actions, one is enough.
        topic, group: header fields with their names.
        access: returns the requirements instead, for requests that name resources in their body; `in_operation` if the
            operation checks them.
    """
    rule = access if action is None else _header_rule(action, topic, group)

    def mark(method: Method) -> Method:
        setattr(method, _SERVED, _Served(codes, rule))
        return method

    return mark


def _header_rule(action: Action | Sequence[Action], topic: str, group: str) -> AccessRule:
    def rule(asked: Command) -> Sequence[Requirement]:
        ext = asked.ext or {}
        return requirements(action, topics=(ext.get(topic, ""),), groups=(ext.get(group, ""),))

    return rule


def handlers_of(family: object) -> dict[int, Any]:
    """Return the bound methods of *family*, or the functions of a class, marked by `serves`, by request code.

    Raises:
        ValueError: two methods serve the same code.
    """
    found: dict[int, Any] = {}
    kind = family if isinstance(family, type) else type(family)
    for name in dir(kind):
        served = getattr(getattr(kind, name), _SERVED, None)
        for code in () if served is None else served.codes:
            if code in found:
                raise ValueError(f"{kind.__name__} serves request code {code} twice, once in {name}")
            found[code] = getattr(family, name)
    return found


def copy_statement(handler: Handler, wrapper: Handler) -> Handler:
    """Let *wrapper* state what *handler* states, and return it."""
    setattr(wrapper, _SERVED, getattr(handler, _SERVED, None))
    return wrapper


def serve_together(handler: Handler, many: HandlerOfMany) -> Handler:
    """Let a broker without access control try *many* before *handler*, and return *handler*."""
    setattr(handler, _TOGETHER, many)
    return handler


def handler_of_many(handler: Handler) -> HandlerOfMany | None:
    """Return what `serve_together` added to a handler."""
    found: HandlerOfMany | None = getattr(handler, _TOGETHER, None)
    return found


def lazy_handlers(codes: Iterable[int], load: Callable[[], Mapping[int, Handler]]) -> dict[int, Handler]:
    """Return handlers of *codes* whose modules are imported when the first of these requests arrives.

    Args:
        codes: of the requests.
        load: imports the modules and returns the handlers by code, see `handlers_of`. It is called once. Each handler
            must state what the sender must be allowed.
    """
    loaded: dict[int, Handler] = {}

    def handler_of(code: int) -> Handler:
        if not loaded:
            loaded.update(load())
        return loaded[code]

    return {code: _lazy_handler(code, handler_of) for code in codes}


def _lazy_handler(code: int, handler_of: Callable[[int], Handler]) -> Handler:
    def serve(asked: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
        return handler_of(code)(asked, connection)

    def rule(asked: Command) -> Sequence[Requirement]:
        stated = access_rule(handler_of(code))
        assert stated is not None, f"the handler of request code {code} states no access rule"
        return stated(asked)

    setattr(serve, _SERVED, _Served((code,), rule))
    return serve


def access_rule(handler: Handler) -> AccessRule | None:
    """Return what `serves` says about a handler; None without a statement."""
    served = getattr(handler, _SERVED, None)
    return None if served is None else served.rule
