"""Errors of administration that have a class of their own, so that a shell can add its own advice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gantrymq.client.errors import AnswerUnreadable, NotANameServer, shown_request
from gantrymq.errors import BrokerRefused, ClientError, FormatError, GantryError, InvalidParameter
from gantrymq.remoting.codes import RequestCode, ResponseCode

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
"""Requests that a broker 4.9.7 does not serve and 5.3.3 does; `tests/interop/test_admin_calls.py` asks both."""


class ClusterUnclear(ClientError):
    """No such cluster, several where none was named, or one without a master."""


class QueueUnknown(InvalidParameter):
    """No broker of the topic has that queue."""


class OffsetOutside(InvalidParameter):
    """A queue does not have the offset; nothing was changed."""


class NothingCommitted(ClientError):
    """A group has no place to take over."""


class PartialReset(ClientError):
    """A server failed while offsets were set: some queues may be set already. The same call again does the rest."""


_SAYS_NOTHING: Final = re.compile(r"request type \d+.* not supported|no reason given|not supported")


class RequestNotServed(BrokerRefused):
    """The server does not know the request: it is older than that, or lacks a plugin. Its code is 3."""

    def __init__(self, code: int, address: str, remark: str) -> None:
        super().__init__(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark, address)
        if code in _NOT_IN_4_9:
            why = "RocketMQ 4.9 does not, 5.x does"
        else:
            why = "it is too old, or lacks a plugin" if _SAYS_NOTHING.fullmatch(remark.strip()) else remark
        self.args = (f"{address} does not serve {shown_request(code)}: {why}",)
        self.code = code


class NotABroker(BrokerRefused):
    """A name server was asked for what brokers do. Its code is 3."""

    def __init__(self, code: int, address: str, remark: str) -> None:
        super().__init__(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark, address)
        self.args = (
            f"a name server listens at {address}, not a broker: it does not serve {shown_request(code)}; a broker's "
            "port is usually 10911",
        )


@contextmanager
def parsing(what: str) -> Iterator[None]:
    """Members are taken from an answer: *what* names it, in the error where one is missing or of another kind.

    Raises:
        AnswerUnreadable: so it was.
    """
    try:
        yield
    except FormatError as problem:
        raise AnswerUnreadable(f"{what} cannot be read: {problem}") from problem
    except GantryError as problem:
        raise AnswerUnreadable(f"{what} have members of the wrong kind: {problem}") from problem
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as problem:
        raise AnswerUnreadable(f"{what} have members of the wrong kind: {problem!r}") from problem
