"""Random policies and requests, and a second implementation of the decision that is as plain as possible.

Names and prefixes shadow each other, networks of both versions contain each other, and entries for one resource occur
in both policies.
"""

from functools import cache
from ipaddress import ip_address, ip_network

NAMES = ("f", "fo", "foo", "fooa", "foob", "foobar", "fooba", "bar", "Foo", "f*", "%DLQ%foo")
PATTERNS = (
    "f",
    "f*",
    "fo*",
    "foo",
    "foo*",
    "fooa",
    "fooa*",
    "foob*",
    "foobar",
    "foobar*",
    "fooba*",
    "ba*",
    "*",
    "%DLQ%*",
)
TYPES = ("Topic", "Group", "Cluster")
ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
WANTED = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "Sub,Get", "Sub,Update", "Pub,Sub,Get")
NETWORKS = {
    4: ("10.0.0.1", "10.0.0.0/30", "10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "192.168.0.0/16"),
    6: ("fd00::1", "fd00::/127", "fd00::/8", "fd00:1::/32", "::/0", "::1"),
}
ADDRESSES = {4: ("10.0.0.1", "10.0.0.5", "10.1.2.3", "192.168.7.7"), 6: ("fd00::1", "fd00::5", "fd00:1::9", "::1")}


def random_policies(random, versions=(4, 6)):
    """Return the policies of a user as in the body of request 3006."""
    kinds = random.choice((("Custom",), ("Default",), ("Custom", "Default"), ("Default", "Custom")))
    return [{"policyType": kind, "entries": random_entries(random, versions)} for kind in kinds]


def random_entries(random, versions):
    resources = {f"{random.choice(TYPES[:2])}:{random.choice(PATTERNS)}" for _ in range(random.randint(1, 9))}
    resources |= {each for each in ("*", "Cluster:*", "Cluster:foo") if random.random() < 0.2}
    shuffled = random.sample(sorted(resources), len(resources))
    return [random_entry(random, each, versions) for each in shuffled]


def random_entry(random, resource, versions):
    actions = ["All"] if random.random() < 0.2 else random.sample(ACTIONS, random.randint(1, 4))
    entry = {"resource": resource, "actions": actions, "decision": random.choice(("Allow", "Deny"))}
    networks = [each for version in versions for each in NETWORKS[version]]
    return {**entry, "sourceIps": random.sample(networks, random.randint(1, 3))} if random.random() < 0.4 else entry


def random_request(random, versions=(4, 6)):
    """Return the wanted actions, the resource, and the address of the client."""
    kind = random.choice(("Topic", "Topic", "Topic", "Group", "Group", "Cluster"))
    return [random.choice(WANTED), f"{kind}:{random.choice(NAMES)}", random.choice(ADDRESSES[random.choice(versions)])]


def plain_decision(policies, request):
    """Return ``a`` (allowed), ``d`` (denied) or ``n`` (no entry applies), by the reference and RocketMQ 5.4's order."""
    for kind in ("Custom", "Default"):
        entries = [entry for each in policies if each["policyType"] == kind for entry in each["entries"]]
        applying = [each for each in entries if applies(each, *request)]
        if applying:
            strongest = max(map(strength, applying))
            decisions = {each["decision"] for each in applying if strength(each) == strongest}
            return "d" if "Deny" in decisions else "a"
    return "n"


def applies(entry, wanted, resource, address):
    kind, name = resource.split(":", 1)
    if entry["resource"] != "*":
        own_kind, own_name = entry["resource"].split(":", 1)
        named = name.startswith(own_name[:-1]) if own_name.endswith("*") else name == own_name
        if own_kind != kind or not named:
            return False
    if "All" not in entry["actions"] and not set(wanted.split(",")) & set(entry["actions"]):
        return False
    sources = entry.get("sourceIps")
    return not sources or any(contains(each, address) for each in sources)


def strength(entry):
    if entry["resource"] == "*":
        return (0, 0)
    name = entry["resource"].split(":", 1)[1]
    if name == "*":
        return (1, 0)
    return (2, len(name)) if name.endswith("*") else (3, 0)


@cache
def contains(network, address):
    return ip_address(address) in ip_network(network)
