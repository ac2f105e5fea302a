"""Errors of administration that have a class of their own, so that a shell can add its own advice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gantrymq.errors import BrokerRefused, ClientError, FormatError, GantryError, InvalidParameter
from gantrymq.remoting.codes import RequestCode, ResponseCode, request_name

__all__ = [
    "AnswerUnreadable",
    "ClusterUnclear",
    "HalfReset",
    "NothingCommitted",
    "OffsetOutside",
    "QueueUnknown",
    "RequestNotServed",
    "reading",
]

_SINCE: Final = {
    RequestCode.GET_TOPIC_CONFIG: "5.0",
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: "5.0",
}
"""Requests that brokers 4.9.7 do not serve, and the first RocketMQ that does."""


class ClusterUnclear(ClientError):
    """No such cluster, several where none was named, or one without a master."""


class QueueUnknown(InvalidParameter):
    """No broker of the topic has that queue."""


class OffsetOutside(InvalidParameter):
    """A queue does not have the offset; nothing was changed."""


class NothingCommitted(ClientError):
    """A group has no place to take over."""


class HalfReset(ClientError):
    """A server failed while offsets were set: some queues may be set already. The same call again does the rest."""


class AnswerUnreadable(ClientError, FormatError):
    """A server answered with something that is not the answer of its request."""


class RequestNotServed(BrokerRefused):
    """The server does not know the request: it is older than that, or lacks a plugin. Its code is 3."""

    def __init__(self, code: int, address: str, remark: str) -> None:
        super().__init__(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark, address)
        since = f"RocketMQ has it since {_SINCE[RequestCode(code)]}" if code in _SINCE else "it may be an older release"
        known = request_name(code)
        name = known if known.startswith("request ") else f"{known} ({int(code)})"
        self.args = (f"{address} does not serve {name}: {since}, or a server without the plugin for it",)
        self.code = code


@contextmanager
def reading(what: str) -> Iterator[None]:
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
