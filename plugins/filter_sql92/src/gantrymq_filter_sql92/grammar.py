"""Parses tokens by the grammar and returns a tree, or the tokens expected where parsing stopped.

This module imports lark and builds the parse tables, some 0.1 s of work; `parser.py` imports it when the first
expression is parsed.
"""

from __future__ import annotations

from importlib import resources

from lark import Lark
from lark.exceptions import UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from gantrymq_filter_sql92.building import Builder
from gantrymq_filter_sql92.nodes import Expression
from gantrymq_filter_sql92.refusal import Misplaced
from gantrymq_filter_sql92.tokens import Tokens

__all__ = ["tree_and_end"]

_DISPLAY_NAMES = {
    "NAME": "a property",
    "TEXT": "a text in single quotes",
    "INTEGER": "a number",
    "DOUBLE": "a number",
    "EQUALITY": "= or <>",
    "ORDER": "a comparison (> >= < <=)",
    "_OPEN": "(",
    "_CLOSE": ")",
    "_COMMA": "a comma",
    "_PLUS": "a sign",
    "MINUS": "a sign",
    "$END": "the end",
}

_LALR = Lark(
    resources.files(__package__).joinpath("grammar.lark").read_text("utf-8"),
    parser="lalr",
    lexer="basic",
    transformer=Builder(),
)
_TOKENS = Tokens(_LALR)


def tree_and_end(text: str, most_tokens: int) -> tuple[Expression, int]:
    """Return the tree of the condition at the start of *text*, and the character from 0 at which parsing stopped.

    Raises:
        Misplaced: no condition, or more than *most_tokens* words, literals and signs.
    """
    steps = _LALR.parse_interactive()
    at, found = len(text), ""
    for count, token in enumerate(_TOKENS.of(text)):
        if count == most_tokens:
            raise Misplaced(token.start_pos or 0, f"more than {most_tokens:,} words, literals and signs")
        try:
            steps.feed_token(token)
        except UnexpectedToken:
            at, found = token.start_pos or 0, str(token)
            break
    try:
        tree: Expression = steps.feed_eof()  # type: ignore[no-untyped-call]
    except UnexpectedToken:
        place = f"{found[:40]!a}" if found else "the end"
        raise Misplaced(at, f"found {place}, expected {_expected(steps)}") from None
    return tree, at


def _expected(steps: InteractiveParser) -> str:
    accepted: set[str] = steps.accepts()  # type: ignore[no-untyped-call]
    names = dict.fromkeys(_DISPLAY_NAMES.get(name, name.lstrip("_")) for name in sorted(accepted, key=_order))
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _order(name: str) -> tuple[int, str]:
    return (
        (list(_DISPLAY_NAMES).index(name), name) if name in _DISPLAY_NAMES else (len(_DISPLAY_NAMES), name.lstrip("_"))
    )
