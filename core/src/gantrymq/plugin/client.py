"""What commands and libraries that are clients of a cluster use besides `gantrymq.client`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.client.admin.offsets import EARLIEST as EARLIEST
    from gantrymq.client.admin.offsets import LATEST as LATEST
    from gantrymq.client.calls.credentials import resolve_credentials as resolve_credentials
    from gantrymq.client.calls.decoding import decode_messages as decode_messages
    from gantrymq.client.calls.decoding import parse_tags as parse_tags
    from gantrymq.client.calls.outages import Outages as Outages
    from gantrymq.client.calls.rpc import reply_header as reply_header
    from gantrymq.client.calls.rpc import within as within
    from gantrymq.client.connection.request_reply import REPLY_TO_CLIENT as REPLY_TO_CLIENT
    from gantrymq.client.errors import RequestMalformed as RequestMalformed
    from gantrymq.client.group.settings import ConsumerOptions as ConsumerOptions
    from gantrymq.client.message import RESERVED as RESERVED
    from gantrymq.client.message import split_properties as split_properties
    from gantrymq.client.reading.backwards import SLICE as SLICE
    from gantrymq.client.reading.backwards import Backwards as Backwards
    from gantrymq.client.reading.backwards import each_of as each_of
    from gantrymq.client.reading.backwards import first_ends as first_ends
    from gantrymq.client.reading.queue_reading import AGAIN_S as AGAIN_S
    from gantrymq.client.reading.queue_reading import follow as follow
    from gantrymq.client.reading.queue_reading import is_transient as is_transient
    from gantrymq.client.reading.queue_reading import read as read
    from gantrymq.client.routing.routes import BrokerAddresses as BrokerAddresses
    from gantrymq.client.routing.routes import ClusterInfo as ClusterInfo
    from gantrymq.client.routing.routes import QueueGrant as QueueGrant
    from gantrymq.client.routing.routes import TopicRoute as TopicRoute
    from gantrymq.client.sending.encoded_message import in_batches as in_batches
    from gantrymq.client.sending.results import SendNotConnected as SendNotConnected
    from gantrymq.client.sending.results import SendTimedOut as SendTimedOut
    from gantrymq.client.sending.retries import NOT_READY as NOT_READY
    from gantrymq.client.sending.validation import check_batch as check_batch
    from gantrymq.client.sending.validation import check_message as check_message
    from gantrymq.client.tracing.records import EndTransaction as EndTransaction
    from gantrymq.client.tracing.records import Pub as Pub
    from gantrymq.client.tracing.records import SubAfter as SubAfter
    from gantrymq.client.tracing.records import SubBefore as SubBefore
    from gantrymq.client.tracing.records import TraceRecord as TraceRecord
    from gantrymq.client.user_functions import await_result as await_result
    from gantrymq.client.user_functions import check_function as check_function
    from gantrymq.client.user_functions import is_failure as is_failure
    from gantrymq.client.user_functions import running_task as running_task
else:
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gantrymq.client.admin.offsets": "EARLIEST LATEST",
            "gantrymq.client.calls.credentials": "resolve_credentials",
            "gantrymq.client.calls.decoding": "decode_messages parse_tags",
            "gantrymq.client.calls.outages": "Outages",
            "gantrymq.client.calls.rpc": "reply_header within",
            "gantrymq.client.connection.request_reply": "REPLY_TO_CLIENT",
            "gantrymq.client.errors": "RequestMalformed",
            "gantrymq.client.group.settings": "ConsumerOptions",
            "gantrymq.client.message": "RESERVED split_properties",
            "gantrymq.client.reading.backwards": "Backwards SLICE each_of first_ends",
            "gantrymq.client.reading.queue_reading": "AGAIN_S follow is_transient read",
            "gantrymq.client.routing.routes": "BrokerAddresses ClusterInfo QueueGrant TopicRoute",
            "gantrymq.client.sending.encoded_message": "in_batches",
            "gantrymq.client.sending.results": "SendNotConnected SendTimedOut",
            "gantrymq.client.sending.retries": "NOT_READY",
            "gantrymq.client.sending.validation": "check_batch check_message",
            "gantrymq.client.tracing.records": "EndTransaction Pub SubAfter SubBefore TraceRecord",
            "gantrymq.client.user_functions": "await_result check_function is_failure running_task",
        },
    )
