"""Parser of tag expressions: ``*``, ``TagA``, ``TagA || TagB``.

    empty, or exactly *                 every message
    pieces separated by ||              one tag each, surrounding blanks removed, empty pieces dropped
    separators only                     refused
    separators and blanks               a valid expression that matches no message

Trimming and splitting follow Java: ``trim`` removes every character up to U+0020, ``split`` drops trailing empty
pieces. A single pipe is not a separator, and ``*`` together with other tags is a tag named ``*``.

Source: apache/rocketmq common/.../filter/FilterAPI.java (buildSubscriptionData).
"""

from __future__ import annotations

from gantrymq.errors import SubscriptionParseFailed
from gantrymq.model.subscription import ALL

SEPARATOR = "||"

_JAVA_BLANKS = "".join(map(chr, range(0x21)))


def parse_tags(expression: str | None) -> tuple[str, ...] | None:
    """Return the distinct tags of an expression, in order; None means every message.

    Raises:
        SubscriptionParseFailed: the expression consists of separators only.
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
