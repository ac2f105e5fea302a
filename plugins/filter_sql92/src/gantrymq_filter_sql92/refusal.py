"""Errors of rejected expressions: a sentence, and the position for callers that mark it."""

from __future__ import annotations

from gantrymq.errors import SubscriptionParseFailed

_SHOWN = 20  # characters on each side of the place


class Misplaced(Exception):
    """A problem at a position of the text; becomes `ExpressionRefused` when the text is known."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(at, reason)
        self.at = at  # characters from 0
        self.reason = reason


class ExpressionRefused(SubscriptionParseFailed):
    """An expression that RocketMQ rejects too, or one beyond our limits."""

    def __init__(self, text: str, at: int, reason: str) -> None:
        """Reject *text* because of the token at character *at*, counted from 0 (the message counts from 1)."""
        super().__init__(f"SQL92 expression, character {at + 1}: {reason}; {_surroundings(text, at)}")
        self.at = at
        self.reason = reason


def _surroundings(text: str, at: int) -> str:
    """Return the text around the position on one line, as ASCII, with ``>>>`` before the character."""
    start, end = max(0, at - _SHOWN), at + _SHOWN
    before = ("..." if start else "") + text[start:at]
    after = text[at:end] + ("..." if end < len(text) else "")
    return f"{_plain(before)}>>>{_plain(after)}"


def _plain(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")
