"""The exception hierarchy of GantryMQ.

Each class has ``response_code``, which is sent to a RocketMQ peer when the error crosses the wire, and ``retriable``,
which tells whether repeating the call, perhaps at another broker, can succeed. A message states where the error
occurred, the actual and the expected value and, on a terminal, the command that fixes it.

Code numbers: apache/rocketmq remoting/.../protocol/ResponseCode.java, RemotingSysResponseCode.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


class GantryError(Exception):
    """Base class of all deliberate errors; any other exception that surfaces is a bug."""

    response_code: int = 1  # SYSTEM_ERROR
    retriable: bool = False
    exit_code: int = 1  # exit code of a command that fails with this error

    @property
    def without_advice(self) -> str:
        """The message for commands, which give their own advice."""
        return str(self)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """Support pickle and copy, for any ``__init__``: Exception calls the class with ``args``, which is the text."""
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[GantryError], args: tuple[Any, ...]) -> GantryError:
    """Return an error with *args*, without calling ``__init__``."""
    error = kind.__new__(kind, *args)
    error.args = args  # __new__ of OSError does not set them for a class with its own __init__
    return error


_FOLDERS_NEEDED: Final = {  # what the folder of a plugin needs in a clone beside core
    "access": "./plugins/admin ./plugins/access_plain ",
    "console": "./plugins/admin ./plugins/access_plain ./plugins/access ./plugins/diagnosis ",
    **dict.fromkeys(
        ("replication", "schedule", "storage_memory", "storage_mmap", "store_tools"), "./libs/store_files "
    ),
}


def install_command(distribution: str, *, extra: str = "", options: str = "") -> str:
    """Return the commands that install one of our distributions: by its name from wheels, and from a clone.

    Args:
        distribution: its name.
        extra: an extra of it, such as ``spark``.
        options: options of pip, each with a space after it.
    """
    word = distribution.removeprefix("gantrymq-").replace("-", "_")
    name, folder = distribution, f"./{'libs' if word == 'speedups' else 'plugins'}/{word}"
    if extra:
        name, folder = f"'{name}[{extra}]'", f"'{folder}[{extra}]'"
    from_clone = f"pip install {options}{_FOLDERS_NEEDED.get(word, '')}{folder}"
    return f"pip install {options}{name} (in a clone of GantryMQ: {from_clone})"


def format_seconds(seconds: float) -> str:
    """Format a time limit for messages: rounded to tenths from one second on, two significant digits below.

    The rest of a caller's time limit after connecting, such as 4.99976 s, becomes ``5 s``.
    """
    return f"{round(seconds, 1):g} s" if seconds >= 1 else f"{seconds:.2g} s"


# --- settings and plugins -------------------------------------------------------------------------------------------


class ConfigError(GantryError):
    """A setting is unknown, malformed, out of bounds, or selects a feature that is not implemented."""


class PluginError(GantryError):
    """A plugin is missing, does not import, or misuses a hook."""


class PluginConflict(PluginError):
    """Two plugins register the same name or the same interceptor order."""


# --- protocol -------------------------------------------------------------------------------------------------------


class ProtocolError(GantryError):
    """Bytes or values violate the remoting protocol."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol; its connection is closed."""


class LocalProtocolError(ProtocolError):
    """A call would violate the protocol; nothing was sent."""


class FormatError(GantryError):
    """Bytes on disk or in a record do not have the expected layout."""


# --- error responses to requests; each class has its response code ---------------------------------------------------


class ClientError(GantryError):
    """A call of a client failed: it was refused locally or by a server, got no response, or found nothing."""

    address: str = ""  # host:port of the server, if known


class RequestError(ClientError):
    """A request was refused by a server, which sends ``response_code`` and the text, or before it was sent."""


class RequestNotSupported(RequestError):
    """No handler is registered for the request code."""

    response_code = 3


class MessageIllegal(RequestError):
    """The message cannot be stored because of its size, properties or topic length."""

    response_code = 13


class BodyEmpty(MessageIllegal):
    """The message has no body."""


class BodyTooLarge(MessageIllegal):
    """The body of the message, or of the batch, is longer than allowed."""


class PropertiesTooLarge(MessageIllegal):
    """The properties of the message are longer than allowed."""


class ReceiptIllegal(MessageIllegal):
    """A receipt handle cannot be read, or does not name a message that this broker delivered last."""


class ServiceNotAvailable(RequestError):
    """The store refuses writes or the broker is stopping."""

    response_code = 14
    retriable = True


class DiskFull(ServiceNotAvailable):
    """The store refuses writes because its disk or quota is full; it resumes by itself once there is room."""


class NoPermission(RequestError):
    """Permission bits, a reserved topic or a disabled feature forbid the request."""

    response_code = 16


class NotWritable(NoPermission):
    """The permission bits of the broker or topic forbid writing."""


class TopicNotExist(RequestError):
    """The topic does not exist on this broker and cannot be created."""

    response_code = 17


class QueryNotFound(RequestError):
    """A query found nothing."""

    response_code = 22


class SubscriptionParseFailed(RequestError):
    """A subscription expression does not compile."""

    response_code = 23


class SubscriptionNotExist(RequestError):
    """The group has no (online) subscription for the topic."""

    response_code = 24


class SubscriptionNotLatest(RequestError):
    """The broker has an older version of the subscription than the request."""

    response_code = 25


class GroupNotExist(RequestError):
    """The consumer group does not exist and cannot be created."""

    response_code = 26


class InvalidParameter(RequestError):
    """A name, queue id or other value is not allowed."""

    response_code = 29


class NameIllegal(InvalidParameter):
    """The name of a topic or group is blank, too long, or has a character that is not allowed."""


class LiteTopicIllegal(NameIllegal):
    """The name of a lite topic is missing, too long, has a character that is not allowed, or does not fit the topic."""


class LiteGroupMismatch(InvalidParameter):
    """The group does not consume lite topics, or not those of this topic."""


class LightQueueQuotaExceeded(RequestError):
    """The message needs a new light queue, and there are as many as are allowed."""

    response_code = 2017


class LiteSubscriptionQuotaExceeded(RequestError):
    """There are as many subscriptions of lite topics as are allowed."""

    response_code = 2018


class FilterFailed(GantryError):
    """A message filter raised an exception while running; its subscription is rejected with the reason."""


class FilterSuspended(FilterFailed):
    """A filter is suspended for a while; the subscription stays valid and a later pull can succeed."""


class FilterBudgetExceeded(FilterSuspended):
    """A filter has used up its time in this loop iteration; the store ends its read before the current entry."""


class ConsumerNotOnline(RequestError):
    """No member of the group is connected."""

    response_code = 206


class PoppedMessageGone(RequestError):
    """The message that an acknowledgement names is no longer in its queue, or never was."""

    response_code = 208


class IllegalOperation(RequestError):
    """The message of a recall handle cannot be recalled, or a transaction can no longer be decided like this."""

    response_code = 604


class GoAway(RequestError):
    """The server is stopping; the client should use another one."""

    response_code = 1500
    retriable = True


class RequestRefused(RequestError):
    """A refusal with a response code that has no class."""

    def __init__(self, response_code: int, message: str) -> None:
        super().__init__(message)
        self.response_code = response_code


class AccessRefused(RequestRefused):
    """Access control refuses the request, with a response code of the authorizer: 16, or 1 as RocketMQ before 5.3."""


class ServerFault(RequestError):
    """A request failed with an unexpected exception. The peer gets no details; the log has the traceback."""

    def __init__(self) -> None:
        super().__init__(
            "the server failed to serve this request because of an internal error; its log has the details"
        )


# --- store ----------------------------------------------------------------------------------------------------------


class StoreError(GantryError):
    """The store cannot perform an operation."""


class Unconfirmed(StoreError):
    """The messages are stored, but neither the disk nor enough replicas have confirmed that yet."""

    response_code = 10
    retriable = True
    of_replicas = False  # whether replicas have not confirmed the messages; otherwise it is the disk


class FlushDiskTimeout(Unconfirmed):
    """The disk has not confirmed the messages in time."""


class SlaveNotAvailable(Unconfirmed):
    """There are too few slaves to copy the messages to."""

    response_code = 11
    of_replicas = True


class FlushSlaveTimeout(Unconfirmed):
    """The slaves have not confirmed the messages in time."""

    response_code = 12
    of_replicas = True


class StoreLocked(StoreError):
    """Another process holds the store."""


class StoreLayoutError(StoreError):
    """The folder has an unsupported layout (file sizes, RocksDB, unknown files)."""


class StoreReadOnly(StoreError):
    """The store's folder or file system is not writable."""


class StoreDamaged(StoreError):
    """Bytes before the end of the log are corrupt in a way that an interrupted write cannot cause."""


class LogMismatch(StoreError):
    """A log offset is outside the raw log or not at a record, or bytes do not continue it."""


# --- client ---------------------------------------------------------------------------------------------------------


class NoRoute(ClientError):
    """No name server knows a broker for the topic."""


class BrokerRefused(ClientError):
    """The peer responded with an error: ``response_code`` is the code, the text its remark."""

    def __init__(self, response_code: int, remark: str, address: str) -> None:
        super().__init__(f"{address} answered code {response_code}: {remark}")
        self.response_code = response_code
        self.remark = remark
        self.address = address


class NoMessageFound(ClientError):
    """No broker of the topic found a message; the text has the response of each."""

    response_code = 208


class ConnectFailed(ClientError, ConnectionError):
    """The connection to the peer could not be established."""

    retriable = True


class HandshakeFailed(ConnectFailed):
    """The peer was reached, but the two sides did not agree on a TLS connection."""


class ConnectionLost(ClientError, ConnectionError):
    """The connection was closed while a call was waiting for its response."""

    retriable = True


class CallTimeout(ClientError, TimeoutError):
    """No response arrived within the timeout."""

    retriable = True
