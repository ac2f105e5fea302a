"""From text to tree, with RocketMQ's rules of what an expression is.

Keywords are names, whatever the case of their letters. The condition ends before the first token that cannot go on, if
it is whole there: ``a > 1 garbage`` is ``a > 1``. A character with which no token can start is refused where reading
comes to it.

Source: apache/rocketmq filter/.../parser/SelectorParser.jj
"""

from __future__ import annotations

from importlib import resources

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from gantrymq_filter_sql92.building import Builder, Misplaced
from gantrymq_filter_sql92.refusal import ExpressionRefused
from gantrymq_filter_sql92.tree import Expression, depth

__all__ = ["MAX_CHARACTERS", "MAX_DEPTH", "parse"]

MAX_CHARACTERS = 16_384
MAX_DEPTH = 100  # nodes on the way down; parentheses by themselves are none

_KEYWORDS = {
    **{word: word for word in ("NOT", "TRUE", "FALSE", "NULL", "CONTAINS", "STARTSWITH", "ENDSWITH")},
    **{word: "_" + word for word in ("AND", "OR", "BETWEEN", "IN", "IS")},
}
_LONGEST_KEYWORD = max(map(len, _KEYWORDS))
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


def _word(token: Token) -> Token:
    """A name, or the keyword that it spells."""
    if len(token) <= _LONGEST_KEYWORD:
        token.type = _KEYWORDS.get(token.upper(), token.type)
    return token


_LALR = Lark(
    resources.files(__package__).joinpath("grammar.lark").read_text("utf-8"),
    parser="lalr",
    lexer="basic",
    transformer=Builder(),
    lexer_callbacks={"NAME": _word},
)


def parse(text: str) -> Expression:
    """The tree of an expression.

    Raises:
        SubscriptionParseFailed: RocketMQ does not take it either, or it is longer than `MAX_CHARACTERS` or nested
            deeper than `MAX_DEPTH`; as `ExpressionRefused`, with the place.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionRefused(
            text, MAX_CHARACTERS, f"{len(text):,} characters, and an expression has at most {MAX_CHARACTERS:,}"
        )
    try:
        tree = _read(text)
    except Misplaced as problem:
        raise ExpressionRefused(text, problem.at, problem.reason) from None
    if depth(tree) > MAX_DEPTH:
        raise ExpressionRefused(text, 0, f"conditions are nested {depth(tree)} deep, and at most {MAX_DEPTH} are taken")
    return tree


def _read(text: str) -> Expression:
    steps = _LALR.parse_interactive(text)
    try:
        for _ in steps.iter_parse():
            pass
    except UnexpectedCharacters as problem:
        at = problem.pos_in_stream
        raise Misplaced(at, f"no word, number or sign starts with {text[at]!a}, {_hint(text[at])}") from None
    except UnexpectedToken as problem:
        found, at = str(problem.token), problem.token.start_pos
    else:
        found, at = "", len(text)
    try:
        tree: Expression = steps.feed_eof()
    except UnexpectedToken:
        stands = f"{found[:40]!a} stands" if found else "it ends"
        raise Misplaced(at, f"{stands} where {_expected(steps.accepts())} can stand") from None
    return tree


def _expected(accepted: set[str]) -> str:
    said = dict.fromkeys(_AS_SAID.get(name, name.lstrip("_")) for name in sorted(accepted, key=_order))
    *most, last = said
    return f"{', '.join(most)} or {last}" if most else last


def _order(name: str) -> tuple[int, str]:
    return (list(_AS_SAID).index(name), name) if name in _AS_SAID else (len(_AS_SAID), name.lstrip("_"))


def _hint(character: str) -> str:
    if character == "'":
        return "and this quote is not closed"
    if character == '"':
        return "texts stand in single quotes"
    if character == "/":
        return "and no comment from /* to */ either"
    if character in "!=":
        return "not equal is <>"
    return "outside of texts in single quotes"
