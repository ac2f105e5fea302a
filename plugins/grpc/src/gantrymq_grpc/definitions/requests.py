"""Requests, responses and methods of the service (`service.proto` of `apache.rocketmq.v2`, version 2.1.2)."""

from collections.abc import MutableSequence
from typing import NamedTuple

from gantrymq_grpc.definitions.enums import (
    ClientType,
    LiteSubscriptionAction,
    QueryOffsetPolicy,
    TransactionResolution,
    TransactionSource,
)
from gantrymq_grpc.definitions.messages import (
    Assignment,
    Duration,
    Endpoints,
    FilterExpression,
    Message,
    MessageQueue,
    OffsetOption,
    Resource,
    Settings,
    Status,
    Timestamp,
)
from gantrymq_grpc.definitions.tables import PACKAGE, Int32, Int64, ProtobufMessage, field, message, one_of, optional


@message
class QueryRouteRequest(ProtobufMessage):
    topic: Resource = field(1)
    endpoints: Endpoints = field(2)


@message
class QueryRouteResponse(ProtobufMessage):
    status: Status = field(1)
    message_queues: MutableSequence[MessageQueue] = field(2)


@message
class SendMessageRequest(ProtobufMessage):
    messages: MutableSequence[Message] = field(1)


@message
class SendResultEntry(ProtobufMessage):
    status: Status = field(1)
    message_id: str = field(2)
    transaction_id: str = field(3)
    offset: Int64 = field(4)
    recall_handle: str = field(5)


@message
class SendMessageResponse(ProtobufMessage):
    status: Status = field(1)
    entries: MutableSequence[SendResultEntry] = field(2)


@message
class QueryAssignmentRequest(ProtobufMessage):
    topic: Resource = field(1)
    group: Resource = field(2)
    endpoints: Endpoints = field(3)


@message
class QueryAssignmentResponse(ProtobufMessage):
    status: Status = field(1)
    assignments: MutableSequence[Assignment] = field(2)


@message
class ReceiveMessageRequest(ProtobufMessage):
    group: Resource = field(1)
    message_queue: MessageQueue = field(2)
    filter_expression: FilterExpression = field(3)
    batch_size: Int32 = field(4)
    invisible_duration: Duration = optional(5)
    auto_renew: bool = field(6)
    long_polling_timeout: Duration = optional(7)
    attempt_id: str = optional(8)


@message
class ReceiveMessageResponse(ProtobufMessage):
    status: Status = one_of("content", 1)
    message: Message = one_of("content", 2)
    delivery_timestamp: Timestamp = one_of("content", 3)


@message
class AckMessageEntry(ProtobufMessage):
    message_id: str = field(1)
    receipt_handle: str = field(2)
    lite_topic: str = optional(3)


@message
class AckMessageRequest(ProtobufMessage):
    group: Resource = field(1)
    topic: Resource = field(2)
    entries: MutableSequence[AckMessageEntry] = field(3)


@message
class AckMessageResultEntry(ProtobufMessage):
    message_id: str = field(1)
    receipt_handle: str = field(2)
    status: Status = field(3)


@message
class AckMessageResponse(ProtobufMessage):
    status: Status = field(1)
    entries: MutableSequence[AckMessageResultEntry] = field(2)


@message
class ForwardMessageToDeadLetterQueueRequest(ProtobufMessage):
    group: Resource = field(1)
    topic: Resource = field(2)
    receipt_handle: str = field(3)
    message_id: str = field(4)
    delivery_attempt: Int32 = field(5)
    max_delivery_attempts: Int32 = field(6)
    lite_topic: str = optional(7)


@message
class ForwardMessageToDeadLetterQueueResponse(ProtobufMessage):
    status: Status = field(1)


@message
class HeartbeatRequest(ProtobufMessage):
    group: Resource = optional(1)
    client_type: ClientType = field(2)


@message
class HeartbeatResponse(ProtobufMessage):
    status: Status = field(1)


@message
class EndTransactionRequest(ProtobufMessage):
    topic: Resource = field(1)
    message_id: str = field(2)
    transaction_id: str = field(3)
    resolution: TransactionResolution = field(4)
    source: TransactionSource = field(5)
    trace_context: str = field(6)


@message
class EndTransactionResponse(ProtobufMessage):
    status: Status = field(1)


@message
class PrintThreadStackTraceCommand(ProtobufMessage):
    nonce: str = field(1)


@message
class ReconnectEndpointsCommand(ProtobufMessage):
    nonce: str = field(1)


@message
class ThreadStackTrace(ProtobufMessage):
    nonce: str = field(1)
    thread_stack_trace: str = optional(2)


@message
class VerifyMessageCommand(ProtobufMessage):
    nonce: str = field(1)
    message: Message = field(2)


@message
class VerifyMessageResult(ProtobufMessage):
    nonce: str = field(1)


@message
class RecoverOrphanedTransactionCommand(ProtobufMessage):
    message: Message = field(1)
    transaction_id: str = field(2)


@message
class NotifyUnsubscribeLiteCommand(ProtobufMessage):
    lite_topic: str = field(1)


@message
class TelemetryCommand(ProtobufMessage):
    status: Status = optional(1)
    settings: Settings = one_of("command", 2)
    thread_stack_trace: ThreadStackTrace = one_of("command", 3)
    verify_message_result: VerifyMessageResult = one_of("command", 4)
    recover_orphaned_transaction_command: RecoverOrphanedTransactionCommand = one_of("command", 5)
    print_thread_stack_trace_command: PrintThreadStackTraceCommand = one_of("command", 6)
    verify_message_command: VerifyMessageCommand = one_of("command", 7)
    reconnect_endpoints_command: ReconnectEndpointsCommand = one_of("command", 8)
    notify_unsubscribe_lite_command: NotifyUnsubscribeLiteCommand = one_of("command", 9)


@message
class NotifyClientTerminationRequest(ProtobufMessage):
    group: Resource = optional(1)


@message
class NotifyClientTerminationResponse(ProtobufMessage):
    status: Status = field(1)


@message
class ChangeInvisibleDurationRequest(ProtobufMessage):
    group: Resource = field(1)
    topic: Resource = field(2)
    receipt_handle: str = field(3)
    invisible_duration: Duration = field(4)
    message_id: str = field(5)
    lite_topic: str = optional(6)
    suspend: bool = optional(7)


@message
class ChangeInvisibleDurationResponse(ProtobufMessage):
    status: Status = field(1)
    receipt_handle: str = field(2)


@message
class PullMessageRequest(ProtobufMessage):
    group: Resource = field(1)
    message_queue: MessageQueue = field(2)
    offset: Int64 = field(3)
    batch_size: Int32 = field(4)
    filter_expression: FilterExpression = field(5)
    long_polling_timeout: Duration = field(6)


@message
class PullMessageResponse(ProtobufMessage):
    status: Status = one_of("content", 1)
    message: Message = one_of("content", 2)
    next_offset: Int64 = one_of("content", 3)


@message
class UpdateOffsetRequest(ProtobufMessage):
    group: Resource = field(1)
    message_queue: MessageQueue = field(2)
    offset: Int64 = field(3)


@message
class UpdateOffsetResponse(ProtobufMessage):
    status: Status = field(1)


@message
class GetOffsetRequest(ProtobufMessage):
    group: Resource = field(1)
    message_queue: MessageQueue = field(2)


@message
class GetOffsetResponse(ProtobufMessage):
    status: Status = field(1)
    offset: Int64 = field(2)


@message
class QueryOffsetRequest(ProtobufMessage):
    message_queue: MessageQueue = field(1)
    query_offset_policy: QueryOffsetPolicy = field(2)
    timestamp: Timestamp = optional(3)


@message
class QueryOffsetResponse(ProtobufMessage):
    status: Status = field(1)
    offset: Int64 = field(2)


@message
class RecallMessageRequest(ProtobufMessage):
    topic: Resource = field(1)
    recall_handle: str = field(2)


@message
class RecallMessageResponse(ProtobufMessage):
    status: Status = field(1)
    message_id: str = field(2)


@message
class SyncLiteSubscriptionRequest(ProtobufMessage):
    action: LiteSubscriptionAction = field(1)
    topic: Resource = field(2)
    group: Resource = field(3)
    lite_topic_set: MutableSequence[str] = field(4)
    version: Int64 = optional(5)
    offset_option: OffsetOption = optional(6)


@message
class SyncLiteSubscriptionResponse(ProtobufMessage):
    status: Status = field(1)


SERVICE = f"{PACKAGE}.MessagingService"


class Method(NamedTuple):
    """The messages of a method, and which side sends several of them."""

    request: type[ProtobufMessage]
    response: type[ProtobufMessage]
    client_streams: bool = False
    server_streams: bool = False


METHODS = {
    "QueryRoute": Method(QueryRouteRequest, QueryRouteResponse),
    "Heartbeat": Method(HeartbeatRequest, HeartbeatResponse),
    "SendMessage": Method(SendMessageRequest, SendMessageResponse),
    "QueryAssignment": Method(QueryAssignmentRequest, QueryAssignmentResponse),
    "ReceiveMessage": Method(ReceiveMessageRequest, ReceiveMessageResponse, server_streams=True),
    "AckMessage": Method(AckMessageRequest, AckMessageResponse),
    "ForwardMessageToDeadLetterQueue": Method(
        ForwardMessageToDeadLetterQueueRequest, ForwardMessageToDeadLetterQueueResponse
    ),
    "PullMessage": Method(PullMessageRequest, PullMessageResponse, server_streams=True),
    "UpdateOffset": Method(UpdateOffsetRequest, UpdateOffsetResponse),
    "GetOffset": Method(GetOffsetRequest, GetOffsetResponse),
    "QueryOffset": Method(QueryOffsetRequest, QueryOffsetResponse),
    "EndTransaction": Method(EndTransactionRequest, EndTransactionResponse),
    "Telemetry": Method(TelemetryCommand, TelemetryCommand, client_streams=True, server_streams=True),
    "NotifyClientTermination": Method(NotifyClientTerminationRequest, NotifyClientTerminationResponse),
    "ChangeInvisibleDuration": Method(ChangeInvisibleDurationRequest, ChangeInvisibleDurationResponse),
    "RecallMessage": Method(RecallMessageRequest, RecallMessageResponse),
    "SyncLiteSubscription": Method(SyncLiteSubscriptionRequest, SyncLiteSubscriptionResponse),
}
