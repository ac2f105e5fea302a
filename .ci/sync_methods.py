"""Signatures and docstrings of the client's methods for threads, for the documentation; mkdocstrings loads this file.

``send = from_async(AsyncProducer.send)`` is an assignment to Griffe, which reads sources. This extension replaces it by
the method that it is made from.
"""

from __future__ import annotations

from typing import Any

from griffe import Class, Expr, ExprCall, Extension, Function, Module

MODULES = ("gantrymq.client.sync.parts", "gantrymq.client.sync.twins", "gantrymq.client.sync.client")
MADE_BY = ("from_async", "from_sync", "from_iterator", "from_factory")


class SyncMethods(Extension):
    """Replaces assignments of methods by the methods."""

    def on_package(self, *, pkg: Module, **kwargs: Any) -> None:
        """Called when the package has been read."""
        if pkg.path != "gantrymq":
            return
        for module in MODULES:
            for each in pkg.modules_collection[module].classes.values():
                replace_methods(pkg, each)


def replace_methods(pkg: Module, cls: Class) -> None:
    """Replace the assigned methods of *cls*."""
    for name, member in list(cls.attributes.items()):
        value = member.value
        if isinstance(value, ExprCall) and str(value.function) in MADE_BY:
            source = pkg.modules_collection[value.arguments[0].canonical_path]
            made = Function(
                name,
                parameters=source.parameters,
                returns=returned(value, source),
                docstring=source.docstring,
                lineno=member.lineno,
                endlineno=member.endlineno,
            )
            cls.set_member(name, made)


def returned(made: ExprCall, source: Function) -> str | Expr | None:
    """Return the annotation of what a method returns that *made* makes from *source*."""
    if str(made.function) == "from_factory":
        kind = made.arguments[1]
        assert isinstance(kind, Expr)
        return kind
    return "MessageStream[ReceivedMessage]" if str(made.function) == "from_iterator" else source.returns
