"""Splits texts into tokens by the terminals of the grammar, in linear time.

At each position the first matching terminal is taken, in order of priority; the grammar's priorities make that the
longest match, as in RocketMQ. Tokens are produced one at a time, as the parser requests them: the unparsed rest need
not consist of tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from lark import Lark, Token

from gantrymq_filter_sql92.refusal import Misplaced

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
