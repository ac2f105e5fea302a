"""Parses expressions by RocketMQ's rules.

Keywords are case-insensitive. The condition ends before the first token that cannot continue it, if it is complete
there: ``a > 1 garbage`` is ``a > 1``. A character that starts no token is rejected if parsing reaches it.

Source: apache/rocketmq filter/.../parser/SelectorParser.jj
"""

from __future__ import annotations

from typing import NamedTuple

from gantrymq_filter_sql92.nodes import Expression, depth
from gantrymq_filter_sql92.refusal import ExpressionRefused, Misplaced

__all__ = ["MAX_CHARACTERS", "MAX_DEPTH", "MAX_TOKENS", "Reading", "parse", "read"]

MAX_CHARACTERS = 16_384
MAX_TOKENS = 2_000  # words, literals and signs
MAX_DEPTH = 100  # depth in nodes; parentheses do not count


class Reading(NamedTuple):
    """Result of parsing."""

    tree: Expression
    end: int  # characters from 0, after the condition and blanks; the rest is ignored


def parse(text: str) -> Expression:
    """Return the tree of an expression.

    Raises:
        SubscriptionParseFailed: as `read`.
    """
    return read(text).tree


def read(text: str) -> Reading:
    """Return the tree of an expression and its end.

    Raises:
        SubscriptionParseFailed: RocketMQ rejects it too, or it has more than `MAX_CHARACTERS`, `MAX_TOKENS` or
            `MAX_DEPTH`; as `ExpressionRefused`, with the position.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionRefused(
            text, MAX_CHARACTERS, f"{len(text):,} characters, and an expression has at most {MAX_CHARACTERS:,}"
        )
    from gantrymq_filter_sql92.grammar import tree_and_end  # imports lark, which is slow and only needed here

    try:
        reading = Reading(*tree_and_end(text, MAX_TOKENS))
    except Misplaced as problem:
        raise ExpressionRefused(text, problem.at, problem.reason) from None
    levels = depth(reading.tree)
    if levels > MAX_DEPTH:
        raise ExpressionRefused(text, 0, f"an expression of {levels} levels, and at most {MAX_DEPTH} are taken")
    return reading
