"""Error message for name server requests sent to a broker.

The response has code 3, as in RocketMQ. The message names the kind of this port and the usual port of name servers.

Source: apache/rocketmq namesrv/.../processor/DefaultRequestProcessor.java (processRequest),
broker/.../BrokerController.java (registerProcessor).
"""

from __future__ import annotations

from typing import Final

from gantrymq.remoting.codes import RequestCode

__all__ = ["NAME_SERVER_CODES", "broker_port_message"]

NAME_SERVER_CODES: Final = frozenset(
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


def broker_port_message(code: int) -> str | None:
    """Return the message for a name server request received by a broker; None for other requests."""
    if code not in NAME_SERVER_CODES:
        return None
    name = f"request {code} {RequestCode(code).name}"
    return f"{name} is for a name server, and this port is a broker's; name servers are usually at port 9876"
