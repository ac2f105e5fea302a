"""Requests 50 to 54 of RocketMQ's tools: what they change, what they refuse, and that the next start reads the file."""

import asyncio
import json
from functools import partial

import pytest
from plain_desk import ACCOUNTS, HOME, MAIN

from gantrymq.errors import FormatError
from gantrymq_access_plain.accounts import Perm, read_rule_file

CHANGE, DELETE, VERSION, WHITE, ALL = 50, 51, 52, 53, 54
FULL = {
    "accessKey": "newuser1",
    "secretKey": "newsecret",
    "whiteRemoteAddress": "10.1.2.*",
    "admin": "false",
    "defaultTopicPerm": "DENY",
    "defaultGroupPerm": "SUB",
    "topicPerms": "TopicA=PUB,TopicB=SUB|PUB",
    "groupPerms": "GroupA=SUB",
}


def on_disk(desk, path=MAIN):
    return read_rule_file(desk.files.read(path), str(path))


def test_an_account_is_created_and_in_force_for_the_next_request(plain):
    async def main(desk):
        assert (await desk.send("TopicA", key="newuser1", secret="newsecret"))[0] == 1
        answer = await desk.ask(CHANGE, FULL)
        assert (answer.code, answer.remark, answer.ext) == (0, None, None)
        assert await desk.send("TopicA", key="newuser1", secret="newsecret") == (0, None)
        assert (await desk.send("TopicC", key="newuser1", secret="newsecret"))[0] == 1
        found = on_disk(desk)
        made = found.accounts["newuser1"]
        assert (made.secret_key, made.is_admin, made.white_address.text) == ("newsecret", False, "10.1.2.*")
        assert (made.topic_default, made.group_default) == (Perm.DENY, Perm.SUB)
        assert made.topics == {"TopicA": Perm.PUB, "TopicB": Perm.PUB | Perm.SUB}
        assert list(found.accounts) == ["operator", "orders1", "writer1", "newuser1"]
        assert [each.text for each in found.white_patterns] == ["10.10.103.*"]
        assert found.counter == 1 and desk.files.stat(MAIN).mode == 0o600

    plain(main)


def test_given_members_change_and_others_stay(plain):
    async def main(desk):
        await desk.ask(CHANGE, FULL)
        change = {"accessKey": "newuser1", "topicPerms": "TopicC=SUB", "whiteRemoteAddress": "", "admin": "true"}
        assert (await desk.ask(CHANGE, change)).code == 0
        made = on_disk(desk).accounts["newuser1"]
        assert (made.secret_key, made.is_admin, made.white_address) == ("newsecret", True, None)
        assert (made.topics, made.groups) == ({"TopicC": Perm.SUB}, {"GroupA": Perm.SUB})
        assert (await desk.ask(CHANGE, {"accessKey": "newuser1", "secretKey": "another-secret"})).code == 0
        assert on_disk(desk).accounts["newuser1"].secret_key == "another-secret"
        assert on_disk(desk).counter == 3

    plain(main)


def test_an_account_is_changed_and_deleted_in_the_file_that_has_it(plain):
    other = HOME / "conf" / "acl" / "team.yml"

    async def main(desk):
        desk.write("accounts:\n- {accessKey: team001, secretKey: 12345678}\n", other)
        await desk.reload()
        assert (await desk.ask(CHANGE, {"accessKey": "team001", "defaultTopicPerm": "PUB"})).code == 0
        assert on_disk(desk, other).accounts["team001"].topic_default is Perm.PUB
        assert "team001" not in on_disk(desk).accounts
        assert (await desk.ask(DELETE, {"accessKey": "team001"})).code == 0
        assert on_disk(desk, other).accounts == {}
        gone = await desk.ask(DELETE, {"accessKey": "team001"})
        assert (gone.code, gone.remark) == (210, "there is no account team001 in plain_acl.yml")
        assert (await desk.send("Orders", key="team001"))[0] == 1

    plain(main)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"accessKey": "short"},
            "The accessKey=short and its secretKey cannot be null and length should longer than 6",
        ),
        ({"accessKey": ""}, "The accessKey= and its secretKey cannot be null"),
        ({"accessKey": "new-user", "secretKey": "abcdef"}, "The accessKey=new-user and its secretKey cannot be null"),
        ({"accessKey": "new-user"}, "The accessKey=new-user and its secretKey cannot be null"),
        ({"defaultTopicPerm": "ALL"}, "the permission 'ALL' is none of DENY, PUB, SUB, PUB|SUB, SUB|PUB"),
        ({"topicPerms": "A"}, "'A' is not an entry such as TopicA=PUB|SUB"),
        ({"topicPerms": "A=PUB,B=pub"}, "the permission 'pub' is none of"),
        ({"groupPerms": "=SUB"}, "'=SUB' is not an entry"),
        ({"whiteRemoteAddress": "10.0.0.0/33"}, "the address pattern '10.0.0.0/33' is malformed: networks such as"),
        ({"accessKey": "new\nuser"}, "accessKey has more than 1024 characters, or one that is not printable"),
        ({"secretKey": "new\x00secret"}, "secretKey has more than 1024 characters, or one that is not printable"),
        ({"secretKey": "s" * 60_000}, "secretKey has more than 1024 characters"),
        ({"topicPerms": "A\x1b=PUB"}, "topicPerms has more than 1024 characters, or one that is not printable"),
    ],
)
def test_what_the_next_start_would_refuse_is_not_written(plain, change, sentence):
    async def main(desk):
        before = desk.files.read(MAIN)
        answer = await desk.ask(CHANGE, {"accessKey": "orders1", **change})
        assert answer.code == 209
        assert answer.remark.startswith(sentence)
        assert "abcdef" not in answer.remark and len(answer.remark) < 300
        assert desk.files.read(MAIN) == before

    plain(main)


@pytest.mark.parametrize("name", ["null", "~", "true", "0123", "&anchor", "!tag", "- dash", "a: b", "# no", "é" * 3])
def test_odd_texts_are_read_as_they_were_written(plain, name):
    key = f"{name}-------"

    async def main(desk):
        change = {
            "accessKey": key,
            "secretKey": f"{name}secret-",
            "topicPerms": f"{name}=PUB",
            "groupPerms": "null=SUB",
        }
        assert (await desk.ask(CHANGE, change)).code == 0
        made = on_disk(desk).accounts[key]
        assert (made.secret_key, made.topics, made.groups) == (
            f"{name}secret-",
            {name.strip(): Perm.PUB},
            {"null": Perm.SUB},
        )

    plain(main)


def test_a_file_that_was_broken_by_hand_is_not_overwritten(plain):
    async def main(desk):
        broken = ACCOUNTS + "  topicPerms: [\n"
        desk.write(broken)
        for code, ext, refused in (
            (CHANGE, FULL, 209),
            (DELETE, {"accessKey": "orders1"}, 210),
            (WHITE, {"globalWhiteAddrs": "10.1.2.3"}, 211),
        ):
            answer = await desk.ask(code, ext)
            assert answer.code == refused
            assert answer.remark.startswith("nothing is changed: /rocketmq/conf/plain_acl.yml line ")
        assert desk.files.read(MAIN) == broken.encode()

    plain(main)


def test_a_change_by_hand_just_before_is_kept(plain):
    async def main(desk):
        desk.write(ACCOUNTS.replace("Bills=SUB", "Bills=PUB"))
        assert (await desk.ask(CHANGE, FULL)).code == 0
        assert await desk.send("Bills", key="orders1") == (0, None)
        assert on_disk(desk).accounts["orders1"].topics["Bills"] is Perm.PUB

    plain(main)


def test_the_global_white_list_of_a_file(plain):
    other = HOME / "conf" / "acl" / "team.yml"

    async def main(desk):
        desk.write("accounts: []\n", other)
        await desk.reload()
        assert (await desk.ask(WHITE, {"globalWhiteAddrs": "10.1.2.*, 10.1.3.4,10.1.5.1-9"})).code == 0
        assert [each.text for each in on_disk(desk).white_patterns] == ["10.1.2.*", "10.1.3.4", "10.1.5.1-9"]
        change = {"globalWhiteAddrs": "127.0.0.1", "aclFileFullPath": str(other)}
        assert (await desk.ask(WHITE, change)).code == 0
        assert [each.text for each in on_disk(desk, other).white_patterns] == ["127.0.0.1"]
        assert await desk.send("Any", key="") == (0, None)
        assert (await desk.ask(WHITE, {"globalWhiteAddrs": "", "aclFileFullPath": str(other)})).code == 0
        assert (await desk.send("Any", key=""))[0] == 1
        for refused, sentence in (
            ({"globalWhiteAddrs": "10.1.*.3"}, "the address pattern '10.1.*.3' is malformed: only * may follow"),
            (
                {"globalWhiteAddrs": "*", "aclFileFullPath": "/etc/passwd"},
                "aclFileFullPath is none of the files in force",
            ),
        ):
            answer = await desk.ask(WHITE, refused)
            assert answer.code == 211 and answer.remark.startswith(sentence)

    plain(main)


def test_versions_and_accounts_are_returned_like_java(plain):
    async def main(desk):
        await desk.ask(CHANGE, FULL)
        version = await desk.ask(VERSION)
        assert version.code == 0
        at = on_disk(desk).timestamp
        expected = {"counter": 1, "timestamp": at}
        assert json.loads(version.ext.pop("version")) == expected
        assert json.loads(version.ext.pop("allAclFileVersion")) == {str(MAIN): expected}
        assert version.ext == {
            "brokerAddr": desk.cluster.broker_address,
            "brokerName": "broker-a",
            "clusterName": "DefaultCluster",
        }
        found = json.loads((await desk.ask(ALL)).body)
        assert found["globalWhiteAddrs"] == ["10.10.103.*"]
        assert found["plainAccessConfigs"][0] == {"accessKey": "operator", "admin": True, "secretKey": "12345678"}
        assert found["plainAccessConfigs"][-1] == {
            **FULL,
            "admin": False,
            "topicPerms": ["TopicA=PUB", "TopicB=PUB|SUB"],
            "groupPerms": ["GroupA=SUB"],
        }

    plain(main)


@pytest.mark.parametrize("code", [CHANGE, DELETE, VERSION, WHITE, ALL])
def test_only_an_admin_may_send_them(plain, code):
    async def main(desk):
        before = desk.files.read(MAIN)
        answer = await desk.ask(code, {**FULL, "globalWhiteAddrs": "*"}, key="orders1")
        assert answer.code == 1
        assert f"Need admin permission for request code={code}, but accessKey=orders1 is not" in answer.remark
        assert not answer.body and desk.files.read(MAIN) == before

    plain(main)


def test_a_file_that_cannot_be_written_is_a_sentence(plain):
    async def main(desk):
        def refuse(path, data, mode=None):
            raise OSError(30, "Read-only file system")

        desk.world.files.replace = refuse
        answer = await desk.ask(CHANGE, FULL)
        assert (answer.code, answer.remark) == (
            209,
            "nothing is changed: /rocketmq/conf/plain_acl.yml cannot be written: Read-only file system",
        )

    plain(main)


def test_a_broker_without_plain_acl_says_so(gantrymq_simulation):
    pytest.importorskip("gantrymq_storage_memory")
    from gantrymq.remoting.client import RemotingClient
    from gantrymq.remoting.command import request

    async def main(cluster):
        client = RemotingClient(cluster.world)
        connection = await client.connect(cluster.broker_address)
        answer = await connection.call(request(54), 10)
        await client.close()
        assert (answer.code, answer.remark) == (
            3,
            "request 54 GET_BROKER_CLUSTER_ACL_CONFIG: this broker does not use plain_acl.yml (aclEnable=true)",
        )

    gantrymq_simulation(main)


def test_a_damaged_version_is_a_fault_of_the_file():
    with pytest.raises(FormatError, match="dataVersion"):
        read_rule_file(b"dataVersion: [{counter: many}]", "acl.yml")


def test_accounts_are_not_managed_through_a_listener_without_accounts(plain):
    """Its requests have no principal, like those of the broker itself."""

    async def main(desk):
        desk.client.connect = partial(_connect, desk.client.connect)
        for code, fields in ((CHANGE, FULL), (DELETE, {"accessKey": "orders1"}), (WHITE, {"globalWhiteAddrs": "*"})):
            assert (await desk.ask(code, fields, key="")).code == 1
        for code in (VERSION, ALL):
            answer = await desk.ask(code, key="")
            assert answer.code == 1 and not answer.payload
        assert desk.files.read(MAIN) == ACCOUNTS.encode()
        assert (await desk.send("TopicA", key=""))[0] == 0
        assert (await desk.ask(ALL)).code == 0

    plain(main, listeners="internal=remoting://127.0.0.1:10931", listenerAccess="internal=optional")


async def _connect(connect, address):
    return await connect("127.0.0.1:10931")


def test_a_change_that_waits_is_refused_if_its_account_has_lost_the_right(plain):
    """An admin who is being deleted cannot leave a queue of changes behind."""

    async def main(desk):
        admin = {"accessKey": "leaving", "secretKey": "leaving-secret", "admin": "true"}
        assert (await desk.ask(CHANGE, admin)).code == 0
        async with desk.cluster.broker.access.authorizer._changing:
            deleted = asyncio.ensure_future(desk.ask(DELETE, {"accessKey": "leaving"}))
            await desk.world.clock.sleep(0.5)
            late = asyncio.ensure_future(desk.ask(CHANGE, FULL, key="leaving", secret="leaving-secret"))
            await desk.world.clock.sleep(0.5)
        assert (await deleted).code == 0
        answer = await late
        assert (answer.code, "No acl config for leaving" in answer.remark) == (1, True)
        assert list(on_disk(desk).accounts) == ["operator", "orders1", "writer1"]

    plain(main)


def test_accounts_are_formatted_in_a_thread(plain, monkeypatch):
    """Those of 10,000 accounts take long."""

    async def main(desk):
        works = []
        work = desk.world.workers.run

        async def run(make, *args):
            works.append(make.__name__)
            return await work(make, *args)

        with monkeypatch.context() as patch:
            patch.setattr(desk.world.workers, "run", run, raising=False)
            assert json.loads(bytes((await desk.ask(ALL)).body))["plainAccessConfigs"]
        assert "_accounts_body" in works

    plain(main)
