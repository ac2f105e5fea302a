"""Rejects arguments that a handler cannot have.

A batch handler takes ``batch: GantryBatchMessage`` or a list of bodies. ``list[GantryMessage]`` is neither: FastStream
would treat it as a list of bodies and fail for each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from faststream._internal.endpoint.call_wrapper import HandlerCallWrapper
from faststream.exceptions import SetupError

from gantrymq.errors import InvalidParameter
from gantrymq.plugin.client import check_function
from gantrymq_faststream.message import GantryBatchMessage, GantryMessage


def refuse_generator(function: Callable[..., Any], group: str) -> None:
    """Reject a handler of *group* that is a generator function, because calling it would run nothing.

    Raises:
        SetupError: it is a generator function.
    """
    handler: Any = function._original_call if isinstance(function, HandlerCallWrapper) else function
    try:
        check_function(handler, f"the handler of {group}")
    except InvalidParameter as problem:
        raise SetupError(str(problem)) from None


def refuse_lists_of_messages_in(function: Callable[..., Any], group: str) -> None:
    """Reject a handler of *group* with such an argument; annotations that cannot be evaluated yet are skipped.

    Raises:
        SetupError: as `refuse_lists_of_messages`.
    """
    handler: Any = function._original_call if isinstance(function, HandlerCallWrapper) else function
    try:
        hints = get_type_hints(handler, include_extras=True)
    except Exception:  # local names: FastStream evaluates them at the start
        return
    for name, hint in hints.items():
        if name != "return":
            refuse_lists_of_messages(hint, name, group)


def refuse_lists_of_messages(hint: Any, name: str, group: str) -> None:
    """Reject the argument *name* with the type *hint* of a handler of *group*.

    Raises:
        SetupError: it is a collection of messages.
    """
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    origin = get_origin(hint)
    for inner in get_args(hint):
        if _is_message(inner) and isinstance(origin, type) and issubclass(origin, Collection):
            raise SetupError(
                f"argument {name} of a handler of {group} is a collection of messages; use the bodies, such as "
                f"{name}: list[Order], and for batch: GantryBatchMessage, with the list of messages in raw_message "
                "and their headers in batch_headers"
            )
        refuse_lists_of_messages(inner, name, group)


def _is_message(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return isinstance(hint, type) and issubclass(hint, GantryMessage | GantryBatchMessage)
