"""The authorizer: who a client is, what is refused, and when a change is in force."""

import json
from types import SimpleNamespace

import pytest
from access_rig import CONFIG, ROOT, SECRETS, SEND, send, with_topic

from gantrymq.config import Setting, Settings
from gantrymq.errors import GantryError
from gantrymq.interfaces import AuthorizerContext
from gantrymq.model.role import Role
from gantrymq.remoting.command import request
from gantrymq.remoting.inner_client import INNER_CREDENTIALS
from gantrymq_access.authorizer import AclAuthorizer
from gantrymq_access.records import User, UserType
from gantrymq_access.settings import SCHEMA
from gantrymq_access.state import users_text
from gantrymq_testing.simulated import simulate

NAMESRV = {"authenticationEnabled": True, "authorizationEnabled": True}


@pytest.mark.parametrize(
    ("user", "secret", "text"),
    [
        ("", None, "username cannot be null."),
        ("nosuch", "secret1", "User:nosuch is not found."),
        ("alice", "wrong-secret", "check signature failed."),
        ("carol", None, "User:carol is disabled."),
    ],
)
def test_a_client_that_is_not_known_is_refused_with_rocketmqs_text(run, user, secret, text):
    async def main(rig):
        await rig.create("alice")
        await rig.create("carol", userStatus="disable")
        answer = await rig.ask(10, SEND, user=user, secret=secret)
        assert answer.code == 16
        assert text in answer.remark

    run(main)


def test_a_decision_has_rocketmqs_texts_and_a_change_is_in_force_for_the_next_request(run):
    async def main(rig):
        await with_topic(rig)
        refused = "User:alice has no permission to access Topic:T from 127.0.0.1, {}."
        answer = await send(rig)
        assert (answer.code, answer.remark) == (16, refused.format("no matched policies"))
        await rig.grant("alice", "Topic:T")
        assert (await send(rig)).code == 0
        await rig.grant("alice", "Topic:T", decision="Deny")
        answer = await send(rig)
        assert (answer.code, answer.remark) == (16, refused.format("the decision is deny"))
        await rig.grant("alice", "Topic:T")
        assert (await send(rig)).code == 0
        await rig.ask(3002, {"username": "alice"}, {"password": "another-secret"})
        assert "check signature failed." in (await send(rig, connection="new")).remark
        assert (await send(rig, secret="another-secret", connection="new")).code == 0

    for strategy in ("stateless", "stateful"):
        run(main, authenticationStrategy=strategy, authorizationStrategy=strategy)


def test_each_signature_is_checked_unless_the_strategy_is_stateful(run):
    async def main(rig):
        await with_topic(rig)
        await rig.grant("alice", "Topic:T")
        assert (await send(rig)).code == 0
        return (await send(rig, secret="wrong-secret")).code

    assert run(main) == 16
    package = "org.apache.rocketmq.auth.{0}.strategy.Stateful{1}Strategy"
    names = {f"{word}Strategy": package.format(word, word.capitalize()) for word in ("authentication", "authorization")}
    assert run(main, **names) == 0


def test_the_broker_checks_signatures_of_later_requests_itself(run):
    async def main(rig):
        await with_topic(rig)
        await rig.grant("alice", "Topic:T")
        authenticated, authenticate = [], rig.authorizer.authenticate

        def counted(credentials, client):
            authenticated.append(credentials.access_key)
            return authenticate(credentials, client)

        rig.cluster.broker.access._authenticate = counted
        for _ in range(4):
            assert (await send(rig)).code == 0
        assert authenticated == ["alice"]
        assert (await send(rig, secret="wrong-secret")).code == 16
        assert authenticated == ["alice"] * 2
        assert (await rig.ask(3002, {"username": "alice"}, {"userStatus": "disable"})).code == 0
        assert rig.authorizer.secrets_of("alice") == rig.authorizer.secrets_of("unknown") == ()
        assert (await send(rig)).code == 16

    run(main)


def test_the_stateful_strategy_checks_again_after_a_minute(run):
    async def main(rig):
        await with_topic(rig)
        await rig.grant("alice", "Topic:T")
        assert (await send(rig)).code == 0
        await rig.world.clock.sleep(62)
        assert (await send(rig, secret="wrong-secret")).code == 16

    run(main, authenticationStrategy="stateful", authorizationStrategy="stateful")


def test_the_secret_before_a_rotation_is_valid_until_its_time(run):
    async def main(rig):
        await with_topic(rig)
        await rig.grant("alice", "Topic:T")
        body = {"password": "new-secret", "keepOldPassword": 3_600_000}
        assert (await rig.ask(3002, {"username": "alice"}, body)).code == 0
        assert (await send(rig)).code == 0
        assert (await send(rig, secret="new-secret")).code == 0
        await rig.world.clock.sleep(3_601)
        assert (await send(rig)).code == 16
        assert (await send(rig, secret="new-secret")).code == 0

    run(main)


def test_authentication_alone_checks_signatures_and_lets_only_a_super_user_manage_users(run):
    async def main(rig):
        await with_topic(rig)
        assert (await send(rig)).code == 0
        assert (await send(rig, secret="wrong-secret")).code == 16
        for code, fields in ((3005, {}), (3001, {"username": "x"}), (3002, {"username": ROOT})):
            answer = await rig.ask(code, fields, {"password": "secret1"}, user="alice")
            assert (answer.code, "only a Super user manages users" in answer.remark) == (16, True)

    run(main, authorizationEnabled=False)


def test_authorization_alone_stops_the_start(run):
    with pytest.raises(GantryError, match="authorizationEnabled=true without authenticationEnabled=true"):
        run(None, authenticationEnabled=False)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"authenticationProvider": "com.example.Mine"}, "this class does not run here"),
        ({"authorizationMetadataProvider": "org.x.ProxyAuthorizationMetadataProvider"}, "this class does not run here"),
        ({"authorizationStrategy": "com.example.Mine"}, "use stateless"),
        ({"migrateAuthFromV1Enabled": True}, "gantrymq acl convert"),
        ({"authenticationWhitelist": "10,127.0.0.1"}, "'127.0.0.1' is neither a request code"),
        ({"initAuthenticationUser": "rocketmq:12345678"}, "is not JSON such as"),
        ({"initAuthenticationUser": '{"username":"rocketmq","password":"short"}'}, "the password has 5 characters"),
    ],
)
def test_settings_that_would_not_be_in_effect_stop_the_start(run, settings, text):
    with pytest.raises(GantryError, match=text) as refused:
        run(None, **settings)
    assert "12345678" not in str(refused.value)


def test_white_lists_name_requests(run):
    async def main(rig):
        await with_topic(rig)
        assert (await send(rig, "")).code == 0
        assert (await send(rig, secret="wrong-secret")).code == 0
        assert (await rig.ask(11, {}, user="")).code == 16
        assert (await rig.ask(3005, user="")).code == 16

    run(main, authenticationWhitelist=" 10 , 3005", authorizationWhitelist="10,3005")


def test_a_request_without_account_needs_both_white_lists(run):
    async def main(rig):
        await with_topic(rig)
        assert "username cannot be null." in (await send(rig, "")).remark

    run(main, authenticationWhitelist="10")


def test_a_whitelisted_request_does_not_act_for_the_user_that_it_names(run):
    async def main(rig):
        await with_topic(rig)
        queue = {"topic": "T", "brokerName": "broker-a", "queueId": 0}

        async def ask(code, client_id, **more):
            body = {"consumerGroup": "G", "clientId": client_id, "mqSet": [queue]}
            answer = await rig.ask(code, {}, body, **more)
            return json.loads(bytes(answer.body))["lockOKMQSet"] if answer.body else answer.code

        assert await ask(41, "c1", user="alice") == [queue]
        assert await ask(42, "c1", user="alice", secret="wrong-secret", connection="other") == 0
        assert await ask(41, "c2", user="") == []

    run(main, authenticationWhitelist="41,42", authorizationWhitelist="41,42")


def test_a_whitelisted_request_opens_no_connection_for_others(run):
    async def main(rig):
        await with_topic(rig)
        assert (await send(rig, "")).code == 0
        assert (await rig.ask(26, user="")).code == 16

    stateful = {"authenticationStrategy": "stateful", "authorizationStrategy": "stateful"}
    run(main, authenticationWhitelist="10", authorizationWhitelist="10", **stateful)


def test_the_users_of_the_settings_are_created_once(run):
    inner = json.dumps({"accessKey": "inner", "secretKey": "inner-secret"})

    async def main(rig):
        users = rig.authorizer.state.users
        assert users[ROOT] == User(ROOT, SECRETS[ROOT], UserType.SUPER)
        assert users["inner"] == User("inner", "inner-secret", UserType.SUPER)
        assert (await rig.ask(26, user="inner", secret="inner-secret")).code == 0

    run(main, innerClientAuthenticationCredentials=inner)


def test_an_existing_user_keeps_its_secret(run):
    users = users_text([User(ROOT, "changed-secret", UserType.SUPER)])

    def before(world):
        world.files.make_dirs(CONFIG)
        world.files.replace(CONFIG / "users.json", users.encode())

    async def main(rig):
        assert (await rig.ask(26)).code == 16
        assert (await rig.ask(26, secret="changed-secret")).code == 0

    run(main, before)


def test_inner_credentials_that_differ_from_the_stored_user_stop_the_start(run):
    def before(world):
        world.files.make_dirs(CONFIG)
        stored = User("inner", "stored-secret", UserType.SUPER, old_secret="before-secret", old_secret_until_ms=2**50)
        world.files.replace(CONFIG / "users.json", users_text([stored]).encode())

    def inner(secret):
        return json.dumps({"accessKey": "inner", "secretKey": secret})

    with pytest.raises(GantryError, match="the secret of inner is another one in .*users.json") as refused:
        run(None, before, innerClientAuthenticationCredentials=inner("other-secret"))
    assert "other-secret" not in str(refused.value)

    async def main(rig):
        assert (await rig.ask(26, user="inner", secret="before-secret")).code == 0

    run(main, before, innerClientAuthenticationCredentials=inner("before-secret"))


def test_failed_log_ins_of_an_address_are_answered_later(run):
    async def main(rig):
        await with_topic(rig)
        clock, took = rig.world.clock, []
        for _ in range(45):
            started = clock.monotonic()
            await send(rig, secret="wrong-secret", connection="bad")
            took.append(clock.monotonic() - started)
        assert max(took[:20]) < 0.05
        assert took[20] >= 0.05
        assert took[44] >= 1
        assert max(took) < 1.2
        started = clock.monotonic()
        await rig.ask(26, connection="good")
        assert clock.monotonic() - started < 0.05
        await clock.sleep(61)
        started = clock.monotonic()
        await send(rig, secret="wrong-secret", connection="bad")
        assert clock.monotonic() - started < 0.05

    run(main)


def test_requests_without_account_are_no_failed_log_ins(run):
    async def main(rig):
        started = rig.world.clock.monotonic()
        for _ in range(50):
            await rig.ask(26, user="")
        assert rig.world.clock.monotonic() - started < 1

    run(main)


def test_a_name_of_any_length_takes_no_memory(run):
    async def main(rig):
        for number in range(3):
            answer = await rig.ask(26, {"AccessKey": f"{number}" * 70_000, "Signature": "x"}, user="")
            assert (answer.code, len(answer.remark) < 2_000) == (16, True)
        assert all(len(key[0]) <= 255 for key in rig.authorizer._callers)

    run(main)
    run(main, authenticationWhitelist="26")


def test_a_replica_refuses_changes_and_serves_reads(run):
    async def main(rig):
        await rig.cluster.broker.role.change(Role.REPLICA, 1)
        answer = await rig.ask(3001, {"username": "alice"}, {"password": "alicepw1"})
        assert (answer.code, answer.remark) == (
            1,
            "users and policies of this broker come from its master; change them there",
        )
        assert (await rig.ask(3004, {"username": ROOT})).code == 0

    run(main)


def test_a_name_server_reads_the_files_and_never_writes_them():
    async def main(world):
        forgotten = []
        access = SimpleNamespace(forget=lambda: forgotten.append(world.clock.monotonic()))
        world.files.make_dirs(CONFIG)
        world.files.replace(CONFIG / "users.json", users_text([User(ROOT, SECRETS[ROOT], UserType.SUPER)]).encode())
        first = json.dumps({"username": "first", "password": "12345678"})
        settings = Settings(
            (*SCHEMA, INNER_CREDENTIALS, Setting.text("authorizer", "", "")),
            {**NAMESRV, "initAuthenticationUser": first},
        )
        authorizer = AclAuthorizer(AuthorizerContext(world, settings, CONFIG, writable=False))
        await authorizer.start(SimpleNamespace(world=world, settings=settings, access=access))
        assert list(authorizer.state.users) == [ROOT]
        await world.clock.sleep(0.5)
        world.files.replace(CONFIG / "users.json", users_text([User("other", "other-secret")]).encode())
        await world.clock.sleep(1.1)
        assert list(authorizer.state.users) == ["other"]
        assert len(forgotten) == 1
        await authorizer.stop()
        assert world.files.list(CONFIG) == ["users.json"]
        await world.workers.close()

    simulate(1, main)


def test_a_signature_of_another_length_is_wrong(run):
    async def main(rig):
        for signature in ("", "x" * 70_000, "ä" * 28):
            command = request(26, {"AccessKey": ROOT, "Signature": signature})
            answer = await rig.send(command, "")
            assert (answer.code, "check signature failed." in answer.remark) == (16, True)

    run(main)


def test_users_are_managed_by_accounts_only(run):
    """Also through a listener that serves requests without an account."""

    async def main(rig):
        for code in (3001, 3005):
            answer = await rig.ask(code, {"username": "x"}, {"password": "secret1"}, user="")
            assert (answer.code, "needs an account" in answer.remark) == (16, True)

    run(main, listenerAccess="default=optional")


def test_report_mode_refuses_nothing_but_the_management_of_users(run):
    async def main(rig):
        await with_topic(rig)
        assert (await send(rig)).code == 0
        assert (await send(rig, "nosuch")).code == 0
        assert (await send(rig, "")).code == 0
        assert (await rig.ask(3005, user="alice")).code == 16
        assert (await rig.ask(3001, {"username": "x"}, {"password": "secret1"}, user="")).code == 16
        answer = await rig.ask(65041)
        return json.loads(bytes(answer.body))

    report = run(main, accessMode="report")
    assert report["reporting"]
    rows = {(each["user"], each["resource"], each["reason"]): each for each in report["rows"]}
    assert rows.keys() == {
        ("alice", "Topic:T", "no_policy"),
        ("alice", "Cluster:DefaultCluster", "no_policy"),  # 3005 is refused in this mode, too
        ("nosuch", "", "unknown_user"),
        ("", "", "no_account"),
    }
    row = rows["alice", "Topic:T", "no_policy"]
    assert row["command"] == "gantrymq acl grant alice -r Topic:T -a Pub"
    assert (row["actions"], row["count"], row["request"], row["source"]) == (["Pub"], 1, 10, "127.0.0.1")


def test_the_report_of_an_enforcing_broker_has_its_refusals(run):
    async def main(rig):
        await with_topic(rig)
        assert [(await send(rig, name)).code for name in ("alice", "nosuch", "")] == [16, 16, 16]
        return json.loads(bytes((await rig.ask(65041)).body))

    report = run(main)
    assert not report["reporting"]
    rows = {(each["user"], each["resource"], each["reason"]): each for each in report["rows"]}
    assert rows.keys() == {("alice", "Topic:T", "no_policy"), ("nosuch", "", "unknown_user"), ("", "", "no_account")}
    assert rows["alice", "Topic:T", "no_policy"]["command"] == "gantrymq acl grant alice -r Topic:T -a Pub"


def test_a_replica_takes_users_over_and_changes_none(run):
    async def main(rig):
        authorizer = rig.authorizer
        await rig.create("alice")
        texts = dict(authorizer.state_texts(None))
        await rig.ask(3003, {"username": "alice"})
        await authorizer.take_state(texts)
        assert "alice" in authorizer.state.users
        assert dict(authorizer.state_texts(None)) == texts
        assert rig.file("users.json").decode() == texts["users.json"]
        with pytest.raises(GantryError, match="not JSON"):
            await authorizer.take_state({**texts, "users.json": '{"users":['})
        assert "alice" in authorizer.state.users

    run(main)
