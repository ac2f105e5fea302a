"""Requests of every code, with whatever a server must be given so that it gets to what the request does."""

import json

TOPIC, GROUP = "Secret", "readers"
HANDLE = "0 1700000000000 60000 0 0 broker-a 0 0"  # of a pop


def header(stored, topic=TOPIC, group=GROUP):
    """Return the fields of all requests at once; those of V2 sends have one letter.

    *stored*: offset of a message in the log.
    """
    sends = (group, topic, "TBW102", "4", "0", "0", "1700000000000", "0", "", "0", "false", "16")
    fields = dict(zip("abcdefghijkl", sends, strict=True))
    names = "consumerGroup group groupName srcGroup destGroup compareGroup producerGroup subscriptionGroup"
    fields |= dict.fromkeys(names.split(), group)
    fields |= dict.fromkeys(("topic", "topicName", "filterTopic"), topic)
    return {
        **fields,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "bornTime": "1700000000000",
        "flag": "0",
        "properties": "",
        "queueOffset": "0",
        "maxMsgNums": "8",
        "maxMsgNum": "8",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "1",
        "offset": str(stored),
        "delayLevel": "1",
        "key": "k",
        "maxNum": "8",
        "beginTimestamp": "0",
        "endTimestamp": "9000000000000",
        "timestamp": "0",
        "isForce": "true",
        "clientID": "c1",
        "clientId": "c1",
        "originMsgId": "",
        "tranStateTableOffset": "0",
        "commitLogOffset": str(stored),
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "msgId": "",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "invisibleTime": "60000",
        "pollTime": "0",
        "initMode": "0",
        "extraInfo": HANDLE,
        "recallHandle": "djEgYnJva2VyLWEgMTcwMDAwMDAwMDAwMCBhYWFh",
        "statsName": "TOPIC_PUT_NUMS",
        "statsKey": topic,
        "cleanGroupOffset": "true",
        "readable": "false",
        "index": "0",
        "count": "1",
        "masterFlushOffset": "0",
        "brokerId": "0",
        "number": "0",
        "waitMillis": "0",
        "filterGroups": group,
        "offline": "true",
    }


def body(code, topic=TOPIC, group=GROUP):
    """Return the body of a request, None if it has none."""
    queue = {"topic": topic, "brokerName": "broker-a", "queueId": 0}
    subscription = {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    consumer = {"groupName": group, "subscriptionDataSet": [subscription]}
    made = {
        18: {"topicConfigList": [{"topicName": topic, "readQueueNums": 1, "writeQueueNums": 1, "perm": 0}]},
        34: {"clientID": "c1", "producerDataSet": [], "consumerDataSet": [consumer]},
        41: {"consumerGroup": group, "clientId": "c1", "mqSet": [queue]},
        42: {"consumerGroup": group, "clientId": "c1", "mqSet": [queue]},
        46: {"clientId": "c1", "group": group, "subscriptionData": subscription},
        200: {"groupName": group, "consumeEnable": False},
        225: {"groupConfigList": [{"groupName": group, "consumeEnable": False}]},
        400: {"topic": topic, "consumerGroup": group, "clientId": "c1", "strategyName": "AVG"},
        401: {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0},
        200071: {
            "subscriptionSet": [
                {"action": "PARTIAL_ADD", "clientId": "c1", "group": group, "topic": topic, "liteTopicSet": ["lite"]}
            ]
        },
        200151: {
            "brokerName": "broker-a",
            "acks": [{"c": group, "t": topic, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 60000, "b": "AQ=="}],
        },
    }.get(code)
    if code in (10, 310, 324, 325):
        return b"body"
    if code == 320:
        properties = b"a\1b\2"
        return b"".join(
            each.to_bytes(4, "big") if isinstance(each, int) else each
            for each in (24 + len(properties) - 2, 0, 0, 0, 4, b"body", len(properties).to_bytes(2, "big"), properties)
        )
    return b"brokerPermission=0" if code == 25 else None if made is None else json.dumps(made).encode()
