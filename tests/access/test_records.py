"""Users and policies: RocketMQ's JSON and texts, and what is refused."""

import json
import time

import pytest

from gantrymq.errors import FormatError, GantryError, InvalidParameter, NoPermission
from gantrymq_access import records
from gantrymq_access.records import (
    Acl,
    Entry,
    EntryResource,
    Policy,
    PolicyType,
    User,
    UserChange,
    UserStatus,
    UserType,
)

ACL = {
    "policies": [
        {
            "entries": [
                {"actions": ["Pub", "Sub"], "decision": "Allow", "resource": "Topic:Orders"},
                {"actions": ["All"], "decision": "Deny", "resource": "Group:*", "sourceIps": ["10.0.0.0/8", "::1"]},
            ],
            "policyType": "Custom",
        },
        {"entries": [{"actions": ["Get"], "decision": "Allow", "resource": "*"}], "policyType": "Default"},
    ],
    "subject": "User:alice",
}


def entry(**changes):
    return Entry.from_json({"resource": "Topic:T", "actions": ["Pub"], "decision": "Allow", **changes})


def test_a_user_has_the_json_of_rocketmq():
    body = {"password": "secret1", "userStatus": "enable", "userType": "Normal", "username": "bob"}
    user = User.from_json(body)
    assert user == User("bob", "secret1")
    assert user.to_json() == body
    assert "password" not in user.to_json(secrets=False)
    assert User.from_json({"username": "a", "userType": "SUPER", "userStatus": "Disable"}) == User(
        "a", "", UserType.SUPER, UserStatus.DISABLE
    )


def test_no_secret_is_in_a_repr():
    user = User("bob", "hidden-now", old_secret="hidden-before", old_secret_until_ms=5)
    assert "hidden" not in repr(user) + repr(UserChange(secret="hidden"))
    assert "hidden" not in json.dumps(user.to_json(secrets=False))


def test_the_members_of_this_broker_survive():
    user = User("bob", "secret1", old_secret="secret0", old_secret_until_ms=77, certificate="CN=bob")
    assert User.from_json(user.to_json()) == user
    change = UserChange(secret="secret2", certificate="", keep_old_ms=86_400_000)
    assert UserChange.from_json(change.to_json()) == change


def test_blank_members_of_a_change_leave_the_value():
    assert UserChange.from_json({"username": "x", "password": " ", "userType": "", "userStatus": None}) == UserChange()


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"password": 7}, "password is not a text"),
        ({"userType": "Admin"}, "userType 'Admin' is none of Super, Normal"),
        ({"userStatus": "off"}, "userStatus 'off' is none of enable, disable"),
        ({"keepOldPassword": -1}, "keepOldPassword is not a number of milliseconds"),
        ({"keepOldPassword": True}, "keepOldPassword is not a number of milliseconds"),
    ],
)
def test_malformed_members_of_a_user_are_refused(members, text):
    with pytest.raises(FormatError, match=text):
        UserChange.from_json(members)


@pytest.mark.parametrize("name", ["", " ", "\t", "a\nb", "a\0", "\ud800", "x" * 256, "x" * 10_000_000])
def test_a_bad_name_is_refused(name):
    with pytest.raises(InvalidParameter) as refused:
        records.check_user(User(name, "secret1"))
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(("secret", "code"), [("", 16), ("  ", 16), ("x", 29), ("x" * 65_536, 29), ("sec\0ret", 29)])
def test_a_bad_secret_is_refused_without_repeating_it(secret, code):
    with pytest.raises(GantryError) as refused:
        records.check_user(User("bob", secret))
    assert refused.value.response_code == code
    assert len(str(refused.value)) < 200


def test_an_acl_has_the_json_of_rocketmq():
    acl = Acl.from_json(ACL)
    assert acl.to_json() == ACL
    assert acl.user == "alice"
    assert str(acl.entries(PolicyType.CUSTOM)[1]) == "Deny All on Group:* from 10.0.0.0/8,::1"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("*", "*"),
        ("topic:T", "Topic:T"),
        ("GROUP:*", "Group:*"),
        ("Topic:a*", "Topic:a*"),
        ("Topic:a*b*", "Topic:a*"),
        ("Topic:a*b", "Topic:a*b"),
        ("Any:x", "*"),
        ("Cluster:c:1", "Cluster:c:1"),
        ("Namespace:n", "Namespace:n"),
    ],
)
def test_resources_are_read_like_rocketmqs(text, canonical):
    assert str(EntryResource.parse(text)) == canonical


@pytest.mark.parametrize("text", ["", "Topic", "Topic:", "Queue:x", ":x", "Topic:a\n", "Topic:" + "x" * 600])
def test_other_resources_are_refused(text):
    with pytest.raises(NoPermission, match=r"^The resource is null"):
        EntryResource.parse(text)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"actions": []}, "The actions is empty"),
        ({"actions": ["Any"]}, "The actions can not be Any"),
        ({"actions": ["Publish"]}, "The actions of Topic:T are illegal: 'Publish' is none of All, Pub, Sub"),
        ({"decision": ""}, "The decision is null or illegal"),
        ({"decision": "Maybe"}, "The decision is null or illegal"),
        ({"sourceIps": ["1.2.3.999"]}, "The source ip is invalid: '1.2.3.999'"),
        ({"sourceIps": ["10.0.0.0/33"]}, "The source ip is invalid: '10.0.0.0/33'"),
        ({"sourceIps": [""]}, "The source ip is invalid"),
        ({"sourceIps": ["10.0.0.1"] * 1001}, "has 1001 networks"),
    ],
)
def test_bad_entries_are_refused_with_rocketmqs_texts(changes, text):
    with pytest.raises(NoPermission) as refused:
        entry(**changes)
    assert text in str(refused.value)


@pytest.mark.parametrize("changes", [{"actions": "Pub"}, {"actions": [None]}, {"sourceIps": [1]}, {"resource": 1}])
def test_entries_of_other_types_are_refused(changes):
    with pytest.raises(FormatError):
        entry(**changes)


def test_names_are_read_in_any_letter_case():
    assert entry(actions=["pub", "PUB", "all"], decision="deny").to_json() == {
        "actions": ["Pub", "All"],
        "decision": "Deny",
        "resource": "Topic:T",
    }


def test_merging_replaces_the_entry_of_a_resource_and_keeps_the_order():
    acl = Acl("a").merged([Policy(PolicyType.CUSTOM, (entry(), entry(resource="Topic:U")))])
    acl = acl.merged([Policy(PolicyType.CUSTOM, (entry(actions=["Sub"], decision="Deny"),))])
    acl = acl.merged([Policy(PolicyType.DEFAULT, (entry(),))])
    assert list(map(str, acl.entries(PolicyType.CUSTOM))) == ["Deny Sub on Topic:T", "Allow Pub on Topic:U"]
    assert list(map(str, acl.entries(PolicyType.DEFAULT))) == ["Allow Pub on Topic:T"]


def test_removing_the_last_entry_removes_the_policy():
    acl = Acl("a").merged([Policy(PolicyType.CUSTOM, (entry(),)), Policy(PolicyType.DEFAULT, (entry(),))])
    acl = acl.without(EntryResource.parse("Topic:T"), PolicyType.CUSTOM)
    assert [each.type for each in acl.policies] == [PolicyType.DEFAULT]
    assert acl.without(EntryResource.parse("Topic:T"), PolicyType.DEFAULT).policies == ()


def test_a_user_has_at_most_10_000_entries():
    many = tuple(entry(resource=f"Topic:T{number}") for number in range(10_001))
    assert Acl("a").merged([Policy(PolicyType.CUSTOM, many[1:])]).size == 10_000
    with pytest.raises(InvalidParameter, match="10001 policy entries, at most 10000"):
        Acl("a").merged([Policy(PolicyType.CUSTOM, many)])


def test_an_acl_that_says_two_things_about_a_resource_is_refused():
    twice = {"subject": "User:a", "policies": [{"entries": [entry().to_json(), entry(decision="Deny").to_json()]}]}
    with pytest.raises(FormatError, match="two Custom entries for Topic:T"):
        Acl.from_json(twice)


def test_an_acl_without_policies_is_refused():
    with pytest.raises(GantryError, match="The body of acl is null") as refused:
        records.policies_of({"policies": []})
    assert refused.value.response_code == 1


@pytest.mark.parametrize("text", ["", "alice", "User:", "User", "Role:x"])
def test_other_subjects_than_users_are_refused(text):
    with pytest.raises(GantryError) as refused:
        records.parse_subject(text)
    assert refused.value.response_code == 1


def test_the_subject_type_has_any_letter_case_and_the_name_may_have_colons():
    assert records.parse_subject("user:a:b") == "a:b"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "it is empty"),
        (b"\0\0\0", "nothing but zeros or blanks"),
        (b'{"a":1', "it is not JSON at line 1"),
        (b'{"a":1,"a":2}', "the member 'a' twice"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b"[" * 100_000, "too many levels"),
        (b"1" * 10_000, "too many digits"),
        (b"\xff", "not UTF-8 at byte 0"),
    ],
)
def test_other_json_is_refused(data, text):
    with pytest.raises(FormatError, match=text):
        records.read_json(data)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.2.3/32"),
        ("::ffff:10.1.2.3", "10.1.2.3/32"),
        ("fe80::1%eth0", "fe80::1/128"),
        ("0:0:0:0:0:0:0:1", "::1/128"),
        ("", None),
    ],
)
def test_the_address_of_a_client_has_one_form(address, network):
    found = records.source_network(address)
    assert (found and str(found)) == network


def test_a_repeated_member_among_many_is_found_quickly():
    body = ",".join(f'"m{number}":1' for number in range(40_000))
    started = time.process_time()
    with pytest.raises(FormatError, match="the member 'm39999' twice"):
        records.read_json(f'{{{body},"m39999":1}}'.encode())
    assert time.process_time() - started < 2
