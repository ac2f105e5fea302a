"""Requests as bytes.

    | length int32 | codec 0, header length int24 | header, JSON | body |

Fields are in the order in which a Java client writes them. Only the opaque changes between sends. All numbers from
FIRST_OPAQUE on have ten digits, so the length prefixes stay correct and a request is a join of three pieces.

Sources: apache/rocketmq remoting/.../protocol/RemotingCommand.java (encode), RequestCode.java,
header/SendMessageRequestHeaderV2.java, header/PullMessageRequestHeader.java, heartbeat/HeartbeatData.java.
"""

import json
import struct
import time

FIRST_OPAQUE = 1_000_000_000
LAST_OPAQUE = 2_147_483_647

PULL_MESSAGE = 11
UPDATE_CONSUMER_OFFSET = 15
UPDATE_AND_CREATE_TOPIC = 17
HEART_BEAT = 34
GET_CONSUMER_LIST_BY_GROUP = 38
SEND_MESSAGE_V2 = 310

MAY_HOLD = 0x2
HAS_SUBSCRIPTION = 0x4
ONEWAY = 0x2

_LENGTHS = struct.Struct(">ii")
_PROPERTIES = "UNIQ_KEY\x017F0000010B2C18B4AAC2000000000000\x02WAIT\x01true\x02"


class Request:
    """One request that can be sent many times.

    Args:
        code: of RocketMQ's RequestCode.
        ext: the header's fields.
        body: the bytes after the header.
        oneway: whether no answer is expected.
    """

    def __init__(self, code: int, ext: dict[str, str], body: bytes = b"", *, oneway: bool = False) -> None:
        self.code, self.ext, self.body, self.oneway = code, ext, body, oneway
        header = json.dumps(
            {
                "code": code,
                "extFields": ext,
                "flag": ONEWAY if oneway else 0,
                "language": "JAVA",
                "opaque": FIRST_OPAQUE,
                "serializeTypeCurrentRPC": "JSON",
                "version": 479,
            },
            separators=(",", ":"),
        ).encode()
        before, after = header.split(b"%d" % FIRST_OPAQUE, 1)
        self._before = _LENGTHS.pack(4 + len(header) + len(body), len(header)) + before
        self._after = after + body

    def frame(self, opaque: int) -> bytes:
        """The bytes to send, with *opaque* between FIRST_OPAQUE and LAST_OPAQUE."""
        return b"%b%d%b" % (self._before, opaque, self._after)


def send_request(
    topic: str, queue_id: int, body: bytes, *, group: str = "load", queues: int = 8, more_properties: str = ""
) -> Request:
    """Build a send as the current Java client writes it; an unknown topic is created with *queues* queues.

    *more_properties*: in stored form, with 0x02 at the end.
    """
    ext = {
        "a": group,
        "b": topic,
        "c": "TBW102",
        "d": str(queues),
        "e": str(queue_id),
        "f": "0",
        "g": str(int(time.time() * 1000)),
        "h": "0",
        "i": _PROPERTIES + more_properties,
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
    }
    return Request(SEND_MESSAGE_V2, ext, body)


def pull_request(
    topic: str, queue_id: int, queue_offset: int, group: str, *, most: int = 32, hold_ms: int = 0, sql: str = ""
) -> Request:
    """Build a pull of up to *most* messages; with *hold_ms* an empty pull may be held for that time.

    *sql* is an SQL92 expression; without it, messages of any tag are pulled.
    """
    ext = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
        "maxMsgNums": str(most),
        "sysFlag": str(HAS_SUBSCRIPTION | (MAY_HOLD if hold_ms else 0)),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(hold_ms or 15_000),
        "subscription": sql or "*",
        "subVersion": "1",
        "expressionType": "SQL92" if sql else "TAG",
    }
    return Request(PULL_MESSAGE, ext)


def commit_request(topic: str, queue_id: int, queue_offset: int, group: str) -> Request:
    """Build the offset update that a consumer sends every five seconds for each queue; it gets no answer."""
    ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(queue_offset)}
    return Request(UPDATE_CONSUMER_OFFSET, ext, oneway=True)


def heartbeat_request(client_id: str, topic: str, group: str) -> Request:
    """Build the heartbeat that a push consumer sends every thirty seconds."""
    subscription = {
        "classFilterMode": False,
        "codeSet": [],
        "expressionType": "TAG",
        "subString": "*",
        "subVersion": 1,
        "tagsSet": [],
        "topic": topic,
    }
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    body = {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []}
    return Request(HEART_BEAT, {}, json.dumps(body).encode())


def members_request(group: str) -> Request:
    """Build the request for the member list of the group that a push consumer sends every twenty seconds."""
    return Request(GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})


def create_topic_request(topic: str, queues: int) -> Request:
    """Create or update *topic*."""
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    return Request(UPDATE_AND_CREATE_TOPIC, ext)
