"""The messages that requests have in common (`definition.proto` of `apache.rocketmq.v2`, version 2.1.2)."""

from collections.abc import MutableMapping, MutableSequence
from enum import IntEnum

from gantrymq_grpc.definitions.enums import (
    AddressScheme,
    ClientType,
    Code,
    DigestType,
    Encoding,
    FilterType,
    Language,
    MessageType,
    Permission,
)
from gantrymq_grpc.definitions.tables import Float, Int32, Int64, ProtobufMessage, field, message, one_of, optional


@message
class Timestamp(ProtobufMessage):
    package = "google.protobuf"
    seconds: Int64 = field(1)
    nanos: Int32 = field(2)


@message
class Duration(ProtobufMessage):
    package = "google.protobuf"
    seconds: Int64 = field(1)
    nanos: Int32 = field(2)


@message
class Resource(ProtobufMessage):
    resource_namespace: str = field(1)
    name: str = field(2)


@message
class Address(ProtobufMessage):
    host: str = field(1)
    port: Int32 = field(2)


@message
class Endpoints(ProtobufMessage):
    scheme: AddressScheme = field(1)
    addresses: MutableSequence[Address] = field(2)


@message
class Broker(ProtobufMessage):
    name: str = field(1)
    id: Int32 = field(2)
    endpoints: Endpoints = field(3)


@message
class MessageQueue(ProtobufMessage):
    topic: Resource = field(1)
    id: Int32 = field(2)
    permission: Permission = field(3)
    broker: Broker = field(4)
    accept_message_types: MutableSequence[MessageType] = field(5)


@message
class Assignment(ProtobufMessage):
    message_queue: MessageQueue = field(1)


@message
class Digest(ProtobufMessage):
    type: DigestType = field(1)
    checksum: str = field(2)


@message
class DeadLetterQueue(ProtobufMessage):
    topic: str = field(1)
    message_id: str = field(2)


@message
class SystemProperties(ProtobufMessage):
    tag: str = optional(1)
    keys: MutableSequence[str] = field(2)
    message_id: str = field(3)
    body_digest: Digest = field(4)
    body_encoding: Encoding = field(5)
    message_type: MessageType = field(6)
    born_timestamp: Timestamp = field(7)
    born_host: str = field(8)
    store_timestamp: Timestamp = optional(9)
    store_host: str = field(10)
    delivery_timestamp: Timestamp = optional(11)
    receipt_handle: str = optional(12)
    queue_id: Int32 = field(13)
    queue_offset: Int64 = optional(14)
    invisible_duration: Duration = optional(15)
    delivery_attempt: Int32 = optional(16)
    message_group: str = optional(17)
    trace_context: str = optional(18)
    orphaned_transaction_recovery_duration: Duration = optional(19)
    dead_letter_queue: DeadLetterQueue = optional(20)
    lite_topic: str = optional(21)
    priority: Int32 = optional(22)


@message
class Message(ProtobufMessage):
    topic: Resource = field(1)
    user_properties: MutableMapping[str, str] = field(2)
    system_properties: SystemProperties = field(3)
    body: bytes = field(4)


@message
class Status(ProtobufMessage):
    code: Code = field(1)
    message: str = field(2)


@message
class FilterExpression(ProtobufMessage):
    type: FilterType = field(1)
    expression: str = field(2)


@message
class SubscriptionEntry(ProtobufMessage):
    topic: Resource = field(1)
    expression: FilterExpression = field(2)


@message
class ExponentialBackoff(ProtobufMessage):
    initial: Duration = field(1)
    max: Duration = field(2)
    multiplier: Float = field(3)


@message
class CustomizedBackoff(ProtobufMessage):
    next: MutableSequence[Duration] = field(1)


@message
class RetryPolicy(ProtobufMessage):
    max_attempts: Int32 = field(1)
    exponential_backoff: ExponentialBackoff = one_of("strategy", 2)
    customized_backoff: CustomizedBackoff = one_of("strategy", 3)


@message
class UA(ProtobufMessage):
    language: Language = field(1)
    version: str = field(2)
    platform: str = field(3)
    hostname: str = field(4)


@message
class Publishing(ProtobufMessage):
    topics: MutableSequence[Resource] = field(1)
    max_body_size: Int32 = field(2)
    validate_message_type: bool = field(3)


@message
class Subscription(ProtobufMessage):
    group: Resource = optional(1)
    subscriptions: MutableSequence[SubscriptionEntry] = field(2)
    fifo: bool = optional(3)
    receive_batch_size: Int32 = optional(4)
    long_polling_timeout: Duration = optional(5)
    lite_subscription_quota: Int32 = optional(6)
    max_lite_topic_size: Int32 = optional(7)


@message
class Metric(ProtobufMessage):
    on: bool = field(1)
    endpoints: Endpoints = optional(2)


@message
class Settings(ProtobufMessage):
    client_type: ClientType = optional(1)
    access_point: Endpoints = optional(2)
    backoff_policy: RetryPolicy = optional(3)
    request_timeout: Duration = optional(4)
    publishing: Publishing = one_of("pub_sub", 5)
    subscription: Subscription = one_of("pub_sub", 6)
    user_agent: UA = field(7)
    metric: Metric = field(8)


@message
class OffsetOption(ProtobufMessage):
    class Policy(IntEnum):
        LAST = 0
        MIN = 1
        MAX = 2

    policy: Policy = one_of("offset_type", 1)
    offset: Int64 = one_of("offset_type", 2)
    tail_n: Int64 = one_of("offset_type", 3)
    timestamp: Int64 = one_of("offset_type", 4)
