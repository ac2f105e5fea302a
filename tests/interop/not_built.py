"""What clients may ask for and this version does not do, with the answer they get.

`test_not_built.py` asks for each; `compatibility.py` writes the table into docs/compatibility.md.
"""

from typing import NamedTuple


class NotBuilt(NamedTuple):
    """One thing asked for and its answer."""

    what: str
    request: int
    ext: dict[str, str]
    code: int
    says: str  # part of the answer's remark


TOPIC = "NotBuilt"
GROUP = {"consumerGroup": "interop", "topic": TOPIC, "queueId": "0"}
SEND = {
    "producerGroup": "interop",
    "topic": TOPIC,
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "0",
    "flag": "0",
    "properties": "",
    "reconsumeTimes": "0",
    "unitMode": "false",
}
PULL = {
    **GROUP,
    "queueOffset": "0",
    "maxMsgNums": "1",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "a > 1",
    "subVersion": "0",
    "expressionType": "SQL92",
}


def _property(name: str, value: str) -> dict[str, str]:
    return {**SEND, "properties": f"{name}\x01{value}\x02"}


TABLE = (
    NotBuilt("SQL92 filters", 11, PULL, 1, "the broker does not support consumer to filter message by SQL92"),
    NotBuilt("static topics", 513, {"topic": TOPIC}, 3, "static topics are not built in this version"),
    NotBuilt("users and permissions", 3001, {}, 3, "access control is not built in this version"),
)
