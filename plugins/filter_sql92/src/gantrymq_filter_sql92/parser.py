"""From text to tree, with RocketMQ's rules of what an expression is.

Keywords are names, whatever the case of their letters. The condition ends before the first token that cannot go on, if
it is whole there: ``a > 1 garbage`` is ``a > 1``. A character with which no token can start is refused where reading
comes to it.

Source: apache/rocketmq filter/.../parser/SelectorParser.jj
"""

from __future__ import annotations

from typing import NamedTuple

from gantrymq_filter_sql92.refusal import ExpressionRefused, Misplaced
from gantrymq_filter_sql92.tree import Expression, depth

__all__ = ["MAX_CHARACTERS", "MAX_DEPTH", "MAX_TOKENS", "Reading", "parse", "read"]

MAX_CHARACTERS = 16_384
MAX_TOKENS = 2_000  # words, literals and signs
MAX_DEPTH = 100  # nodes on the way down; parentheses by themselves are none


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
        SubscriptionParseFailed: RocketMQ does not take it either, or it has more than `MAX_CHARACTERS`, `MAX_TOKENS`
            or `MAX_DEPTH`; as `ExpressionRefused`, with the place.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionRefused(
            text, MAX_CHARACTERS, f"{len(text):,} characters, and an expression has at most {MAX_CHARACTERS:,}"
        )
    from gantrymq_filter_sql92.reading import tree_and_end  # brings lark, which who reads nothing need not wait for

    try:
        reading = Reading(*tree_and_end(text, MAX_TOKENS))
    except Misplaced as problem:
        raise ExpressionRefused(text, problem.at, problem.reason) from None
    levels = depth(reading.tree)
    if levels > MAX_DEPTH:
        raise ExpressionRefused(text, 0, f"an expression of {levels} levels, and at most {MAX_DEPTH} are taken")
    return reading
