"""Which arguments a handler may not have.

A handler of a batch asks for ``batch: GantryBatchMessage``, or for a list of bodies. ``list[GantryMessage]`` is
neither: FastStream would take it for a list of bodies, and fail for each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from faststream._internal.endpoint.call_wrapper import HandlerCallWrapper
from faststream.exceptions import SetupError

from gantrymq.client.user_functions import check_function
from gantrymq.errors import InvalidParameter
from gantrymq_faststream.message import GantryBatchMessage, GantryMessage

__all__ = ["refuse_generator", "refuse_lists_of_messages", "refuse_lists_of_messages_in"]


def refuse_generator(function: Callable[..., Any], group: str) -> None:
    """Refuse a handler of *group* that is a generator function: a call of it would run nothing.

    Raises:
        SetupError: it is one.
    """
    handler: Any = function._original_call if isinstance(function, HandlerCallWrapper) else function
    try:
        check_function(handler, f"the handler of {group}")
    except InvalidParameter as problem:
        raise SetupError(str(problem)) from None


def refuse_lists_of_messages_in(function: Callable[..., Any], group: str) -> None:
    """Refuse a handler of *group* with such an argument; annotations that cannot be evaluated yet are left alone.

    Raises:
        SetupError: as `refuse_lists_of_messages`.
    """
    handler: Any = function._original_call if isinstance(function, HandlerCallWrapper) else function
    try:
        hints = get_type_hints(handler, include_extras=True)
    except Exception:  # names that are only known where it is declared: FastStream evaluates them at the start
        return
    for name, hint in hints.items():
        if name != "return":
            refuse_lists_of_messages(hint, name, group)


def refuse_lists_of_messages(hint: Any, name: str, group: str) -> None:
    """Refuse the argument *name* with the type *hint* of a handler of *group*.

    Raises:
        SetupError: it is a collection of messages.
    """
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    origin = get_origin(hint)
    for inner in get_args(hint):
        if _is_message(inner) and isinstance(origin, type) and issubclass(origin, Collection):
            raise SetupError(
                f"argument {name} of a handler of {group} is a collection of messages; ask for the bodies, such as "
                f"{name}: list[Order], and for batch: GantryBatchMessage, whose raw_message is the list of messages "
                "and batch_headers that of their headers"
            )
        refuse_lists_of_messages(inner, name, group)


def _is_message(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return isinstance(hint, type) and issubclass(hint, GantryMessage | GantryBatchMessage)
