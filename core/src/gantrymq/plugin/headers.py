"""Headers of requests and responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.remoting.headers.admin import CleanRequest as CleanRequest
    from gantrymq.remoting.headers.admin import ResumeCheckHalfMessageRequest as ResumeCheckHalfMessageRequest
    from gantrymq.remoting.headers.base import Header as Header
    from gantrymq.remoting.headers.base import Int32 as Int32
    from gantrymq.remoting.headers.base import Int64 as Int64
    from gantrymq.remoting.headers.base import RequestHeader as RequestHeader
    from gantrymq.remoting.headers.base import header_of as header_of
    from gantrymq.remoting.headers.clients import ConsumeMessageDirectlyRequest as ConsumeMessageDirectlyRequest
    from gantrymq.remoting.headers.clients import GetConsumerConnectionListRequest as GetConsumerConnectionListRequest
    from gantrymq.remoting.headers.clients import GetConsumerRunningInfoRequest as GetConsumerRunningInfoRequest
    from gantrymq.remoting.headers.clients import GetConsumerStatusRequest as GetConsumerStatusRequest
    from gantrymq.remoting.headers.clients import GetProducerConnectionListRequest as GetProducerConnectionListRequest
    from gantrymq.remoting.headers.clients import ResetOffsetRequest as ResetOffsetRequest
    from gantrymq.remoting.headers.controller import CleanBrokerDataRequest as CleanBrokerDataRequest
    from gantrymq.remoting.headers.controller import ElectMasterRequest as ElectMasterRequest
    from gantrymq.remoting.headers.controller import GetMetaDataResponse as GetMetaDataResponse
    from gantrymq.remoting.headers.controller import MasterHeader as MasterHeader
    from gantrymq.remoting.headers.groups import CloneGroupOffsetRequest as CloneGroupOffsetRequest
    from gantrymq.remoting.headers.groups import GetBrokerConsumeStatsRequest as GetBrokerConsumeStatsRequest
    from gantrymq.remoting.headers.groups import GetConsumeStatsRequest as GetConsumeStatsRequest
    from gantrymq.remoting.headers.groups import QueryConsumeQueueRequest as QueryConsumeQueueRequest
    from gantrymq.remoting.headers.groups import QueryConsumeTimeSpanRequest as QueryConsumeTimeSpanRequest
    from gantrymq.remoting.headers.groups import QueryCorrectionOffsetRequest as QueryCorrectionOffsetRequest
    from gantrymq.remoting.headers.groups import (
        QuerySubscriptionByConsumerRequest as QuerySubscriptionByConsumerRequest,
    )
    from gantrymq.remoting.headers.nameserver import AddWritePermOfBrokerResponse as AddWritePermOfBrokerResponse
    from gantrymq.remoting.headers.nameserver import DeleteTopicInNamesrvRequest as DeleteTopicInNamesrvRequest
    from gantrymq.remoting.headers.nameserver import GetKvConfigResponse as GetKvConfigResponse
    from gantrymq.remoting.headers.nameserver import GetKvlistByNamespaceRequest as GetKvlistByNamespaceRequest
    from gantrymq.remoting.headers.nameserver import GetRouteinfoByTopicRequest as GetRouteinfoByTopicRequest
    from gantrymq.remoting.headers.nameserver import GetTopicsByClusterRequest as GetTopicsByClusterRequest
    from gantrymq.remoting.headers.nameserver import KvConfigRequest as KvConfigRequest
    from gantrymq.remoting.headers.nameserver import PutKvConfigRequest as PutKvConfigRequest
    from gantrymq.remoting.headers.nameserver import RegisterBrokerRequest as RegisterBrokerRequest
    from gantrymq.remoting.headers.nameserver import RegisterTopicInNamesrvRequest as RegisterTopicInNamesrvRequest
    from gantrymq.remoting.headers.nameserver import UnregisterBrokerRequest as UnregisterBrokerRequest
    from gantrymq.remoting.headers.nameserver import WipeWritePermOfBrokerResponse as WipeWritePermOfBrokerResponse
    from gantrymq.remoting.headers.nameserver import WritePermOfBrokerRequest as WritePermOfBrokerRequest
    from gantrymq.remoting.headers.offsets import GetEarliestMsgStoretimeRequest as GetEarliestMsgStoretimeRequest
    from gantrymq.remoting.headers.offsets import OffsetResponse as OffsetResponse
    from gantrymq.remoting.headers.offsets import QueryConsumerOffsetRequest as QueryConsumerOffsetRequest
    from gantrymq.remoting.headers.offsets import UpdateConsumerOffsetRequest as UpdateConsumerOffsetRequest
    from gantrymq.remoting.headers.pull import QueryMessageRequest as QueryMessageRequest
    from gantrymq.remoting.headers.send import SendMessageRequest as SendMessageRequest
    from gantrymq.remoting.headers.send import read_send_header as read_send_header
    from gantrymq.remoting.headers.topics import QueryTopicConsumeByWhoRequest as QueryTopicConsumeByWhoRequest
    from gantrymq.remoting.headers.topics import QueryTopicsByConsumerRequest as QueryTopicsByConsumerRequest
else:
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gantrymq.remoting.headers.admin": "CleanRequest ResumeCheckHalfMessageRequest",
            "gantrymq.remoting.headers.base": "Header Int32 Int64 RequestHeader header_of",
            "gantrymq.remoting.headers.clients": (
                "ConsumeMessageDirectlyRequest GetConsumerConnectionListRequest GetConsumerRunningInfoRequest "
                "GetConsumerStatusRequest GetProducerConnectionListRequest ResetOffsetRequest"
            ),
            "gantrymq.remoting.headers.controller": (
                "CleanBrokerDataRequest ElectMasterRequest GetMetaDataResponse MasterHeader"
            ),
            "gantrymq.remoting.headers.groups": (
                "CloneGroupOffsetRequest GetBrokerConsumeStatsRequest GetConsumeStatsRequest QueryConsumeQueueRequest "
                "QueryConsumeTimeSpanRequest QueryCorrectionOffsetRequest QuerySubscriptionByConsumerRequest"
            ),
            "gantrymq.remoting.headers.nameserver": (
                "AddWritePermOfBrokerResponse DeleteTopicInNamesrvRequest GetKvConfigResponse "
                "GetKvlistByNamespaceRequest GetRouteinfoByTopicRequest GetTopicsByClusterRequest "
                "KvConfigRequest PutKvConfigRequest RegisterBrokerRequest RegisterTopicInNamesrvRequest "
                "UnregisterBrokerRequest WipeWritePermOfBrokerResponse WritePermOfBrokerRequest"
            ),
            "gantrymq.remoting.headers.offsets": (
                "GetEarliestMsgStoretimeRequest OffsetResponse QueryConsumerOffsetRequest UpdateConsumerOffsetRequest"
            ),
            "gantrymq.remoting.headers.pull": "QueryMessageRequest",
            "gantrymq.remoting.headers.send": "SendMessageRequest read_send_header",
            "gantrymq.remoting.headers.topics": "QueryTopicConsumeByWhoRequest QueryTopicsByConsumerRequest",
        },
    )
