"""Hooks applied to every request of a client before it is sent, in this order:

    namespace       on the names in it (see `namespaces`)
    namespace v2    fields ``nsd`` and ``ns``
    credentials     fields AccessKey, SecurityToken, Signature (see `credentials`)
    VIP channel     the port two below the broker's, for the requests for which Java's client uses it

Sources: apache/rocketmq client/.../impl/MQClientAPIImpl.java (order of its hooks; brokerVIPChannel),
client/.../rpchook/NamespaceRpcHook.java, common/.../MixAll.java (brokerVIPChannel).
"""

from __future__ import annotations

from typing import Final, Self

from gantrymq.client.calls.credentials import Credentials
from gantrymq.client.calls.namespaces import Namespace
from gantrymq.model.hosts import format_address, parse_address
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.signatures import Signer

_VIP_DISTANCE: Final = 2  # a broker's fast port is listenPort - 2
_NAMESPACED: Final = "nsd"
_NAMESPACE: Final = "ns"


class RpcHooks:
    """Hooks of one client, applied by `gantrymq.client.calls.rpc.RpcClient`."""

    def __init__(
        self,
        namespace: Namespace | None = None,
        namespace_v2: str = "",
        credentials: Credentials | None = None,
        vip_channel: bool = False,
    ) -> None:
        """Omitted hooks are not applied."""
        self._namespace = namespace
        self._namespace_v2 = namespace_v2
        self._signer = None if credentials is None else Signer(credentials)
        self._vip_channel = vip_channel

    @classmethod
    def needed(
        cls, namespace: Namespace | None, namespace_v2: str, credentials: Credentials | None, vip_channel: bool
    ) -> Self | None:
        """Return the hooks, or None if none is needed."""
        if namespace is None and not namespace_v2 and credentials is None and not vip_channel:
            return None
        return cls(namespace, namespace_v2, credentials, vip_channel)

    def before_request(self, address: str, request: Command) -> str:
        """Apply the hooks to *request*, once per request; return the address to send it to."""
        if self._namespace is not None:
            self._namespace.wrap_request(request)
        if self._namespace_v2:
            ext = request.ext
            if ext is None:
                ext = request.ext = {}
            ext[_NAMESPACED], ext[_NAMESPACE] = "true", self._namespace_v2
        if self._signer is not None:
            self._signer.sign(request)
        if self._vip_channel and request.code in VIP_CODES:
            return _vip(address)
        return address

    def after_response(self, code: int, answer: Command) -> None:
        """Apply the hooks to the response to a request *code*."""
        if self._namespace is not None:
            self._namespace.unwrap_response(code, answer)


def _vip(address: str) -> str:
    try:
        host, port = parse_address(address)
    except ValueError:  # connecting reports the malformed address
        return address
    return format_address(host, port - _VIP_DISTANCE) if port > _VIP_DISTANCE else address


VIP_CODES: Final = frozenset(  # excluded: pulls, pops and acks, heartbeats, ends of transactions, recalls
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.QUERY_ASSIGNMENT,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.GET_TOPIC_CONFIG,
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.GET_ALL_PRODUCER_INFO,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        RequestCode.QUERY_TOPICS_BY_CONSUMER,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.QUERY_CORRECTION_OFFSET,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.CLONE_GROUP_OFFSET,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.VIEW_BROKER_STATS_DATA,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
        RequestCode.RESUME_CHECK_HALF_MESSAGE,
    }
)
