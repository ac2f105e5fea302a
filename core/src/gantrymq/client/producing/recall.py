"""Recall of timed messages: one request to the broker named in the handle.

    handle = URL-safe Base64 of "v1 <topic> <broker> <time> <unique id>"

Source: apache/rocketmq common/.../producer/RecallMessageHandle.java, client/.../impl/MQClientAPIImpl.java
(recallMessage).
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from gantrymq.client.argument_types import check_text
from gantrymq.client.calls.rpc import CALL_TIMEOUT_S, refused
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.errors import InvalidParameter
from gantrymq.remoting import command
from gantrymq.remoting.codes import RequestCode, ResponseCode

_VERSION: Final = "v1"
_PARTS: Final = 5


async def recall(instance: ClientInstance, group: str, topic: str, handle: str) -> str:
    """Recall a timed message, see `gantrymq.client.Producer.recall`."""
    broker_name = _broker_of(handle)
    address = await instance.routes.find_broker(topic, broker_name)
    fields = {"producerGroup": group, "topic": topic, "recallHandle": handle, "bname": broker_name}
    reply = await instance.rpc.send(address, command.request(RequestCode.RECALL_MESSAGE, fields), CALL_TIMEOUT_S)
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, address)
    return (reply.ext or {}).get("msgId", "")


def _broker_of(handle: str) -> str:
    check_text("handle", handle)
    try:
        parts = base64.urlsafe_b64decode(handle).decode().split(" ")
    except (binascii.Error, ValueError):
        parts = []
    if len(parts) < _PARTS or parts[0] != _VERSION:
        raise InvalidParameter(f"{handle!r} is not a recall handle; a timed send returns one")
    return parts[2]
