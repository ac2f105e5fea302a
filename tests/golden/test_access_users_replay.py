"""308 requests to a broker 5.3.3 with users and policies, sent to ours: the same verdict and the same code."""

from pathlib import Path

import pytest
from access_replay import PLUGINS, STARTED_MS, AtOnce, replayed, rows

from gantrymq.model.topic import TopicConfig
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

for needed in ("access.state", "diagnosis", "filter_tag", "pop", "schedule", "storage_memory", "transaction"):
    pytest.importorskip(f"gantrymq_{needed}")

from gantrymq_access.records import Acl, User, UserStatus, UserType  # noqa: E402 (skipped without the plugin)
from gantrymq_access.state import ACLS, USERS, acls_text, users_text  # noqa: E402

CONFIG = Path("/gantrymq/store/config")
SUPER, ALICE, BOB, DAVE = "super", "allowed (alice)", "denied (bob)", "other IP (dave)"
PEOPLE = [
    User("rocketmq", "12345678", UserType.SUPER),
    User("alice", "alicepw1"),
    User("bob", "bobpw123"),
    User("carol", "carolpw1", status=UserStatus.DISABLE),
    User("dave", "davepw12"),
]


def acl(name, *entries):
    members = [{"resource": each, "actions": actions, **more} for each, actions, more in entries]
    return Acl.from_json({"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": members}]})


ALLOW, DENY = {"decision": "Allow"}, {"decision": "Deny"}
ELSEWHERE = {**ALLOW, "sourceIps": ["10.0.0.0/8", "192.168.0.7"]}
POLICIES = [
    acl("alice", ("Topic:TopicA", ["Pub", "Sub"], ALLOW), ("Group:GroupA", ["Pub", "Sub"], ALLOW)),
    acl("bob", ("Topic:TopicA", ["All"], DENY), ("Group:GroupA", ["All"], DENY)),
    acl("dave", ("Topic:*", ["Pub", "Sub"], ELSEWHERE), ("Group:*", ["Pub", "Sub"], ELSEWHERE)),
]
OPERATOR = acl("bob", ("Cluster:DefaultCluster", ["All"], ALLOW))  # what bob got before the last requests


def answered():
    recorded = rows("acl2")
    of_operator = [row for row in recorded if row.request.startswith("bob ")]
    first = [row for row in recorded if row not in of_operator]
    settings = {
        "plugins": f"access,{PLUGINS}",
        "authenticationEnabled": True,
        "authorizationEnabled": True,
    }

    async def main(world):
        found = []
        for wanted, policies in ((first, POLICIES), (of_operator, [OPERATOR])):
            world.files.make_dirs(CONFIG)
            world.files.replace(CONFIG / USERS, users_text(PEOPLE).encode(), 0o600)
            world.files.replace(CONFIG / ACLS, acls_text(policies).encode(), 0o600)
            cluster = Cluster(world, Path("/gantrymq"), settings)
            try:
                await cluster.start()
                cluster.broker.topics.put(TopicConfig("TopicA", 4, 4))
                found += await replayed(cluster, wanted)
            finally:
                await cluster.stop()
        await world.workers.close()
        return found

    return simulate(1, main, start_ms=STARTED_MS, delivery=AtOnce())


NOBODY_ELSE = (ALICE, BOB, DAVE)
REFUSED, NO_HALF_MESSAGE, NOT_SERVED = 16, 1, 3
OTHER_CODES = {
    # Java leaves these to every user
    **dict.fromkeys((("VIEW_MESSAGE_BY_ID 33", who) for who in NOBODY_ELSE), REFUSED),
    **dict.fromkeys((("UPDATE_SUBSCRIPTION_GROUP 200", who) for who in NOBODY_ELSE), REFUSED),
    **dict.fromkeys((("GET_BROKER_CONFIG 26", who) for who in NOBODY_ELSE), REFUSED),
    **dict.fromkeys((("UPDATE_BROKER_CONFIG 25", who) for who in NOBODY_ELSE), REFUSED),
    **dict.fromkeys((("GET_BROKER_RUNTIME_INFO 28", who) for who in NOBODY_ELSE), REFUSED),
    **dict.fromkeys((("GET_ALL_TOPIC_CONFIG 21", who) for who in NOBODY_ELSE), REFUSED),
    ("QUERY_ASSIGNMENT 400", BOB): REFUSED,
    ("QUERY_ASSIGNMENT 400", DAVE): REFUSED,
    ("QUERY_ASSIGNMENT 400", SUPER): 1,  # no member of the group is online
    ("QUERY_ASSIGNMENT 400", ALICE): 1,
    # the topic of a decision is that of its half message, and there is none
    ("END_TRANSACTION 37", BOB): NO_HALF_MESSAGE,
    ("END_TRANSACTION 37", DAVE): NO_HALF_MESSAGE,
    # a broker serves no routes, whoever asks
    ("GET_ROUTE 105 (broker)", BOB): NOT_SERVED,
    ("GET_ROUTE 105 (broker)", DAVE): NOT_SERVED,
}
GROUP_FIRST = {  # the group is checked before the topic
    (name, who) for name in ("PULL 11", "QUERY_CONSUMER_OFFSET 14", "UPDATE_CONSUMER_OFFSET 15") for who in (BOB, DAVE)
} | {("PULL 11 TopicB/GroupB", "alice")}
ALL_NAMED = {  # a heartbeat's refusal names all that is forbidden
    ("HEART_BEAT consumer 34", BOB),
    ("HEART_BEAT consumer 34", DAVE),
    ("HEART_BEAT consumer 34 TopicB/GroupB", "alice"),
}
OTHER_VERB = {("bob deletes Super rocketmq", "bob")}  # "delete" where Java says "update"


def test_verdicts_and_codes_are_those_of_a_java_broker():
    found = answered()
    assert len(found) == 308
    assert {row.key: answer.code for row, answer in found if answer.code != row.code} == OTHER_CODES
    other_words = {
        row.key
        for row, answer in found
        if row.code == answer.code == REFUSED and row.remark.rstrip(".") not in answer.remark
    }
    assert other_words == GROUP_FIRST | ALL_NAMED | OTHER_VERB
