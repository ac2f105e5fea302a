"""Status codes of answers: of the plugin's own refusals, and of the errors of the broker's operations.

RocketMQ's proxy answers most refusals of a broker with INTERNAL_SERVER_ERROR, which clients take for a temporary
failure: they repeat an acknowledgement once a second without end. Here each kind of error has its own code.

Source: apache/rocketmq proxy/.../grpc/v2/common/ResponseBuilder.java.
"""

from collections.abc import Iterable

from gantrymq.errors import (
    AccessRefused,
    BodyEmpty,
    BodyTooLarge,
    CallTimeout,
    FlushDiskTimeout,
    FlushSlaveTimeout,
    GantryError,
    GroupNotExist,
    InvalidParameter,
    LightQueueQuotaExceeded,
    LiteGroupMismatch,
    LiteSubscriptionQuotaExceeded,
    LiteTopicIllegal,
    MessageIllegal,
    NoPermission,
    PoppedMessageGone,
    PropertiesTooLarge,
    QueryNotFound,
    ReceiptIllegal,
    RequestNotSupported,
    RequestRefused,
    SlaveNotAvailable,
    SubscriptionParseFailed,
    TopicNotExist,
)
from gantrymq_grpc.definitions import Code, Status

_BY_CLASS: dict[type[GantryError], Code] = {  # subclasses have the code of the nearest base
    AccessRefused: Code.UNAUTHORIZED,
    BodyEmpty: Code.MESSAGE_BODY_EMPTY,
    BodyTooLarge: Code.MESSAGE_BODY_TOO_LARGE,
    CallTimeout: Code.PROXY_TIMEOUT,
    FlushDiskTimeout: Code.MASTER_PERSISTENCE_TIMEOUT,
    FlushSlaveTimeout: Code.SLAVE_PERSISTENCE_TIMEOUT,
    GroupNotExist: Code.CONSUMER_GROUP_NOT_FOUND,
    InvalidParameter: Code.BAD_REQUEST,
    LightQueueQuotaExceeded: Code.LITE_TOPIC_QUOTA_EXCEEDED,
    LiteGroupMismatch: Code.ILLEGAL_TOPIC,
    LiteSubscriptionQuotaExceeded: Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
    LiteTopicIllegal: Code.ILLEGAL_LITE_TOPIC,
    MessageIllegal: Code.BAD_REQUEST,
    NoPermission: Code.FORBIDDEN,
    PoppedMessageGone: Code.INVALID_RECEIPT_HANDLE,
    PropertiesTooLarge: Code.MESSAGE_PROPERTIES_TOO_LARGE,
    QueryNotFound: Code.MESSAGE_NOT_FOUND,
    ReceiptIllegal: Code.INVALID_RECEIPT_HANDLE,
    RequestNotSupported: Code.NOT_IMPLEMENTED,
    SlaveNotAvailable: Code.HA_NOT_AVAILABLE,
    SubscriptionParseFailed: Code.ILLEGAL_FILTER_EXPRESSION,
    TopicNotExist: Code.TOPIC_NOT_FOUND,
}
_OF_REFUSALS = {  # RequestRefused, which has no class for its response code
    2: Code.TOO_MANY_REQUESTS,  # SYSTEM_BUSY
    209: Code.TOO_MANY_REQUESTS,  # POLLING_FULL
}


class Refused(GantryError):
    """A request is answered with *code* and a text."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


def code_of(error: GantryError) -> Code:
    """Return the code of an error of the plugin or of an operation of the broker."""
    if isinstance(error, Refused):
        return error.code
    for kind in type(error).__mro__:
        if found := _BY_CLASS.get(kind):
            return found
    refused = isinstance(error, RequestRefused)
    return _OF_REFUSALS.get(error.response_code if refused else 0, Code.INTERNAL_SERVER_ERROR)


def status_of(error: GantryError) -> Status:
    """Return the status of an answer that reports *error*."""
    return Status(code=code_of(error), message=str(error))


def ok() -> Status:
    """Return the status of success."""
    return Status(code=Code.OK, message="OK")


def overall(statuses: Iterable[Status], *, without_any: str) -> Status:
    """Return the status of an answer with entries: their common code, or MULTIPLE_RESULTS.

    *without_any*: the text of the refusal of a request without entries.
    """
    codes = {Code(each.code) for each in statuses}
    if not codes:
        return Status(code=Code.BAD_REQUEST, message=without_any)
    code = codes.pop() if len(codes) == 1 else Code.MULTIPLE_RESULTS
    return Status(code=code, message=code.name)
