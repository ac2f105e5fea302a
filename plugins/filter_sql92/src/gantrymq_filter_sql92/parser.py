"""From text to tree, with RocketMQ's rules of what an expression is.

Keywords are names, whatever the case of their letters. The condition ends before the first token that cannot go on, if
it is whole there: ``a > 1 garbage`` is ``a > 1``. A character with which no token can start is refused where reading
comes to it.

Source: apache/rocketmq filter/.../parser/SelectorParser.jj
"""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

from lark import Lark
from lark.exceptions import UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from gantrymq_filter_sql92.building import Builder
from gantrymq_filter_sql92.refusal import ExpressionRefused, Misplaced
from gantrymq_filter_sql92.tokens import Tokens
from gantrymq_filter_sql92.tree import Expression, depth

__all__ = ["MAX_CHARACTERS", "MAX_DEPTH", "MAX_TOKENS", "Reading", "parse", "read"]

MAX_CHARACTERS = 16_384
MAX_TOKENS = 2_000
MAX_DEPTH = 100  # nodes on the way down; parentheses by themselves are none

_AS_SAID = {
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


class Reading(NamedTuple):
    """What reading an expression found."""

    tree: Expression
    end: int  # characters from 0, behind the condition and what may stand there; what follows is not looked at


def parse(text: str) -> Expression:
    """The tree of an expression.

    Raises:
        SubscriptionParseFailed: as `read`.
    """
    return read(text).tree


def read(text: str) -> Reading:
    """The tree of an expression, and where it ends.

    Raises:
        SubscriptionParseFailed: RocketMQ does not take it either, or it is longer than `MAX_CHARACTERS` or nested
            deeper than `MAX_DEPTH`; as `ExpressionRefused`, with the place.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionRefused(
            text, MAX_CHARACTERS, f"{len(text):,} characters, and an expression has at most {MAX_CHARACTERS:,}"
        )
    try:
        reading = _read(text)
    except Misplaced as problem:
        raise ExpressionRefused(text, problem.at, problem.reason) from None
    levels = depth(reading.tree)
    if levels > MAX_DEPTH:
        raise ExpressionRefused(text, 0, f"an expression of {levels} levels, and at most {MAX_DEPTH} are taken")
    return reading


def _read(text: str) -> Reading:
    steps = _LALR.parse_interactive()
    at, found = len(text), ""
    for count, token in enumerate(_TOKENS.of(text)):
        if count == MAX_TOKENS:
            raise Misplaced(token.start_pos or 0, f"more than {MAX_TOKENS:,} words, literals and signs")
        try:
            steps.feed_token(token)
        except UnexpectedToken:
            at, found = token.start_pos or 0, str(token)
            break
    try:
        tree: Expression = steps.feed_eof()  # type: ignore[no-untyped-call]
    except UnexpectedToken:
        stands = f"{found[:40]!a} stands" if found else "it ends"
        raise Misplaced(at, f"{stands} where {_expected(steps)} can stand") from None
    return Reading(tree, at)


def _expected(steps: InteractiveParser) -> str:
    accepted: set[str] = steps.accepts()  # type: ignore[no-untyped-call]
    said = dict.fromkeys(_AS_SAID.get(name, name.lstrip("_")) for name in sorted(accepted, key=_order))
    *most, last = said
    return f"{', '.join(most)} or {last}" if most else last


def _order(name: str) -> tuple[int, str]:
    return (list(_AS_SAID).index(name), name) if name in _AS_SAID else (len(_AS_SAID), name.lstrip("_"))
