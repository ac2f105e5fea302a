"""Values of named defaults in signatures and fields, for the documentation; mkdocstrings loads this file.

``timeout_s: float = _POLL_TIMEOUT_S`` and ``timeout_s: float = attrs.field(default=_POLL_TIMEOUT_S)`` become
``timeout_s: float = 5.0``, as in Python's ``help()``. Griffe reads sources, and shows the names.
"""

from __future__ import annotations

import ast
from typing import Any

from griffe import (
    Attribute,
    Class,
    Expr,
    ExprCall,
    ExprKeyword,
    ExprName,
    Extension,
    Function,
    Module,
    ModulesCollection,
)

PARTS = (ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)


class DefaultValues(Extension):
    """Replaces the names of constants in defaults by their values."""

    def on_package(self, *, pkg: Module, **kwargs: Any) -> None:
        """Called when the package has been read."""
        replace_names(pkg, pkg.modules_collection)


def replace_names(owner: Module | Class, read: ModulesCollection) -> None:
    """Replace the names in *owner* and everything in it; *read* has the modules with the constants."""
    for member in owner.members.values():
        if isinstance(member, Module | Class):
            replace_names(member, read)
        elif isinstance(member, Function):
            for parameter in member.parameters:
                parameter.default = value_of(parameter.default, read)
        elif isinstance(member, Attribute) and isinstance(owner, Class):
            member.value = value_of(default_of_field(member.value), read)


def default_of_field(value: str | Expr | None) -> str | Expr | None:
    """Return the default in a call of ``attrs.field``, *value* if it is another expression or has no such default."""
    if isinstance(value, ExprCall) and str(value.function) == "attrs.field":
        for each in value.arguments:
            if isinstance(each, ExprKeyword) and each.name == "default":
                return each.value
    return value


def value_of(default: str | Expr | None, read: ModulesCollection) -> str | Expr | None:
    """Return the value of the constant that *default* names, *default* if it is something else."""
    found = default
    while isinstance(found, ExprName):
        try:
            named = read[found.canonical_path]
        except KeyError:  # a builtin, or a name of another distribution
            return default
        if not isinstance(named, Attribute):
            return default
        found = named.value
    return found if is_constant(str(found)) else default


def is_constant(text: str) -> bool:
    """Return whether the expression *text* consists of literals and operators."""
    return all(isinstance(each, PARTS) for each in ast.walk(ast.parse(text, mode="eval")))
