"""Reading a tag expression: ``*``, ``TagA``, ``TagA || TagB``.

    nothing at all, or exactly *        every message
    pieces between two pipes            one tag each, blanks around them cut off, empty pieces dropped
    separators and nothing else         refused
    separators and blanks               a legal expression that no message matches

Cutting and splitting are Java's: ``trim`` takes every character up to U+0020, ``split`` forgets empty pieces at the
end. One pipe separates nothing, and ``*`` beside other tags is a tag called ``*``.

Source: apache/rocketmq common/.../filter/FilterAPI.java (buildSubscriptionData).
"""

from __future__ import annotations

from gantrymq.errors import SubscriptionParseFailed
from gantrymq.model.subscription import ALL

SEPARATOR = "||"

_JAVA_BLANKS = "".join(map(chr, range(0x21)))


def parse_tags(expression: str | None) -> tuple[str, ...] | None:
    """The tags an expression names, in its order and each once; None means every message.

    Raises:
        SubscriptionParseFailed: the expression is made of separators only.
    """
    if not expression or expression == ALL:
        return None
    pieces = expression.split(SEPARATOR)
    if not any(pieces):
        raise SubscriptionParseFailed(
            f"tag expression {expression!r} has separators but no tag between them; write * for every message or "
            f"name tags as in TagA || TagB"
        )
    tags = (piece.strip(_JAVA_BLANKS) for piece in pieces)
    return tuple(dict.fromkeys(tag for tag in tags if tag))
