"""236 requests to a broker 4.9.7 with plain_acl.yml, sent to ours: the same verdict and the same code."""

from pathlib import Path

import pytest
from access_replay import PLUGINS, STARTED_MS, AtOnce, replayed, rows

from gantrymq.model.topic import TopicConfig
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

for needed in ("access_plain", "diagnosis", "filter_tag", "pop", "schedule", "storage_memory", "transaction"):
    pytest.importorskip(f"gantrymq_{needed}")

HOME = Path("/rocketmq")
ACCOUNTS = b"""\
globalWhiteRemoteAddresses:
- 10.10.103.*
- 10.10.104.1
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress: null
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - TopicA=PUB|SUB
  - TopicSub=SUB
  groupPerms:
  - GroupB=DENY
  - GroupA=SUB
- accessKey: rocketmq2
  secretKey: 12345678
  whiteRemoteAddress: 192.168.1.*
  admin: true
- accessKey: white123
  secretKey: 12345678
  whiteRemoteAddress: 127.0.0.1
  admin: false
- accessKey: pubonly1
  secretKey: 12345678
  admin: false
  defaultTopicPerm: PUB
  defaultGroupPerm: DENY
"""
ACL_EXCEPTION = "org.apache.rocketmq.acl.common.AclException: "
NOT_ALLOWED = f"{ACL_EXCEPTION}No default permission for group:GroupA"
ACCOUNT, PUBLISHER = "account (RocketMQ)", "pubonly1"


def only_admins(code, name):
    return f"{ACL_EXCEPTION}Need admin permission for request code={code}, but accessKey={name} is not"


CHECKED_HERE = {  # Java leaves them to every account with a right signature
    ("QUERY_CONSUMER_OFFSET 14", PUBLISHER): NOT_ALLOWED,
    ("LOCK_BATCH_MQ 41", PUBLISHER): NOT_ALLOWED,
    ("UNLOCK_BATCH_MQ 42", PUBLISHER): NOT_ALLOWED,
    ("GET_CONSUMER_CONNECTION_LIST 203", PUBLISHER): NOT_ALLOWED,
    ("GET_BROKER_CONFIG 26", ACCOUNT): only_admins(26, "RocketMQ"),
    ("GET_BROKER_CONFIG 26", PUBLISHER): only_admins(26, "pubonly1"),
    ("GET_BROKER_RUNTIME_INFO 28", ACCOUNT): only_admins(28, "RocketMQ"),
    ("GET_BROKER_RUNTIME_INFO 28", PUBLISHER): only_admins(28, "pubonly1"),
    ("GET_ALL_TOPIC_CONFIG 21", ACCOUNT): only_admins(21, "RocketMQ"),
    ("GET_ALL_TOPIC_CONFIG 21", PUBLISHER): only_admins(21, "pubonly1"),
}
OTHER_WORDS = {  # the group is checked first, and a heartbeat's refusal names all that is forbidden
    ("PULL 11", PUBLISHER): NOT_ALLOWED,
    ("HEART_BEAT consumer 34", PUBLISHER): f"{NOT_ALLOWED}; {ACL_EXCEPTION}No default permission for topic:TopicA",
}


def test_verdicts_and_codes_are_those_of_a_java_broker():
    recorded = rows("acl49")
    settings = {"plugins": f"access_plain,{PLUGINS}", "aclEnable": True, "aclHome": str(HOME)}

    async def main(world):
        world.files.make_dirs(HOME / "conf")
        world.files.replace(HOME / "conf" / "plain_acl.yml", ACCOUNTS)
        cluster = Cluster(world, Path("/gantrymq"), settings)
        try:
            await cluster.start()
            cluster.broker.topics.put(TopicConfig("TopicSub", 4, 4))
            return await replayed(cluster, recorded)
        finally:
            await cluster.stop()
            await world.workers.close()

    answered = simulate(1, main, start_ms=STARTED_MS, delivery=AtOnce())
    assert len(answered) == 236
    assert {
        row.key: answer.remark
        for row, answer in answered
        if (answer.code, is_refused(answer.remark)) != (row.code, is_refused(row.remark))
    } == CHECKED_HERE
    assert all(answer.code == 1 for row, answer in answered if is_refused(answer.remark))
    assert {
        row.key: answer.remark for row, answer in answered if is_refused(row.remark) and answer.remark != row.remark
    } == OTHER_WORDS


def is_refused(remark):
    return ACL_EXCEPTION in (remark or "")
