"""Error for requests sent to a name server that only brokers serve; the reverse is in `gantrymq.remoting.codes`.

Source: apache/rocketmq broker/.../BrokerController.java (registerProcessor).
"""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.remoting import RequestCode

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


def wrong_port_message(code: int) -> str | None:
    """Return the error for a request code that only brokers serve; None for other codes."""
    if code not in _OF_BROKERS:
        return None
    return (
        f"request {code} {RequestCode(code).name} is for a broker, and this port is a name server's; a topic's route "
        "names its brokers' addresses, usually at port 10911"
    )
