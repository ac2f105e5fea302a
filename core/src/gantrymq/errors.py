"""Every error GantryMQ raises on purpose, as one tree.

Each class carries ``response_code``, what a RocketMQ peer is told when the error crosses the wire, and ``retriable``,
whether trying the same thing again (perhaps at another broker) can help. A message says where, what was seen, what was
expected and, for a person at a terminal, the command that fixes it.

Code numbers: apache/rocketmq remoting/.../protocol/ResponseCode.java, RemotingSysResponseCode.java.
"""

from __future__ import annotations


class GantryError(Exception):
    """Base of all errors raised on purpose; anything else that surfaces is a bug."""

    response_code: int = 1  # SYSTEM_ERROR
    retriable: bool = False
    exit_code: int = 1  # of a command that ends with it


def to_install(distribution: str) -> str:
    """The command that installs one of our plugins; no index has them."""
    word = distribution.removeprefix("gantrymq-").replace("-", "_")
    files = "./store_files " if word.startswith(("stor", "schedule")) else ""  # which these stand on
    return f"pip install {files}./plugins/{word} (in a clone of GantryMQ)"


def shown_seconds(seconds: float) -> str:
    """A time limit as sentences print it: tenths from one second on, below that two digits.

    What a call has left of its caller's limit, 4.99976 s after connecting, reads ``5 s``.
    """
    return f"{round(seconds, 1):g} s" if seconds >= 1 else f"{seconds:.2g} s"


# --- settings and plugins -------------------------------------------------------------------------------------------


class ConfigError(GantryError):
    """A setting is unknown, malformed, out of bounds or names something that is not built."""


class PluginError(GantryError):
    """A plugin is missing, does not import, or misuses a hook."""


class PluginConflict(PluginError):
    """Two plugins claim the same name (or the same interceptor order)."""


# --- protocol -------------------------------------------------------------------------------------------------------


class ProtocolError(GantryError):
    """Bytes or values do not follow the remoting protocol."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol; its connection is closed."""


class LocalProtocolError(ProtocolError):
    """We were about to break the protocol; nothing was sent."""


class FormatError(GantryError):
    """Bytes on disk (or in a record) do not have the layout they should."""


# --- answers to a request that cannot be served; the class is the response code --------------------------------------


class ClientError(GantryError):
    """A call fails in the program that made it: refused here or there, not answered, or nothing is found."""

    address: str = ""  # host:port of the server concerned, if it is known


class RequestError(ClientError):
    """A request is refused: by a server, whose peer gets ``response_code`` and the text, or before it is sent."""


class RequestNotSupported(RequestError):
    """No handler is registered for the request code."""

    response_code = 3


class MessageIllegal(RequestError):
    """The message itself cannot be stored (size, properties, topic length)."""

    response_code = 13


class ServiceNotAvailable(RequestError):
    """The store refuses writes or the broker is stopping."""

    response_code = 14
    retriable = True


class NoPermission(RequestError):
    """Permission bits, a reserved topic or a switched-off feature forbid it."""

    response_code = 16


class TopicNotExist(RequestError):
    """The topic is unknown here and cannot be created."""

    response_code = 17


class QueryNotFound(RequestError):
    """A look-up found nothing."""

    response_code = 22


class SubscriptionParseFailed(RequestError):
    """A subscription expression does not compile."""

    response_code = 23


class SubscriptionNotExist(RequestError):
    """The group has no (online) subscription for the topic."""

    response_code = 24


class SubscriptionNotLatest(RequestError):
    """The broker knows an older version of the subscription than the one asked for."""

    response_code = 25


class GroupNotExist(RequestError):
    """The subscription group is unknown and cannot be created."""

    response_code = 26


class InvalidParameter(RequestError):
    """A name, queue id or other value is outside what is allowed."""

    response_code = 29


class FilterFailed(GantryError):
    """A message filter raised while it ran; its subscription is rejected with the reason."""


class FilterSuspended(FilterFailed):
    """A filter is off for a while: the subscription stays, and a later pull is served."""


class FilterTurnOver(FilterSuspended):
    """A filter has had its share of this turn of the loop: a store ends its read before the entry it asked about."""


class ConsumerNotOnline(RequestError):
    """No member of the group is connected."""

    response_code = 206


class GoAway(RequestError):
    """The server is stopping; another one should be asked."""

    response_code = 1500
    retriable = True


class RefusedWith(RequestError):
    """A refusal whose code has no class of its own."""

    def __init__(self, response_code: int, message: str) -> None:
        super().__init__(message)
        self.response_code = response_code


class ServerFault(RequestError):
    """A request failed for a reason that nobody foresaw; the peer learns no more than that, the log all of it."""

    def __init__(self) -> None:
        super().__init__("the server failed to serve this request, which is a fault of its own; its log says why")


# --- store ----------------------------------------------------------------------------------------------------------


class StoreError(GantryError):
    """The store cannot do what was asked."""


class StoreLocked(StoreError):
    """Another process holds the store."""


class StoreLayoutError(StoreError):
    """The folder holds something this store does not understand (file sizes, RocksDB, stray files)."""


class StoreReadOnly(StoreError):
    """The store's folder or file system cannot be written."""


class StoreDamaged(StoreError):
    """Bytes before the end of the log are wrong: not what an interrupted write leaves."""


# --- client ---------------------------------------------------------------------------------------------------------


class NoRoute(ClientError):
    """No name server knows a broker for the topic."""


class BrokerRefused(ClientError):
    """The peer answered with an error code; ``response_code`` is that code, the text its remark."""

    def __init__(self, response_code: int, remark: str, address: str) -> None:
        super().__init__(f"{address} answered code {response_code}: {remark}")
        self.response_code = response_code
        self.remark = remark
        self.address = address


class NoMessageFound(ClientError):
    """No broker of the topic found a message; says what each of them answered."""

    response_code = 208


class ConnectFailed(ClientError, ConnectionError):
    """No connection to the peer could be made."""

    retriable = True


class ConnectionLost(ClientError, ConnectionError):
    """The connection closed while a call was waiting on it."""

    retriable = True


class CallTimeout(ClientError, TimeoutError):
    """No answer arrived within the time given."""

    retriable = True
