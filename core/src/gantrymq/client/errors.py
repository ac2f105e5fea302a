"""Errors of the floors below, as a client raises them: each is a `ClientError` as well.

below                                    of the client
--------------------------------------------------------------------------------------------------------
ConfigError                              OptionUnusable        at the start, or where a client is made
PluginError                              PluginAbsent
LocalProtocolError                       RequestMalformed      nothing was sent
RemoteProtocolError, FormatError         AnswerUnreadable      of what a server answered
FilterFailed                             FilterRaised          a filter that runs here, see `subscription`
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gantrymq.errors import (
    BrokerRefused,
    ClientError,
    ConfigError,
    ConnectFailed,
    FilterFailed,
    FormatError,
    GantryError,
    LocalProtocolError,
    PluginError,
    RemoteProtocolError,
)
from gantrymq.remoting.codes import ResponseCode, request_name

__all__ = [
    "AnswerUnreadable",
    "FilterRaised",
    "NoNameServer",
    "NotANameServer",
    "OptionUnusable",
    "PluginAbsent",
    "RequestMalformed",
    "client_error",
    "client_errors",
    "shown_request",
]


class OptionUnusable(ClientError, ConfigError):
    """An option, a variable of the environment or a file that it names cannot be used."""


class PluginAbsent(ClientError, PluginError):
    """No installed plugin offers what was named, or it does not work."""


class RequestMalformed(ClientError, LocalProtocolError):
    """What was given cannot be written as a request; nothing was sent."""


class NoNameServer(ConnectFailed):
    """None of the name servers answers."""


class NotANameServer(BrokerRefused):
    """A broker was asked for what name servers do. Its code is 3."""

    def __init__(self, code: int, address: str, remark: str) -> None:
        super().__init__(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark, address)
        self.args = (
            f"a broker listens at {address}, not a name server: it does not serve {shown_request(code)}; a name "
            "server's port is usually 9876",
        )


class AnswerUnreadable(ClientError, FormatError, RemoteProtocolError):
    """A server answered, or a message of a server's holds, what is not what it should be."""


class FilterRaised(ClientError, FilterFailed):
    """The filter of a subscription raised for a message."""


def shown_request(code: int) -> str:
    """The name of a request and its code."""
    name = request_name(code)
    return name if name.startswith("request ") else f"{name} ({int(code)})"


_OF_THE_CLIENT: tuple[tuple[type[GantryError], type[ClientError]], ...] = (
    (ConfigError, OptionUnusable),
    (PluginError, PluginAbsent),
    (LocalProtocolError, RequestMalformed),
    (RemoteProtocolError, AnswerUnreadable),
    (FormatError, AnswerUnreadable),
    (FilterFailed, FilterRaised),
)


def client_error(problem: GantryError) -> GantryError:
    """*problem* as a client raises it, by the table above; itself where it is of none of these kinds."""
    if not isinstance(problem, ClientError):
        for below, own in _OF_THE_CLIENT:
            if isinstance(problem, below):
                return own(str(problem))
    return problem


@contextmanager
def client_errors() -> Iterator[None]:
    """Raise what the block raises as `client_error` has it."""
    try:
        yield
    except GantryError as problem:
        own = client_error(problem)
        if own is problem:
            raise
        raise own from problem
