"""Requests that the harness sends: for routes, topics, committed offsets, and some that no client of ours has.

Deliberately independent of GantryMQ's code, so that a test does not check that code with itself. A frame is

    | length int32 | codec 0, header length int24 | header, JSON | body |

Source: apache/rocketmq remoting/.../protocol/RemotingCommand.java (encode).
"""

import json
import re
import socket
import struct
from collections.abc import Mapping
from typing import Any

from polling import wait_until

QUERY_CONSUMER_OFFSET = 14
UPDATE_AND_CREATE_TOPIC = 17
NO_PERMISSION = 16
UPDATE_BROKER_CONFIG = 25
GET_ROUTEINFO_BY_TOPIC = 105
UPDATE_AND_CREATE_GROUP = 200
ROUTE_S = 60.0
_LENGTHS = struct.Struct(">ii")


def route_of(namesrv: str, topic: str) -> str | None:
    """Return the route of *topic* as sent by the name server, or None without a route or an answer."""
    try:
        header, body = request(namesrv, GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    except OSError:
        return None
    return body.decode() if header["code"] == 0 else None


def wait_for_route(namesrv: str, topic: str = "TBW102", deadline_s: float = ROUTE_S) -> str:
    """Wait until the name server knows a broker for *topic*."""

    def look() -> str | None:
        route = route_of(namesrv, topic)
        return route if route and '"brokerName"' in route else None

    return wait_until(look, f"route of {topic} at {namesrv}", deadline_s) or ""


def wait_for_registration(namesrv: str, broker: str) -> None:
    """Wait until *namesrv* has the route of a Java *broker* that has just started, which is told to register.

    A broker 5.3.3 registers at its start, before it knows which name servers answer, and therefore with none of
    them. It registers again 10 s later, and whenever its permission is set.
    """

    def look() -> bool:
        if route_of(namesrv, "TBW102") is not None:
            return True
        header, _ = request(broker, UPDATE_BROKER_CONFIG, {}, b"brokerPermission=6")
        if header["code"] not in (0, NO_PERMISSION):  # one with access control registers in its time
            raise RuntimeError(f"{broker} refused its own permission: {header}")
        return False

    wait_until(look, f"route of {broker} at {namesrv}", ROUTE_S)


def _masters(namesrv: str) -> set[str]:
    """Return the addresses of all masters that the name server knows, at least one: a set is registered before one."""

    def look() -> set[str]:
        return set(re.findall(r'"?0"?:"([^"]+)"', route_of(namesrv, "TBW102") or ""))

    return wait_until(look, f"master at {namesrv}", ROUTE_S)


def create_topic(namesrv: str, topic: str, queues: int = 4, perm: int = 6, attributes: str = "") -> None:
    """Create *topic* on every master that the name server knows, and wait for its route."""
    for broker in _masters(namesrv):
        header, _ = request(
            broker,
            UPDATE_AND_CREATE_TOPIC,
            {
                "topic": topic,
                "defaultTopic": "TBW102",
                "readQueueNums": str(queues),
                "writeQueueNums": str(queues),
                "perm": str(perm),
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": "0",
                "order": "false",
                **({"attributes": attributes} if attributes else {}),
            },
        )
        if header["code"] != 0:
            raise RuntimeError(f"{broker} refused the topic {topic}: {header}")
    wait_for_route(namesrv, topic)


def create_group(
    namesrv: str, group: str, *, retries: int = 16, ordered: bool = False, attributes: Mapping[str, str] | None = None
) -> None:
    """Create *group* on every master, with *retries* after the first attempt; *ordered*: its pops are."""
    config = {
        "groupName": group,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeBroadcastEnable": True,
        "consumeMessageOrderly": ordered,
        "retryQueueNums": 1,
        "retryMaxTimes": retries,
        "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": True,
        "attributes": {f"+{name}": value for name, value in (attributes or {}).items()},
    }
    for broker in _masters(namesrv):
        header, _ = request(broker, UPDATE_AND_CREATE_GROUP, {}, json.dumps(config).encode())
        if header["code"] != 0:
            raise RuntimeError(f"{broker} refused the group {group}: {header}")


def committed(broker: str, group: str, topic: str, queue_id: int) -> int | None:
    """Return the committed queue offset of *group* on the broker, or None if there is none."""
    header, _ = request(
        broker, QUERY_CONSUMER_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
    )
    return int(header["extFields"]["offset"]) if header["code"] == 0 else None


def request(address: str, code: int, ext_fields: dict[str, str], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Send one request on a new connection and return header and body of the response."""
    host, _, port = address.rpartition(":")
    header = json.dumps(
        {
            "code": code,
            "language": "JAVA",
            "version": 479,
            "opaque": 1,
            "flag": 0,
            "extFields": ext_fields,
            "serializeTypeCurrentRPC": "JSON",
        }
    ).encode()
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(_LENGTHS.pack(4 + len(header) + len(body), len(header)) + header + body)
        with connection.makefile("rb") as stream:
            length, split = _LENGTHS.unpack(_exactly(stream.read(_LENGTHS.size), _LENGTHS.size))
            frame = _exactly(stream.read(length - 4), length - 4)
    return json.loads(frame[: split & 0xFFFFFF]), frame[split & 0xFFFFFF :]


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise ConnectionError(f"closed after {len(data)} of {length} bytes")
    return data
