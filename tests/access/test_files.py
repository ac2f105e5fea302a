"""The files of users and policies: modes, mounted files, and content that is refused."""

import errno
import json
import time

import pytest
from access_rig import CONFIG, ROOT, SECRETS

from gantrymq.errors import GantryError
from gantrymq.world.real.files import RealFiles
from gantrymq_access.files import AccessFiles
from gantrymq_access.records import (
    Acl,
    Entry,
    EntryAction,
    EntryResource,
    Policy,
    PolicyType,
    User,
    UserType,
)
from gantrymq_access.state import AccessState, users_text

SUPER = User(ROOT, SECRETS[ROOT], UserType.SUPER)
USERS, ACLS = CONFIG / "users.json", CONFIG / "acls.json"


def files_with(**content):
    """Write the files before a start."""

    def before(world):
        world.files.make_dirs(CONFIG)
        for name, text in content.items():
            world.files.replace(CONFIG / f"{name}.json", text if isinstance(text, bytes) else text.encode())

    return before


def test_both_files_have_one_line_for_each_user_and_mode_0600(run):
    async def main(rig):
        await rig.create("alice")
        await rig.grant("alice", "Topic:T", sources=["10.0.0.0/8"])
        assert rig.file("users.json").decode() == (
            '{"users":[\n'
            '{"password":"alicepw1","userStatus":"enable","userType":"Normal","username":"alice"},\n'
            '{"password":"12345678","userStatus":"enable","userType":"Super","username":"rocketmq"}\n'
            "]}\n"
        )
        assert json.loads(rig.file("acls.json"))["acls"][0]["subject"] == "User:alice"
        assert b"alice" not in rig.file("users.json.bak")
        for name in ("users.json", "acls.json"):
            assert rig.world.files.stat(CONFIG / name).mode == 0o600

    run(main)


def test_users_and_policies_survive_a_restart(run):
    async def main(rig):
        await rig.create("alice")
        await rig.grant("alice", "Topic:T")
        before = dict(rig.authorizer.state.texts)
        await rig.cluster.restart()
        assert dict(rig.authorizer.state.texts) == before
        assert (await rig.ask(26)).code == 0

    run(main)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_stops_the_start(run, mode):
    def before(world):
        files_with()(world)
        world.files.replace(USERS, users_text([SUPER]).encode(), mode)

    with pytest.raises(GantryError, match=r"others may read this file with secrets .* run: chmod 600 /gantrymq"):
        run(None, before)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "it is empty"),
        (b"\0" * 100, "nothing but zeros"),
        (users_text([SUPER])[:50], "it is not JSON at line"),
        ('{"users":[],"users":[]}', "the member 'users' twice"),
        ('{"users":null}', "it is not an object such as"),
        ("[]", "it is not an object such as"),
        ('{"users":[null]}', "number 1 of users: it is not an object"),
        ('{"users":[{"username":"a","password":"secret1"},{"username":"a","password":"secret2"}]}', "'a' twice"),
        ('{"users":[{"username":"","password":"secret1"}]}', "The username is blank"),
        ('{"users":[{"username":"a"}]}', "password can not be blank"),
        ('{"users":[{"username":"a","password":"x"}]}', "the password has 1 characters"),
        ('{"users":[{"username":"a","password":"secret1","userType":"Root"}]}', "userType 'Root' is none of"),
        ("[" * 1_000 + "]" * 1_000, "too many levels|not an object"),
    ],
)
def test_a_malformed_file_of_users_stops_the_start_with_a_sentence(run, text, problem):
    with pytest.raises(GantryError, match=problem) as refused:
        run(None, files_with(users=text))
    assert str(USERS) in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('{"resource":"Topic:T","actions":["Publish"],"decision":"Allow"}', "'Publish' is none of All, Pub"),
        ('{"resource":"Topic:T","actions":["Pub"],"decision":"Allow","sourceIps":["10.0.0.0/33"]}', "source ip is inv"),
        ('{"resource":"Queue:T","actions":["Pub"],"decision":"Allow"}', "The resource is null"),
    ],
)
def test_a_malformed_file_of_policies_stops_the_start(run, entry, problem):
    acls = f'{{"acls":[{{"subject":"User:rocketmq","policies":[{{"entries":[{entry}]}}]}}]}}'
    with pytest.raises(GantryError, match=problem) as refused:
        run(None, files_with(users=users_text([SUPER]), acls=acls))
    assert str(ACLS) in str(refused.value)


def test_an_interrupted_save_leaves_the_backup_which_is_read(run):
    async def main(rig):
        assert (await rig.ask(26)).code == 0

    run(main, _only_backup)


def _only_backup(world):
    world.files.make_dirs(CONFIG)
    world.files.replace(CONFIG / "users.json.bak", users_text([SUPER]).encode())


def test_a_damaged_file_names_the_backup(run):
    def before(world):
        files_with(users=b"\0\0")(world)
        _only_backup(world)

    with pytest.raises(GantryError, match=r"or put users.json.bak, the content before the last change, in its place"):
        run(None, before)


def mounted(world, **how):
    files_with(users=users_text([SUPER]))(world)
    world.files.replace(USERS, users_text([SUPER]).encode(), how.get("mode", 0o440))
    world.files.is_own = how.get("is_own", True)
    if how.get("link"):
        world.files.links.add(USERS)


@pytest.mark.parametrize(
    "how",
    [
        {"mode": 0o440},
        {"mode": 0o400},
        {"mode": 0o640, "is_own": False},
        {"mode": 0o640, "link": True},
        {"mode": 0o600, "link": True},
    ],
)
def test_mounted_files_are_read_and_never_written(run, how):
    async def main(rig):
        assert (await rig.ask(26)).code == 0
        answer = await rig.ask(3001, {"username": "alice"}, {"password": "alicepw1"})
        assert (answer.code, "is mounted; change them there" in answer.remark) == (1, True)
        assert rig.authorizer.state_texts(None) == {}
        await rig.authorizer.take_state({"users.json": '{"users":[]}', "acls.json": '{"acls":[]}'})
        assert (await rig.ask(26)).code == 0
        assert rig.world.files.list(CONFIG).count("users.json.bak") == 0

    run(main, lambda world: mounted(world, **how))


@pytest.mark.parametrize("mode", [0o444, 0o644, 0o660])
def test_a_mounted_file_that_everybody_may_read_stops_the_start(run, mode):
    with pytest.raises(GantryError, match="mount it with mode 0440"):
        run(None, lambda world: mounted(world, mode=mode, is_own=False))


def test_a_mounted_file_without_the_user_of_the_settings_stops_the_start(run):
    with pytest.raises(GantryError, match="is mounted and lacks user first, whom a setting names"):
        run(
            None,
            lambda world: mounted(world, mode=0o440),
            initAuthenticationUser='{"username":"first","password":"12345678"}',
        )


def test_files_are_read_again_when_they_change_and_a_broken_one_is_not_put_in_force(run):
    changed = User(ROOT, "changed-secret", UserType.SUPER)

    async def main(rig):
        files = rig.world.files
        await rig.world.clock.sleep(0.01)
        files.replace(USERS, users_text([changed]).encode(), 0o440)
        await rig.world.clock.sleep(1.1)
        assert (await rig.ask(26, secret="changed-secret")).code == 0
        files.replace(USERS, b'{"users":[', 0o440)
        await rig.world.clock.sleep(1.1)
        assert (await rig.ask(26, secret="changed-secret")).code == 0
        files.replace(USERS, users_text([SUPER]).encode(), 0o440)
        await rig.world.clock.sleep(1.1)
        assert (await rig.ask(26)).code == 0

    run(main, lambda world: mounted(world))


def test_the_link_of_a_mounted_volume_may_move(tmp_path):
    """As kubelet updates a secret: ``users.json -> ..data/users.json``, ``..data -> ..1``."""
    for number, user in enumerate([SUPER, User("other", "other-secret")], 1):
        folder = tmp_path / f"..{number}"
        folder.mkdir()
        (folder / "users.json").write_text(users_text([user]))
        (folder / "users.json").chmod(0o440)
    data = tmp_path / "..data"
    data.symlink_to("..1")
    (tmp_path / "users.json").symlink_to("..data/users.json")
    files = AccessFiles(RealFiles(), tmp_path)
    found = files.read()
    assert list(found.state.users) == [ROOT]
    assert found.mounted == tmp_path / "users.json"
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(data)
    assert files.stamp() != found.stamp
    assert list(files.read().state.users) == ["other"]


def test_a_failed_save_leaves_users_as_they_are(run, monkeypatch):
    async def main(rig):
        def fail(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(rig.world.files, "replace", fail)
            answer = await rig.ask(3001, {"username": "alice"}, {"password": "alicepw1"})
        assert (answer.code, "users.json cannot be written: No space left on device" in answer.remark) == (1, True)
        assert "alice" not in rig.authorizer.state.users
        await rig.create("alice")

    run(main)


def test_secrets_are_in_no_settings_logs_or_audit_lines(run, caplog):
    async def main(rig):
        await rig.create("alice")
        await rig.ask(3002, {"username": "alice"}, {"password": "brand-new-secret", "keepOldPassword": 60_000})
        await rig.ask(10, {}, user="alice", secret="mistyped-secret")
        shown = json.dumps(rig.cluster.broker.settings.as_dict()) + bytes((await rig.ask(26)).body).decode()
        return shown + json.dumps(rig.audited()) + repr(rig.authorizer.state.users)

    shown = run(main) + caplog.text
    for secret in ("brand-new-secret", "mistyped-secret", *SECRETS.values()):
        assert secret not in shown


def test_10_000_users_are_read_quickly(tmp_path):
    users = [User(f"user-{number}", f"secret-{number}") for number in range(10_000)]
    files = AccessFiles(RealFiles(), tmp_path)
    files.write({"users.json": users_text(users)})
    started = time.process_time()
    assert len(files.read().state.users) == 10_000
    assert time.process_time() - started < 3  # 0.2 s on a machine with nothing else to do


def test_a_change_formats_the_line_of_its_user_only():
    state = AccessState.of({ROOT: SUPER}, {})
    changed = state.with_user(User("alice", "alicepw1"))
    assert changed.texts["users.json"] == users_text([SUPER, User("alice", "alicepw1")])
    assert changed.without_user("alice").texts == state.texts
    assert list(state.users) == [ROOT]


def test_an_interrupted_deletion_leaves_no_policies_for_the_next_user_of_that_name(run, monkeypatch):
    async def main(rig):
        await rig.create("alice")
        await rig.grant("alice", "Topic:T")
        replace, done = rig.world.files.replace, []

        def fail_second(*args):
            done.append(args[0])
            if len(done) == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            replace(*args)

        with monkeypatch.context() as patch:
            patch.setattr(rig.world.files, "replace", fail_second)
            assert (await rig.ask(3003, {"username": "alice"})).code == 1
        await rig.world.clock.sleep(2)
        assert rig.authorizer.state.acl("alice") is None
        assert "alice" in rig.authorizer.state.users

    run(main)


def test_an_unexpected_error_does_not_end_the_watch(run, monkeypatch, caplog):
    async def main(rig):
        with monkeypatch.context() as patch:
            patch.setattr(AccessFiles, "stamp", lambda files: 1 / 0)
            await rig.world.clock.sleep(2)
        await rig.world.clock.sleep(0.01)
        rig.world.files.replace(USERS, users_text([SUPER, User("new", "new-secret")]).encode(), 0o600)
        await rig.world.clock.sleep(2)
        assert "new" in rig.authorizer.state.users

    run(main)
    assert "the users before stay in force" in caplog.text


def test_the_repr_of_the_state_has_no_secrets():
    assert SECRETS[ROOT] not in repr(AccessState.of({ROOT: SUPER}, {}))


@pytest.mark.parametrize(("entries", "networks"), [(501, 0), (2, 300)])
def test_long_policies_are_compiled_before_they_are_in_force(entries, networks):
    """At the first decision, it would stop the event loop."""
    sources = tuple(f"10.0.{number // 250}.{number % 250}" for number in range(networks))
    resources = [EntryResource.parse(f"Topic:T{number}") for number in range(entries)]
    policy = Policy(PolicyType.CUSTOM, tuple(Entry(each, (EntryAction.PUB,), True, sources) for each in resources))
    state = AccessState.of({ROOT: SUPER}, {}).with_acl(Acl("alice", (policy,)))
    assert state.deciders["alice"]._compiled is not None
