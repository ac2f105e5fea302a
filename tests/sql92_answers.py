"""Our answer to a pair of an SQL92 expression and raw properties, in the words of Java's."""

from __future__ import annotations

from gantrymq_filter_sql92.expression import compiled

from gantrymq.errors import SubscriptionParseFailed

WORDS = {True: "true", False: "false", None: "null"}


def our_answer(expression: str, properties: bytes) -> str:
    """``true``, ``false``, ``null``, ``refused`` by the parser or ``failed`` on the message."""
    try:
        ready = compiled(expression)
    except SubscriptionParseFailed:
        return "refused"
    try:
        answer = WORDS[ready.evaluate(properties)]
    except ValueError:
        answer = "failed"
    assert ready.matches(properties) == (answer == "true")
    return answer
