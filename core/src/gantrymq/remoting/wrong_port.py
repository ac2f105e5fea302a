"""What to tell a client that asks a name server for a broker's service, or the other way round.

Such an answer has code 3, as RocketMQ's has; the sentence says what the port is and where the right one is found.

Source of who serves what: apache/rocketmq namesrv/.../processor/DefaultRequestProcessor.java (processRequest),
broker/.../BrokerController.java (registerProcessor); wire reference 2.1 to 2.4.
"""

from __future__ import annotations

from typing import Final

from gantrymq.remoting.codes import RequestCode

__all__ = ["asked_a_broker", "asked_a_name_server"]

_OF_NAME_SERVERS: Final = frozenset(
    {
        RequestCode.PUT_KV_CONFIG,
        RequestCode.GET_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.GET_NAMESRV_CONFIG,
    }
)
_OF_BROKERS: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.END_TRANSACTION,
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
    }
)


def asked_a_broker(code: int) -> str | None:
    """The sentence for a request that a broker got and a name server serves; None for any other."""
    if code not in _OF_NAME_SERVERS:
        return None
    return f"{_named(code)} is for a name server, and this port is a broker's; name servers are usually at port 9876"


def asked_a_name_server(code: int) -> str | None:
    """The sentence for a request that a name server got and a broker serves; None for any other."""
    if code not in _OF_BROKERS:
        return None
    return (
        f"{_named(code)} is for a broker, and this port is a name server's; a topic's route names its brokers' "
        "addresses, usually at port 10911"
    )


def _named(code: int) -> str:
    return f"request {code} {RequestCode(code).name}"
