"""Client versions of the errors of lower layers; each class derives from `ClientError` and from those it replaces."""

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
    "FilterRefused",
    "NameServerClosed",
    "NoNameServer",
    "NotANameServer",
    "OptionUnusable",
    "PluginAbsent",
    "RequestMalformed",
    "RequestRefusedAsUnknown",
    "client_error",
    "client_errors",
    "shown_request",
]


class OptionUnusable(ClientError, ConfigError):
    """Raised for an invalid option, environment variable or file that one of them names."""


class PluginAbsent(ClientError, PluginError):
    """Raised if no installed plugin provides the requested feature, or the plugin is broken."""


class RequestMalformed(ClientError, LocalProtocolError):
    """Raised if the arguments cannot be encoded as a request; nothing was sent."""


class NoNameServer(ConnectFailed):
    """Raised if none of the name servers answers."""

    ADVICE = "; is one running there? Name others when creating the client, or in $NAMESRV_ADDR"

    @property
    def without_advice(self) -> str:
        """The message without the advice for programs."""
        return str(self).removesuffix(self.ADVICE)


class NameServerClosed(NoNameServer):
    """Raised if a name server closes the connection instead of answering, as one that requires TLS does."""

    ADVICE = "; Client(tls=...) has both"


class RequestRefusedAsUnknown(BrokerRefused):
    """Base of errors for a server that does not know the request. Its code is 3."""

    def __init__(self, code: int, address: str, remark: str) -> None:
        super().__init__(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark, address)
        self.code = code
        self.args = (self.sentence(code, address, remark),)

    @staticmethod
    def sentence(code: int, address: str, remark: str) -> str:
        """Return the message of the error."""
        raise NotImplementedError


class NotANameServer(RequestRefusedAsUnknown):
    """Raised if a name server request reaches a broker."""

    @staticmethod
    def sentence(code: int, address: str, remark: str) -> str:
        """Return the message of the error."""
        return (
            f"a broker listens at {address}, not a name server: it does not serve {shown_request(code)}; a name "
            "server's port is usually 9876"
        )


class AnswerUnreadable(ClientError, FormatError, RemoteProtocolError):
    """Raised if a response, or a message, cannot be decoded."""


class FilterRaised(ClientError, FilterFailed):
    """Raised if the filter of a subscription fails for a message."""


class FilterRefused(BrokerRefused):
    """Raised if a broker cannot evaluate the filter expression of a subscription; retrying does not help."""


def shown_request(code: int) -> str:
    """Return the name of a request with its code."""
    name = request_name(code)
    return name if name.startswith("request ") else f"{name} ({int(code)})"


_OWN = (OptionUnusable, PluginAbsent, RequestMalformed, AnswerUnreadable, FilterRaised)


def client_error(problem: GantryError) -> GantryError:
    """Return *problem* as the client's class for it, or unchanged if there is none."""
    if not isinstance(problem, ClientError):
        for own in _OWN:
            if isinstance(problem, own.__bases__[1:]):
                return own(str(problem))
    return problem


@contextmanager
def client_errors() -> Iterator[None]:
    """Convert errors raised in the block with `client_error`."""
    try:
        yield
    except GantryError as problem:
        own = client_error(problem)
        if own is problem:
            raise
        raise own from problem
