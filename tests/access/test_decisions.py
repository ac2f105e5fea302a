"""Which entry of a user's policies decides."""

import json
import random
import time
from ipaddress import ip_network
from pathlib import Path

import pytest

from gantrymq_access.decisions import Decider
from gantrymq_access.records import Acl, EntryAction, EntryType, source_network

PUB, SUB, GET = EntryAction.PUB, EntryAction.SUB, EntryAction.GET
TOPIC, GROUP, CLUSTER = EntryType.TOPIC, EntryType.GROUP, EntryType.CLUSTER


def entry(resource, decision="Allow", actions="Pub", sources=()):
    return {"resource": resource, "decision": decision, "actions": actions.split(","), "sourceIps": list(sources)}


def decider(*custom, default=()):
    policies = [
        {"policyType": kind, "entries": list(entries)}
        for kind, entries in (("Custom", custom), ("Default", default))
        if entries
    ]
    return Decider(Acl.from_json({"subject": "User:alice", "policies": policies}))


def allowed(decider, name="Orders", actions=(PUB,), kind=TOPIC, address="10.0.0.1"):
    return decider.decide(actions, kind, name, address).allowed


RESOURCES = ("Topic:Orders", "Topic:Ord*", "Topic:Or*", "Topic:*", "*")  # the strongest first


@pytest.mark.parametrize("strong", range(5))
@pytest.mark.parametrize("weak", range(5))
@pytest.mark.parametrize("decision", ["Allow", "Deny"])
def test_the_more_specific_entry_decides_whatever_the_order_of_creation(strong, weak, decision):
    if strong >= weak:
        return
    other = "Deny" if decision == "Allow" else "Allow"
    first, second = entry(RESOURCES[strong], decision), entry(RESOURCES[weak], other)
    for made in (decider(first, second), decider(second, first)):
        verdict = made.decide((PUB,), TOPIC, "Orders", "10.0.0.1")
        assert verdict.allowed == (decision == "Allow")
        assert str(verdict.entry.resource) == RESOURCES[strong]


RECORDED = [json.loads(line) for line in (Path(__file__).parent / "priority.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: ", ".join(case["order"]))
def test_the_recorded_cases_follow_the_rule_of_5_4(case):
    given = [each.split() for each in case["order"]]
    verdict = decider(*(entry(resource, decision) for resource, decision in given)).decide(
        (PUB,), TOPIC, "TopicA", "127.0.0.1"
    )

    def strength(resource):
        name = resource.removeprefix("Topic:")
        return (resource != "*", name != "*", not name.endswith("*"), len(name))

    strongest = max((each for each in given if _matches(each[0], "TopicA")), key=lambda each: strength(each[0]))
    assert verdict.allowed == (strongest[1] == "Allow")


def _matches(resource, name):
    own = resource.removeprefix("Topic:")
    return name.startswith(own[:-1]) if own.endswith("*") else own == name


def test_there_are_28_recorded_cases():
    assert len(RECORDED) == 28


def test_the_default_policy_counts_only_if_no_custom_entry_applies():
    made = decider(entry("Topic:*", "Deny"), default=[entry("Topic:Orders"), entry("Group:*", actions="Sub")])
    assert not allowed(made)
    assert allowed(made, "g", (SUB,), GROUP)
    assert (
        decider(entry("Topic:*", "Deny", "Sub"), default=[entry("Topic:Orders")])
        .decide((PUB,), TOPIC, "Orders", "")
        .allowed
    )


def test_one_of_the_wanted_actions_is_enough_and_the_strongest_entry_decides_for_all():
    made = decider(entry("Topic:Orders", "Deny", "Get"), entry("Topic:Ord*", "Allow", "Sub"))
    assert allowed(made, actions=(SUB,))
    assert not allowed(made, actions=(SUB, GET))


def test_all_stands_for_every_action_and_types_are_separate():
    made = decider(entry("Topic:Orders", actions="All"))
    assert all(allowed(made, actions=(each,)) for each in EntryAction)
    assert not allowed(made, kind=GROUP)
    assert not allowed(made, "Order")
    assert not allowed(made, "orders")


def test_an_asterisk_alone_covers_every_type():
    made = decider(entry("*", actions="Get"))
    assert all(allowed(made, actions=(GET,), kind=kind) for kind in (TOPIC, GROUP, CLUSTER))


@pytest.mark.parametrize(
    ("sources", "address", "expected"),
    [
        (["10.0.0.0/8"], "10.1.2.3", True),
        (["10.0.0.0/8"], "11.1.2.3", False),
        (["10.1.2.3"], "10.1.2.3", True),
        (["10.0.0.0/8"], "::ffff:10.1.2.3", True),
        (["10.0.0.7/8"], "10.200.0.1", True),
        (["::1"], "0:0:0:0:0:0:0:1", True),
        (["::/0"], "10.1.2.3", False),
        (["0.0.0.0/0"], "::1", False),
        (["::a01:203"], "10.1.2.3", False),
        (["2001:db8::/32"], "2001:db8:1::5", True),
        (["fe80::/10"], "fe80::1%eth0", True),
        (["0.0.0.0/0", "::/0"], "", False),
        ([], "", True),
    ],
)
def test_networks_of_both_versions_are_compared_by_address(sources, address, expected):
    assert allowed(decider(entry("Topic:Orders", sources=sources)), address=address) is expected


def test_an_entry_of_other_networks_leaves_the_decision_to_a_weaker_one():
    made = decider(entry("Topic:Orders", "Deny", sources=["10.0.0.0/8"]), entry("Topic:*"))
    assert not allowed(made)
    assert allowed(made, address="192.168.0.1")


def test_a_verdict_names_its_entry():
    made = decider(entry("Topic:Ord*", "Deny"), default=[entry("Group:g", actions="Sub")])
    verdict = made.decide((PUB,), TOPIC, "Orders", "10.0.0.1")
    assert (verdict.policy.value, str(verdict.entry)) == ("Custom", "Deny Pub on Topic:Ord*")
    assert verdict.reason == "the decision is deny"
    nothing = made.decide((PUB,), GROUP, "h", "10.0.0.1")
    assert (nothing.entry, nothing.reason) == (None, "no matched policies")


def test_random_policies_are_decided_like_a_plain_search():
    chosen = random.Random(7)
    names = ["", "f", "fo", "foo", "fooa", "foobar", "foob", "g"]
    resources = ["*", "Topic:*", "Group:*"]
    resources += [f"{kind}:{name}{star}" for kind in ("Topic", "Group") for name in names[1:] for star in ("", "*")]
    sources = ["10.0.0.0/8", "10.1.0.0/16", "10.1.1.1", "::/0", "2001:db8::/32"]
    for _ in range(400):
        policies = []
        for kind in ("Custom", "Default"):
            some = chosen.sample(resources, chosen.randrange(1, 9))
            entries = [
                entry(
                    each,
                    chosen.choice(["Allow", "Deny"]),
                    ",".join(chosen.sample(["Pub", "Sub", "Get", "All"], chosen.randrange(1, 3))),
                    chosen.sample(sources, chosen.choice([0, 0, 1, 2])),
                )
                for each in some
            ]
            policies.append({"policyType": kind, "entries": entries})
        made = Decider(Acl.from_json({"subject": "User:a", "policies": policies}))
        for _ in range(20):
            actions = chosen.sample([PUB, SUB, GET], chosen.choice([1, 2]))
            kind, name = chosen.choice([TOPIC, GROUP]), chosen.choice([*names[1:], "foobarx", "x"])
            address = chosen.choice(["10.1.1.1", "10.9.9.9", "9.9.9.9", "2001:db8::1", "::1"])
            verdict = made.decide(actions, kind, name, address)
            assert verdict.allowed == plain(policies, actions, kind, name, address)


def plain(policies, actions, kind, name, address):
    """Search like the text of the rule: all candidates, sorted by strength."""
    wanted = {each.value for each in actions}
    for policy in policies:
        found = []
        for each in policy["entries"]:
            resource = each["resource"]
            type_, _, own = resource.partition(":")
            if resource != "*" and type_ != kind.value:
                continue
            if resource != "*" and not (name.startswith(own[:-1]) if own.endswith("*") else name == own):
                continue
            if "All" not in each["actions"] and not wanted & set(each["actions"]):
                continue
            mine = source_network(address)
            nets = [ip_network(text) for text in each["sourceIps"]]
            if nets and not any(net.version == mine.version and mine.subnet_of(net) for net in nets):
                continue
            strength = (resource != "*", own != "*", not own.endswith("*"), len(own))
            found.append((strength, each["decision"]))
        if found:
            return max(found)[1] == "Allow"
    return False


def test_the_time_of_a_decision_does_not_grow_with_the_entries():
    many = [entry(f"Topic:orders-{number}", sources=["10.0.0.0/8"]) for number in range(5_000)]
    many += [entry(f"Topic:{'p' * (number % 200)}{number}*") for number in range(5_000)]
    made = decider(*many)
    made.compile()
    started = time.thread_time()
    for number in range(1_000):
        made.decide((PUB,), TOPIC, f"orders-{number + 4_000}", "10.0.0.1")
    # 10 us on an idle machine; a search of all entries takes more than 1 ms
    assert (time.thread_time() - started) / 1_000 < 500e-6
