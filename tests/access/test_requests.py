"""Requests about users and policies (3001 to 3010): RocketMQ's codes and remarks, and who may send them."""

import asyncio
import json

import pytest
from access_rig import ROOT, SECRETS

from gantrymq.model.role import Role
from gantrymq.remoting.command import request
from gantrymq_access.records import Acl, policies_of


def members(answer):
    return json.loads(bytes(answer.body)) if answer.body else None


def test_recorded_requests_of_mqadmin_are_answered_like_a_5_3_3_broker(run, recorded):
    async def main(rig):
        await rig.create("root2", userType="Super")
        for number, each in enumerate(recorded):
            answer, wanted = await rig.ask(each["code"], each["fields"], each["body"]), each["answer"]
            assert (number, answer.code) == (number, wanted["code"]), answer.remark
            assert answer.remark.startswith(wanted["remark"].rstrip(".")), number
            assert members(answer) == wanted["body"], number

    assert len(recorded) == 36
    run(main)


def test_without_access_control_the_requests_name_the_settings(run):
    async def main(rig):
        answer = await rig.ask(3005, user="")
        assert answer.code == 3
        assert "set authenticationEnabled=true and authorizationEnabled=true" in answer.remark

    run(main, authorizer="", authenticationEnabled=False, authorizationEnabled=False)


@pytest.mark.parametrize(
    ("code", "fields", "body", "wanted"),
    [
        (3001, {"username": " "}, {"password": "secret1"}, (29, "The username is blank")),
        (3001, {"username": "new"}, {}, (16, "password can not be blank")),
        (3001, {"username": "new"}, None, (16, "password can not be blank")),
        (3001, {"username": "new"}, {"password": "short"}, (29, "the password has 5 characters")),
        (3001, {"username": "a\nb"}, {"password": "secret1"}, (29, "control character")),
        (3001, {"username": "new"}, {"password": "secret1", "userType": "Admin"}, (1, "userType 'Admin' is none of")),
        (3001, {"username": "new"}, [], (1, "the body is not a JSON object")),
        (3002, {"username": ""}, {}, (29, "The username is blank")),
        (3002, {"username": "none"}, {"userStatus": "disable"}, (16, "The user is not exist")),
        (3003, {"username": ""}, None, (29, "The username is blank")),
        (3003, {"username": "none"}, None, (0, "not set any response code")),
        (3004, {"username": ""}, None, (29, "The username is blank")),
        (3006, {"subject": "User:alice"}, None, (1, "The body of acl is null")),
        (3006, {"subject": "User:alice"}, {"policies": []}, (1, "The body of acl is null")),
        (3006, {"subject": "User:alice"}, {"policies": [{"entries": []}]}, (16, "The policy entries is empty")),
        (3006, {"subject": "Role:alice"}, {"policies": [{"entries": [{}]}]}, (1, "is not a user such as User:alice")),
        (3006, {"subject": "User:alice"}, {"policies": [{"entries": [{}]}]}, (16, "The resource is null")),
        (3008, {"subject": "User:none"}, None, (16, "The subject is not exist.")),
        (3008, {"subject": "User:alice", "policyType": "Other"}, None, (29, "neither Custom nor Default")),
        (3009, {"subject": "User:none"}, None, (16, "The subject is not exist.")),
    ],
)
def test_refusals_have_rocketmqs_codes(run, code, fields, body, wanted):
    async def main(rig):
        await rig.create("alice")
        answer = await rig.ask(code, fields, body)
        assert answer.code == wanted[0]
        assert wanted[1] in answer.remark

    run(main)


def test_a_repeated_member_and_a_deep_body_are_refused(run):
    async def main(rig):
        for body in (b'{"password":"secret1","password":"secret2"}', b"[" * 1_000 + b"]" * 1_000):
            answer = await rig.send(request(3001, {"username": "new"}, body))
            assert (answer.code, "not a JSON object" in answer.remark) == (1, True)
            assert "secret" not in answer.remark

    run(main)


TAKEN_AWAY = [(3003, None), (3002, {"userStatus": "disable"}), (3002, {"userType": "Normal"})]


@pytest.mark.parametrize(("code", "body"), TAKEN_AWAY)
def test_the_account_of_the_broker_stays(run, code, body):
    """Without it the other servers would refuse the broker, and a secured name server forget it."""

    async def main(rig):
        answer = await rig.ask(code, {"username": "inner"}, body)
        assert (answer.code, "innerClientAuthenticationCredentials first" in answer.remark) == (16, True)
        assert (await rig.ask(3002, {"username": "inner"}, {"password": "another-secret"})).code == 0

    run(main, innerClientAuthenticationCredentials=json.dumps({"accessKey": "inner", "secretKey": "inner-secret"}))


@pytest.mark.parametrize(("code", "body"), TAKEN_AWAY)
def test_the_last_enabled_super_user_stays(run, code, body):
    async def main(rig):
        await rig.create("root2", userType="Super", userStatus="disable")
        answer = await rig.ask(code, {"username": ROOT}, body)
        assert answer.code == 16
        assert answer.remark.startswith("User:rocketmq is the last enabled Super user")
        await rig.ask(3002, {"username": "root2"}, {"userStatus": "enable"})
        assert (await rig.ask(code, {"username": ROOT}, body)).code == 0

    run(main)


def test_a_user_is_deleted_with_its_policies(run):
    async def main(rig):
        await rig.create("alice")
        await rig.grant("alice", "Topic:T")
        assert (await rig.ask(3003, {"username": "alice"})).code == 0
        await rig.create("alice")
        assert members(await rig.ask(3009, {"subject": "User:alice"})) is None

    run(main)


async def an_operator(rig):
    """Create ``ops``, who may manage the cluster and send to topics with a prefix, but is not Super."""
    await rig.create("ops")
    await rig.create("alice")
    await rig.grant("ops", "Cluster:*", "Get,Update")
    await rig.grant("ops", "Topic:orders*", "Pub,Sub", sources=["10.0.0.0/8", "127.0.0.0/8"])
    await rig.grant("ops", "Topic:orders-secret", "All", "Deny")
    await rig.grant("ops", "Group:billing", "All")


def test_only_a_super_user_reads_secrets(run):
    async def main(rig):
        await an_operator(rig)
        for code, fields in ((3004, {"username": ROOT}), (3005, {})):
            answer = await rig.ask(code, fields, user="ops")
            assert answer.code == 0
            assert b"assword" not in bytes(answer.body)
            assert SECRETS[ROOT].encode() not in bytes(answer.body)

    run(main)


def test_a_user_who_is_not_super_changes_no_super_user(run):
    async def main(rig):
        await an_operator(rig)
        asked = [
            (3001, {"username": "x"}, {"password": "secret1", "userType": "Super"}, 1, "create"),
            (3002, {"username": "alice"}, {"userType": "Super"}, 1, "update"),
            (3002, {"username": ROOT}, {"password": "secret1"}, 16, "update"),
            (3003, {"username": ROOT}, None, 16, "delete"),
        ]
        for code, fields, body, wanted, word in asked:
            answer = await rig.ask(code, fields, body, user="ops")
            assert (answer.code, answer.remark) == (wanted, f"The super user can only be {word} by super user")
        assert (await rig.ask(3001, {"username": "x"}, {"password": "secret1"}, user="ops")).code == 0

    run(main)


@pytest.mark.parametrize(
    ("resource", "actions", "decision", "sources", "code"),
    [
        ("Topic:orders-1", "Pub", "Allow", ["10.1.0.0/16"], 0),
        ("Topic:orders-1", "Pub", "Allow", [], 16),  # from everywhere
        ("Topic:orders-1*", "Pub,Sub", "Allow", ["127.0.0.1"], 0),
        ("Topic:orders*", "Pub", "Allow", ["127.0.0.1"], 16),  # covers what is denied
        ("Topic:orders-secret", "Pub", "Allow", ["127.0.0.1"], 16),
        ("Topic:orders-1", "Delete", "Allow", ["127.0.0.1"], 16),
        ("Topic:*", "Pub", "Allow", ["127.0.0.1"], 16),
        ("*", "Get", "Allow", [], 16),
        ("Group:billing", "Sub,Get", "Allow", [], 0),
        ("Group:billing2", "Sub", "Allow", [], 16),
        ("Topic:anything", "Pub", "Deny", [], 0),
    ],
)
def test_a_user_who_is_not_super_grants_only_what_it_has(run, resource, actions, decision, sources, code):
    async def main(rig):
        await an_operator(rig)
        answer = await rig.grant("alice", resource, actions, decision, sources=sources, user="ops")
        assert answer.code == code, answer.remark
        if code:
            assert "cannot grant what it lacks itself" in answer.remark

    run(main)


def test_a_user_who_is_not_super_removes_no_deny_of_what_it_lacks(run):
    async def main(rig):
        await an_operator(rig)
        await rig.grant("alice", "Topic:*", "Pub")
        await rig.grant("alice", "Topic:private", "Pub", "Deny")
        fields = {"subject": "User:alice", "resource": "Topic:private"}
        assert (await rig.ask(3008, fields, user="ops")).code == 16
        assert (await rig.grant("alice", "Topic:private", "Pub", user="ops")).code == 16
        assert (await rig.ask(3008, {"subject": "User:alice", "resource": "Topic:*"}, user="ops")).code == 0
        assert (await rig.ask(3008, {"subject": "User:alice"}, user="ops")).code == 16

    run(main)


def test_a_user_who_is_not_super_takes_over_no_user_with_more_rights(run):
    async def main(rig):
        await an_operator(rig)
        await rig.grant("alice", "Topic:private")
        for body in ({"password": "secret1"}, {"certificate": "CN=ops"}):
            answer = await rig.ask(3002, {"username": "alice"}, body, user="ops")
            assert (answer.code, "it lacks what that user has" in answer.remark) == (16, True)
        await rig.ask(3008, {"subject": "User:alice"})
        assert (await rig.ask(3002, {"username": "alice"}, {"password": "secret1"}, user="ops")).code == 0

    run(main)


def test_a_certificate_belongs_to_one_user(run):
    async def main(rig):
        await rig.create("alice", certificate="CN=alice")
        answer = await rig.ask(3001, {"username": "b"}, {"password": "secret1", "certificate": "CN=alice"})
        assert (answer.code, "have the same certificate" in answer.remark) == (29, True)

    run(main)


def test_ten_thousand_entries_are_one_request_and_more_are_refused(run):
    async def main(rig):
        await rig.create("alice")
        for size, code in ((10_000, 0), (10_001, 29)):
            entries = [{"resource": f"Topic:{n}", "actions": ["Pub"], "decision": "Allow"} for n in range(size)]
            answer = await rig.ask(3006, {"subject": "User:alice"}, {"policies": [{"entries": entries}]})
            assert answer.code == code, answer.remark
        assert rig.authorizer.state.acl("alice").size == 10_000

    run(main)


def test_a_long_body_of_a_user_is_not_parsed(run):
    async def main(rig):
        await rig.create("alice")
        for code, name in ((3001, "new"), (3002, "alice")):
            answer = await rig.ask(code, {"username": name}, {"password": "secret1", "other": "x" * 200_000})
            assert (answer.code, "the longest allowed has 131072" in answer.remark) == (1, True)

    run(main)


def test_policies_are_formatted_in_a_thread(run, monkeypatch):
    """Those of 10,000 entries take a quarter of a second."""

    async def main(rig):
        await rig.create("alice")
        await rig.grant("alice", "Topic:T")
        inside = []
        to_json = Acl.to_json
        with monkeypatch.context() as patch:
            work = rig.world.workers.run

            async def working(make, *args):
                def made(*given):
                    patch.setattr(Acl, "to_json", lambda acl: inside.append(acl.user) or to_json(acl))
                    try:
                        return make(*given)
                    finally:
                        patch.setattr(Acl, "to_json", to_json)

                return await work(made, *args)

            patch.setattr(rig.world.workers, "run", working, raising=False)
            assert members(await rig.ask(3009, {"subject": "User:alice"}))["subject"] == "User:alice"
        assert inside == ["alice"]

    run(main)


def test_a_user_who_is_not_super_creates_no_user_with_policies_that_an_earlier_one_left(run):
    left = [{"policyType": "Custom", "entries": [{"resource": "*", "actions": ["All"], "decision": "Allow"}]}]

    async def main(rig):
        await an_operator(rig)
        rig.authorizer.state = rig.authorizer.state.with_acl(Acl("ghost", policies_of({"policies": left})))
        answer = await rig.ask(3001, {"username": "ghost"}, {"password": "secret1"}, user="ops")
        assert (answer.code, "cannot grant what it lacks itself: * All" in answer.remark) == (16, True)
        assert (await rig.ask(3001, {"username": "ghost"}, {"password": "secret1"})).code == 0

    run(main)


def test_a_grant_that_takes_too_long_to_compare_is_refused(run, monkeypatch):
    async def main(rig):
        await an_operator(rig)
        monkeypatch.setattr("gantrymq_access.grants.MAX_COMPARED", 6)
        entries = [{"resource": f"Topic:orders{n}", "actions": ["Pub"], "decision": "Allow"} for n in range(2)]
        body = {"policies": [{"policyType": "Custom", "entries": entries}]}
        answer = await rig.ask(3006, {"subject": "User:alice"}, body, user="ops")
        assert (answer.code, "grant 1 at once, or as a Super user" in answer.remark) == (29, True)
        assert (await rig.ask(3006, {"subject": "User:alice"}, body)).code == 0

    run(main)


def test_a_change_that_waits_while_the_broker_becomes_a_replica_is_refused(run):
    async def main(rig):
        async with rig.authorizer._changing:
            asked = asyncio.ensure_future(rig.ask(3001, {"username": "late"}, {"password": "secret1"}))
            await rig.world.clock.sleep(0.5)
            await rig.cluster.broker.role.change(Role.REPLICA, 1)
        answer = await asked
        assert (answer.code, "come from its master" in answer.remark) == (1, True)
        assert "late" not in rig.authorizer.state.users

    run(main)


@pytest.mark.parametrize("user", ["root2", "ops"])
def test_a_change_that_waits_is_refused_if_its_user_has_lost_the_right(run, user):
    """A user who is being deleted cannot leave a queue of changes behind."""

    async def main(rig):
        await rig.create("root2", userType="Super")
        await an_operator(rig)
        async with rig.authorizer._changing:
            deleted = asyncio.ensure_future(rig.ask(3003, {"username": user}))
            await rig.world.clock.sleep(0.5)
            body = {"password": "secret1", "userType": "Super" if user == "root2" else "Normal"}
            late = asyncio.ensure_future(rig.ask(3001, {"username": "late"}, body, user=user, connection=user))
            await rig.world.clock.sleep(0.5)
        assert (await deleted).code == 0
        answer = await late
        assert (answer.code, f"User:{user} not found" in answer.remark) == (16, True)
        assert "late" not in rig.authorizer.state.users

    run(main)


def test_a_change_that_waits_has_the_rights_that_its_user_has_then(run):
    async def main(rig):
        await rig.create("root2", userType="Super")
        await rig.grant("root2", "Cluster:*", "Update")
        async with rig.authorizer._changing:
            demoted = asyncio.ensure_future(rig.ask(3002, {"username": "root2"}, {"userType": "Normal"}))
            await rig.world.clock.sleep(0.5)
            body = {"password": "secret1", "userType": "Super"}
            late = asyncio.ensure_future(rig.ask(3001, {"username": "late"}, body, user="root2", connection="2"))
            await rig.world.clock.sleep(0.5)
        assert (await demoted).code == 0
        assert ((await late).code, (await late).remark) == (1, "The super user can only be create by super user")

    run(main)
