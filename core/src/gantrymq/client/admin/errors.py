"""Error classes of administration, so that the command line can add its own advice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gantrymq.client.errors import AnswerUnreadable, NotANameServer, RequestRefusedAsUnknown, shown_request
from gantrymq.errors import ClientError, FormatError, GantryError, InvalidParameter
from gantrymq.remoting.codes import RequestCode

__all__ = [
    "AnswerUnreadable",
    "ClusterUnclear",
    "NotABroker",
    "NotANameServer",
    "NothingCommitted",
    "OffsetOutside",
    "PartialReset",
    "QueueUnknown",
    "RequestNotServed",
    "parsing",
]

_NOT_IN_4_9: Final = frozenset(
    {
        RequestCode.QUERY_TOPICS_BY_CONSUMER,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        RequestCode.GET_TOPIC_CONFIG,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
    }
)
"""Requests that brokers 4.9.7 do not serve and 5.3.3 do; `tests/interop/test_admin_calls.py` sends them to both."""


class ClusterUnclear(ClientError):
    """Raised if there is no such cluster, several and none named, or one without a master."""


class QueueUnknown(InvalidParameter):
    """Raised if no broker of the topic has the queue."""


class OffsetOutside(InvalidParameter):
    """Raised if a queue does not have the offset; nothing was changed."""


class NothingCommitted(ClientError):
    """Raised if a group has no offsets to clone."""


class PartialReset(ClientError):
    """Raised if a server failed while offsets were set: some queues may be set. Repeating the call sets the rest."""


_SAYS_NOTHING: Final = re.compile(r"request type \d+.* not supported|no reason given|not supported")


class RequestNotServed(RequestRefusedAsUnknown):
    """Raised if a server does not know the request: it is too old, or lacks a plugin."""

    @staticmethod
    def sentence(code: int, address: str, remark: str) -> str:
        """Return the message of the error."""
        if code in _NOT_IN_4_9:
            why = "RocketMQ 4.9 does not, 5.x does"
        else:
            why = "it is too old, or lacks a plugin" if _SAYS_NOTHING.fullmatch(remark.strip()) else remark
        return f"{address} does not serve {shown_request(code)}: {why}"


class NotABroker(RequestRefusedAsUnknown):
    """Raised if a broker request reaches a name server."""

    @staticmethod
    def sentence(code: int, address: str, remark: str) -> str:
        """Return the message of the error."""
        return (
            f"a name server listens at {address}, not a broker: it does not serve {shown_request(code)}; a broker's "
            "port is usually 10911"
        )


@contextmanager
def parsing(what: str) -> Iterator[None]:
    """Convert errors while the members of a response are read; *what* names the response.

    Raises:
        AnswerUnreadable: a member is missing or of the wrong type.
    """
    try:
        yield
    except FormatError as problem:
        raise AnswerUnreadable(f"{what} cannot be read: {problem}") from problem
    except GantryError as problem:
        raise AnswerUnreadable(f"{what} have members of the wrong type: {problem}") from problem
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as problem:
        raise AnswerUnreadable(f"{what} have members of the wrong type: {problem!r}") from problem
