"""Whether the present subscription of a group matches a message.

Tags are compared here. Every other expression is evaluated by the broker: a pull of one message from the message's
queue offset, as a group of tools, returns the message only if the expression matches it. Needs no filter in this
process, and works with Java brokers if ``enablePropertyFilter`` is true.
"""

from __future__ import annotations

from typing import Final

from gantrymq.client import PullStatus, Reader
from gantrymq.errors import ClientError
from gantrymq.plugin.client import parse_tags
from gantrymq.plugin.model import TAG, MessageQueue, Subscription
from gantrymq_admin.consumption.facts import Fit

__all__ = ["fit_of_expression", "fit_of_tags"]

SCANNED: Final = 1  # messages asked for


def fit_of_tags(subscription: Subscription, tag: str | None) -> Fit:
    """Return whether a subscription by tags matches; UNKNOWN if it is of another type."""
    if subscription.type != TAG or subscription.class_filter:
        return Fit.UNKNOWN
    try:
        tags = parse_tags(subscription.expression)
    except ClientError:
        return Fit.UNKNOWN
    return Fit.MATCHES if not tags or tag in tags else Fit.DIFFERS


async def fit_of_expression(reader: Reader, subscription: Subscription, queue: MessageQueue, queue_offset: int) -> Fit:
    """Return whether the broker's filter lets the message through; UNKNOWN if the message is no longer in the queue.

    Raises as `Reader.pull`: the broker does not evaluate the expression.
    """
    result = await reader.pull(
        queue,
        queue_offset,
        max_count=SCANNED,
        expression=subscription.expression,
        expression_type=subscription.type,
    )
    if result.status is PullStatus.FOUND:
        return Fit.MATCHES if result.messages[0].queue_offset == queue_offset else Fit.DIFFERS
    if result.status is PullStatus.NO_MATCHED_MSG and result.min_offset <= queue_offset < result.next_offset:
        return Fit.DIFFERS
    return Fit.UNKNOWN
