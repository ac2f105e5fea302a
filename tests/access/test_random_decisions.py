"""Random decisions, compared with a second implementation and with RocketMQ's own."""

import json
from pathlib import Path
from random import Random

import pytest
from random_policies import plain_decision, random_policies, random_request

from gantrymq_access.decisions import Decider
from gantrymq_access.records import Acl, EntryAction, Policy, member_named
from gantrymq_access.records import EntryType as Type

FROZEN = [json.loads(line) for line in (Path(__file__).parent / "java_decisions.jsonl").read_text().splitlines()]
ANSWERS = {(True, False): "a", (False, False): "d", (False, True): "n"}

# Requests (case, number) that RocketMQ decides otherwise.
# A client of one version of IP, and a network of the other: RocketMQ compares the bare numbers.
OTHER_VERSION = {
    (9, 4),
    (19, 8),
    (20, 0),
    (20, 2),
    (20, 5),
    (97, 3),
    (100, 8),
    (108, 7),
    (137, 4),
    (193, 3),
    (195, 0),
    (195, 5),
    (195, 7),
}
# Up to 5.3.3 the shorter prefix, or the later entry, has precedence (issue 9539 of apache/rocketmq).
OLD_PRIORITIES = {
    (13, 6),
    (20, 3),
    (20, 7),
    (20, 8),
    (37, 9),
    (89, 4),
    (112, 0),
    (123, 2),
    (123, 3),
    (123, 6),
    (123, 7),
    (123, 8),
    (130, 1),
    (131, 2),
    (131, 5),
    (143, 3),
    (156, 8),
    (159, 7),
    (165, 6),
    (165, 7),
    (176, 2),
    (182, 8),
    (191, 0),
    (199, 8),
}


def decided(decider, request):
    actions, resource, address = request
    kind, name = resource.split(":", 1)
    wanted = tuple(member_named(EntryAction, each) for each in actions.split(","))
    verdict = decider.decide(wanted, member_named(Type, kind), name, address)
    return ANSWERS[verdict.allowed, verdict.entry is None]


@pytest.mark.parametrize("seed", range(8))
def test_random_decisions_are_those_of_the_plain_implementation(seed):
    random = Random(seed)
    seen = set()
    for _ in range(50):
        policies = random_policies(random)
        decider = Decider(Acl.from_json({"subject": "User:alice", "policies": policies}))
        for request in (random_request(random) for _ in range(40)):
            expected = plain_decision(policies, request)
            assert decided(decider, request) == expected, (policies, request)
            seen.add(expected)
    assert seen == {"a", "d", "n"}


@pytest.mark.parametrize("seed", range(2))
def test_of_two_entries_for_one_resource_deny_decides(seed):
    """They come from files that were edited by hand; requests replace entries."""
    random = Random(seed)
    for _ in range(100):
        policies = random_policies(random)
        for policy in policies:
            twins = [{**each, "decision": random.choice(("Allow", "Deny"))} for each in policy["entries"]]
            policy["entries"] = random.sample(policy["entries"] + twins, 2 * len(twins))
        decider = Decider(Acl("alice", tuple(map(Policy.from_json, policies))))
        for request in (random_request(random) for _ in range(20)):
            assert decided(decider, request) == plain_decision(policies, request), (policies, request)


def test_decisions_do_not_depend_on_the_order_of_entries_and_policies():
    random = Random(5)
    for _ in range(100):
        policies = random_policies(random)
        shuffled = [{**each, "entries": random.sample(each["entries"], len(each["entries"]))} for each in policies]
        one, other = (
            Decider(Acl.from_json({"subject": "User:alice", "policies": each})) for each in (policies, shuffled[::-1])
        )
        for request in (random_request(random) for _ in range(20)):
            assert decided(one, request) == decided(other, request)


def different(version):
    """Return the requests of the frozen cases that we decide otherwise than a version of RocketMQ."""
    found = set()
    for number, case in enumerate(FROZEN):
        decider = Decider(Acl.from_json({"subject": "User:alice", "policies": case["policies"]}))
        ours = "".join(decided(decider, request) for request in case["requests"])
        found |= {(number, index) for index, letter in enumerate(ours) if letter != case[version][index]}
    return found


def test_frozen_decisions_of_5_5_0_are_ours_except_for_networks_of_the_other_version():
    assert sum(len(case["requests"]) for case in FROZEN) == 2000
    assert different("5.5.0") == OTHER_VERSION


def test_frozen_decisions_of_5_3_3_differ_by_its_priorities_as_well():
    assert different("5.3.3") == OTHER_VERSION | OLD_PRIORITIES
