"""Faster templates: calls and escapes of the code into which Jinja compiles them.

Jinja's own code looks before each call whether the function wants the context, which none of the console's does, and
makes a new string of each value that is HTML already. Both together are a third of the time of a list.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from markupsafe import Markup, escape


def escaped(value: Any) -> str:
    """Return *value* for HTML, the same as `markupsafe.escape`."""
    return value if type(value) is Markup else escape(value)


class DirectCalls(CodeGenerator):
    """Generates direct calls; functions with `jinja2.pass_context` and the like cannot be called.

    The environment needs `escaped` as an attribute.
    """

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:  # noqa: N802
        """Write the call of a function or macro."""
        if any(iskeyword(each.key) for each in node.kwargs):
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        self.visit(node.node, frame)
        self.write("(")
        for each in node.args:
            self.visit(each, frame)
            self.write(", ")
        if node.dyn_args is not None:
            self.write("*")
            self.visit(node.dyn_args, frame)
            self.write(", ")
        for keyword in node.kwargs:
            self.write(f"{keyword.key}=")
            self.visit(keyword.value, frame)
            self.write(", ")
        if forward_caller:
            self.write("caller=caller, ")
        if node.dyn_kwargs is not None:
            self.write("**")
            self.visit(node.dyn_kwargs, frame)
        self.write(")")

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        if frame.eval_ctx.volatile or not frame.eval_ctx.autoescape or finalize.src is not None:
            super()._output_child_pre(node, frame, finalize)
        else:
            self.write("environment.escaped(")
