"""Parses tokens by the grammar and returns a tree, or the tokens expected where parsing stopped.

This module imports lark and builds the parse tables, some 0.1 s of work; `expression.py` imports it when the first
expression is parsed.

Texts are split into tokens by the terminals of the grammar, in linear time. At each position the first matching
terminal is taken, in order of priority; the grammar's priorities make that the longest match, as in RocketMQ. Tokens
are produced one at a time, as the parser requests them: the unparsed rest need not consist of tokens.

The tree is constructed with the checks that RocketMQ makes during construction.

Source: apache/rocketmq filter/.../parser/SelectorParser.jj, .../expression/{Comparison,Constant,Unary}Expression.java
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import NoReturn

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from gantrymq_filter_sql92 import nodes
from gantrymq_filter_sql92.nodes import Expression, Misplaced

_LARGEST = 2**63 - 1
_VALUES = (nodes.Property, nodes.Text, nodes.Integer, nodes.Double, nodes.Negative)
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


_KEYWORDS = {
    **{word: word for word in ("NOT", "TRUE", "FALSE", "NULL", "CONTAINS", "STARTSWITH", "ENDSWITH")},
    **{word: "_" + word for word in ("AND", "OR", "BETWEEN", "IN", "IS")},
}
_LONGEST_KEYWORD = max(map(len, _KEYWORDS))


class Tokens:
    """Splits texts by the terminals of one grammar."""

    def __init__(self, grammar: Lark) -> None:
        patterns = {each.name: each.pattern.to_regexp() for each in grammar.terminals if each.pattern}
        by_priority = sorted(grammar.terminals, key=lambda each: -each.priority)
        self._ignored = frozenset(grammar.ignore_tokens)
        self._line_comment = re.compile(patterns.pop("LINE_COMMENT"))
        self._any = re.compile(
            "|".join(f"(?P<{each.name}>{patterns[each.name]})" for each in by_priority if each.name in patterns)
        )

    def of(self, text: str) -> Iterator[Token]:
        """Yield the tokens of *text*, without blanks and comments.

        Raises:
            Misplaced: a character that starts no token was reached.
        """
        match_at, ignored = self._any.match, self._ignored
        last_line_end = max(text.rfind("\n"), text.rfind("\r"))
        at, end = 0, len(text)
        while at < end:
            if text.startswith("--", at) and at < last_line_end:
                found = self._line_comment.match(text, at)
                kind = "LINE_COMMENT"
            else:
                found = match_at(text, at)
                kind = found.lastgroup or "" if found else ""
            if found is None:
                _refuse(text, at)
            if kind == "NAME" and found.end() - at <= _LONGEST_KEYWORD:
                kind = _KEYWORDS.get(found[0].upper(), kind)
            if kind not in ignored:
                yield Token(kind, found[0], at)
            at = found.end()


def _refuse(text: str, at: int) -> NoReturn:
    found = text[at]
    if found == "'":
        raise Misplaced(at, "the text that starts here is not closed by a single quote")
    if text.startswith("/*", at):
        raise Misplaced(at, "the comment that starts here is not closed by */")
    hint = {'"': "; write texts in single quotes", "!": "; write <> for not equal"}.get(found, "")
    raise Misplaced(at, f"{found!a} is only allowed in texts and comments{hint}")


@v_args(inline=True)
class Builder(Transformer[Token, Expression]):
    """One method per grammar rule; each checks only its own operands."""

    def start(self, tree: Expression) -> Expression:
        return _condition(tree)

    def any_of(self, *operands: Expression) -> Expression:
        return nodes.Or(tuple(map(_condition, operands)), at=operands[0].at)

    def all_of(self, *operands: Expression) -> Expression:
        return nodes.And(tuple(map(_condition, operands)), at=operands[0].at)

    def equal_or_not(self, left: Expression, operator: Token, right: Expression) -> Expression:
        for operand in (left, right):
            if isinstance(operand, nodes.Boolean) and operand.value is None:
                raise Misplaced(operand.at, f"{operator} cannot compare with NULL; write IS NULL or IS NOT NULL")
        if isinstance(left, nodes.Boolean) and isinstance(right, nodes.Text | nodes.Number):
            raise Misplaced(
                left.at, f"TRUE or FALSE on the left of {operator} cannot be compared with a number or a text"
            )
        return nodes.Comparison(left, str(operator), right, at=left.at)

    def is_null(self, operand: Expression, _null: Token) -> Expression:
        return nodes.IsNull(operand, False, at=operand.at)

    def is_not_null(self, operand: Expression, _not: Token, _null: Token) -> Expression:
        return nodes.IsNull(operand, True, at=operand.at)

    def order(self, left: Expression, operator: Token, right: Expression) -> Expression:
        _check_ordered(operator, left, right)
        return nodes.Comparison(left, str(operator), right, at=left.at)

    def between(self, value: Expression, low: Expression, high: Expression) -> Expression:
        _check_ordered("BETWEEN", value, low, high)
        if isinstance(low, nodes.Number) and isinstance(high, nodes.Number) and _above(low, high):
            raise Misplaced(low.at, f"BETWEEN starts at {low.value}, above its end {high.value}")
        return nodes.Between(value, low, high, False, at=value.at)

    def not_between(self, value: Expression, _not: Token, low: Expression, high: Expression) -> Expression:
        _check_ordered("NOT BETWEEN", value, low, high)
        return nodes.Between(value, low, high, True, at=value.at)

    def is_in(self, operand: Expression, *texts: Token) -> Expression:
        return _in(operand, texts, False)

    def is_not_in(self, operand: Expression, _not: Token, *texts: Token) -> Expression:
        return _in(operand, texts, True)

    def text_match(self, operand: Expression, operator: str, text: Token) -> Expression:
        return nodes.TextMatch(operand, operator, _unquoted(text), False, at=operand.at)

    def not_text_match(self, operand: Expression, _not: Token, operator: str, text: Token) -> Expression:
        return nodes.TextMatch(operand, operator, _unquoted(text), True, at=operand.at)

    def text_operator(self, token: Token) -> str:
        return token.type

    def negative(self, minus: Token, operand: Expression) -> Expression:
        return nodes.Negative(operand, at=minus.start_pos or 0)

    def negation(self, word: Token, operand: Expression) -> Expression:
        return nodes.Not(_condition(operand), at=word.start_pos or 0)

    def text(self, token: Token) -> Expression:
        return nodes.Text(_unquoted(token), at=token.start_pos or 0)

    def integer(self, token: Token) -> Expression:
        at = token.start_pos or 0
        digits = token.rstrip("lL")
        value = int(digits) if len(digits) < 20 else _LARGEST + 1
        if value > _LARGEST:
            raise Misplaced(at, f"{digits[:24]} is above {_LARGEST}, the largest whole number")
        return nodes.Integer(value, at=at)

    def double(self, token: Token) -> Expression:
        at = token.start_pos or 0
        value = float(token)
        if value == 0:
            raise Misplaced(at, f"{token[:24]} is below 5e-324, the smallest number with a point or an exponent")
        if value == float("inf"):
            raise Misplaced(at, f"{token[:24]} is above 1.7976931348623157e308, the largest number")
        return nodes.Double(value, at=at)

    def true(self, token: Token) -> Expression:
        return nodes.Boolean(True, at=token.start_pos or 0)

    def false(self, token: Token) -> Expression:
        return nodes.Boolean(False, at=token.start_pos or 0)

    def null(self, token: Token) -> Expression:
        return nodes.Boolean(None, at=token.start_pos or 0)

    def property(self, token: Token) -> Expression:
        return nodes.Property(str(token), at=token.start_pos or 0)


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _condition(operand: Expression) -> Expression:
    if isinstance(operand, nodes.Property):
        return nodes.Present(operand, at=operand.at)
    if isinstance(operand, _VALUES):
        raise Misplaced(operand.at, "a number or a text is not a condition; compare it with a property")
    return operand


def _check_ordered(operator: str, *operands: Expression) -> None:
    for operand in operands:
        if not isinstance(operand, nodes.Property | nodes.Number | nodes.Negative):
            what = "a text" if isinstance(operand, nodes.Text) else "a condition, TRUE, FALSE or NULL"
            raise Misplaced(operand.at, f"{operator} cannot compare {what}; it compares properties and numbers")


def _above(low: nodes.Number, high: nodes.Number) -> bool:
    if isinstance(low, nodes.Integer) and isinstance(high, nodes.Integer):
        return low.value > high.value
    return float(low.value) > float(high.value)


def _in(operand: Expression, texts: tuple[Token, ...], negated: bool) -> Expression:
    if not isinstance(operand, nodes.Property):
        raise Misplaced(operand.at, "the left side of IN must be a property")
    return nodes.In(operand, tuple(map(_unquoted, texts)), negated, at=operand.at)


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
