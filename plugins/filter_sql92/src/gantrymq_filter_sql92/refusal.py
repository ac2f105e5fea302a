"""Refusing an expression: one sentence with the place, and the place by itself for who draws it."""

from __future__ import annotations

from gantrymq.errors import SubscriptionParseFailed

_SHOWN = 20  # characters on each side of the place


class Misplaced(Exception):
    """What is wrong at a place of the text; becomes `ExpressionRefused` where the text is at hand."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(at, reason)
        self.at = at  # characters from 0
        self.reason = reason


class ExpressionRefused(SubscriptionParseFailed):
    """An expression that RocketMQ does not take either, or one beyond our limits."""

    def __init__(self, text: str, at: int, reason: str) -> None:
        """Refuse *text* for what stands at character *at*, counted from 0 (the sentence counts from 1)."""
        super().__init__(f"SQL92 expression, character {at + 1}: {reason}; {_surroundings(text, at)}")
        self.at = at
        self.reason = reason


def _surroundings(text: str, at: int) -> str:
    """The text around the place on one line, as ASCII, with ``>>>`` before the character."""
    start, end = max(0, at - _SHOWN), at + _SHOWN
    before = ("..." if start else "") + text[start:at]
    after = text[at:end] + ("..." if end < len(text) else "")
    return f"{_plain(before)}>>>{_plain(after)}"


def _plain(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")
