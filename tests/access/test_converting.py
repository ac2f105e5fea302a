"""Accounts of plain_acl.yml as users and policies: the same decisions, and a warning for what is not carried over."""

import random

import pytest

pytest.importorskip("gantrymq_access_plain")

from gantrymq.model.access import Action, Resource, ResourceType
from gantrymq_access.converting import converted
from gantrymq_access.decisions import Decider
from gantrymq_access.records import Acl, EntryAction, EntryType, PolicyType, UserType
from gantrymq_access_plain.accounts import Account, Perm, Rules, read_rule_file, refusal

PERMS = (Perm.DENY, Perm.PUB, Perm.SUB, Perm.PUB | Perm.SUB)
NAMES = ("A", "AB", "f", "RMQ_SYS_TRACE_TOPIC")
REQUESTS = (
    (Action.PUB,),
    (Action.SUB,),
    (Action.GET,),
    (Action.SUB, Action.GET),
    (Action.SUB, Action.UPDATE),
    (Action.CREATE,),
    (Action.UPDATE,),
    (Action.DELETE,),
)
TYPES = {ResourceType.TOPIC: EntryType.TOPIC, ResourceType.GROUP: EntryType.GROUP}
FILE = """\
globalWhiteRemoteAddresses: [10.10.103.*, 10.10.104.1]
accounts:
- accessKey: orders1
  secretKey: orders-secret
  whiteRemoteAddress: 192.168.1.*
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [Orders=PUB|SUB, Bills=PUB, Closed=DENY, Logs*=SUB]
  groupPerms: [private=PUB]
- accessKey: operator
  secretKey: operator-secret
  admin: true
  topicPerms: [Orders=PUB]
- accessKey: readers
  secretKey: "secret\\twith a tab"
"""


def from_file(text=FILE):
    return converted(Rules.of([read_rule_file(text.encode(), "plain_acl.yml")]))


def entries(acl, kind):
    return [str(each) for each in acl.entries(kind)]


def test_users_and_entries():
    found = from_file()
    assert {name: (user.type, user.secret) for name, user in found.users.items()} == {
        "orders1": (UserType.NORMAL, "orders-secret"),
        "operator": (UserType.SUPER, "operator-secret"),
    }
    assert list(found.acls) == ["orders1"]
    acl = found.acls["orders1"]
    assert entries(acl, PolicyType.CUSTOM) == [
        "Allow Pub,Sub,Get on Topic:Orders",
        "Allow Pub on Topic:Bills",
        "Deny All on Topic:Closed",
        "Allow Pub on Topic:RMQ_SYS_TRACE_TOPIC",
        "Allow Pub on Group:private",
    ]
    assert entries(acl, PolicyType.DEFAULT) == [
        "Deny All on Topic:*",
        "Deny Sub,Get on Group:private",
        "Allow Sub,Get on Group:*",
    ]
    assert Acl.from_json(acl.to_json()) == acl


def test_each_thing_that_is_lost_is_a_warning():
    found = from_file()
    assert list(found.warnings) == [
        "plain_acl.yml: globalWhiteRemoteAddresses is not carried over: clients at 10.10.103.*, 10.10.104.1 need a "
        "user",
        "account orders1: whiteRemoteAddress is not carried over: clients at 192.168.1.* must sign with its secret, "
        "and need the permissions",
        "account orders1: the entry for Topic:Logs* is not carried over: it is no literal name",
        "account operator: its entries (1) are not carried over: a Super user may do everything",
        "account readers is not carried over: the password has a control character; use printable characters",
        "every account could send to RMQ_SYS_TRACE_TOPIC: each of the 1 Normal users got an entry for it, as clients "
        "that trace messages need it",
    ]
    assert not any("secret" in each.replace("its secret", "") for each in found.warnings)


def test_an_account_that_may_do_nothing_gets_the_trace_topic_only():
    (acl,) = from_file("accounts: [{accessKey: orders1, secretKey: 12345678}]").acls.values()
    assert [str(each) for policy in acl.policies for each in policy.entries] == [
        "Allow Pub on Topic:RMQ_SYS_TRACE_TOPIC"
    ]


def random_account(chance):
    def perm():
        return chance.choice(PERMS)

    return Account(
        "orders1",
        "12345678",
        topic_default=chance.choice((None, *PERMS)),
        group_default=chance.choice((None, *PERMS)),
        topics={name: perm() for name in NAMES if chance.random() < 0.6},
        groups={name: perm() for name in NAMES if chance.random() < 0.6},
    )


def test_a_user_may_do_what_the_account_might():
    """Except for reading offsets and messages of a topic by an account that may only send to it."""
    chance = random.Random(46)
    compared = 0
    for _ in range(500):
        account = random_account(chance)
        rules = Rules(accounts={account.access_key: account})
        decider = Decider(converted(rules).acls["orders1"])
        for kind, of_entry in TYPES.items():
            for name in (*NAMES, "Other"):
                resource = Resource(kind, name)
                for actions in REQUESTS:
                    before = not refusal(account, actions, resource, 0)
                    wanted = [EntryAction(each.value) for each in actions]
                    after = decider.decide(wanted, of_entry, name, "10.0.0.1").allowed
                    if kind is ResourceType.TOPIC and actions == (Action.GET,) and account.may(resource) == Perm.PUB:
                        assert (before, after) == (True, False)
                        continue
                    assert (after, account, resource, actions) == (before, account, resource, actions)
                    compared += before
    assert compared > 1_000
