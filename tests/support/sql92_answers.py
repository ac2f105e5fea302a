"""Our answer to a pair of an SQL92 expression and raw properties, in the words of Java's."""

from __future__ import annotations

from typing import NamedTuple

from gantrymq.errors import SubscriptionParseFailed
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.values import EvaluationFailed

WORDS = {True: "true", False: "false", None: "null"}


class OurAnswer(NamedTuple):
    """``true``, ``false``, ``null``, ``refused`` by the parser or ``failed`` on the message."""

    answer: str
    why: str = ""  # of the last two


def our_answer(expression: str, properties: bytes) -> OurAnswer:
    """What we say of the pair; a subscription takes the message where that is ``true``."""
    try:
        ready = compiled(expression)
    except SubscriptionParseFailed as error:
        return OurAnswer("refused", str(error))
    try:
        found = OurAnswer(WORDS[ready.evaluate(properties)])
    except EvaluationFailed as error:
        found = OurAnswer("failed", str(error))
    assert ready.matches(properties) == (found.answer == "true")
    return found
