"""A broker with plain_acl.yml: the checks in their order, reloading, and faults at the start."""

import asyncio
import logging

import pytest
from plain_desk import ACCOUNTS, HOME, MAIN

from gantrymq.client import Client, Credentials, Message, NoPermission
from gantrymq.errors import ConfigError, ConnectionLost, PluginError

ACL = "org.apache.rocketmq.acl.common.AclException: "
FOLDER = HOME / "conf" / "acl"


def test_the_checks_of_a_request_in_their_order(plain):
    async def main(desk):
        sent = {
            "no key": await desk.send("Orders", key=""),
            "unknown": await desk.send("Orders", key="unknown1"),
            "wrong": await desk.send("Orders", key="orders1", secret="abcdefgh"),
            "no signature": await desk.send("Orders", key="orders1", change=lambda asked: asked.ext.pop("Signature")),
            "changed": await desk.send("Orders", key="orders1", change=lambda asked: asked.ext.update(topic="Other")),
            "added": await desk.send("Orders", key="orders1", change=lambda asked: asked.ext.update(bname="b")),
            "right": await desk.send("Orders", key="orders1"),
            "not allowed": await desk.send("Bills", key="orders1"),
            "denied": await desk.send("Closed", key="orders1"),
            "no entry": await desk.send("Other", key="orders1"),
            "default": await desk.send("Other", key="writer1"),
            "trace": await desk.send("RMQ_SYS_TRACE_TOPIC", key="orders1"),
        }
        assert sent == {
            "no key": (1, f"{ACL}No accessKey is configured"),
            "unknown": (1, f"{ACL}No acl config for unknown1"),
            "wrong": (1, f"{ACL}Check signature failed for accessKey=orders1"),
            "no signature": (1, f"{ACL}Check signature failed for accessKey=orders1"),
            "changed": (1, f"{ACL}Check signature failed for accessKey=orders1"),
            "added": (1, f"{ACL}Check signature failed for accessKey=orders1"),
            "right": (0, None),
            "not allowed": (1, f"{ACL}No default permission for topic:Bills"),
            "denied": (1, f"{ACL}No default permission for topic:Closed"),
            "no entry": (1, f"{ACL}No default permission for topic:Other"),
            "default": (0, None),
            "trace": (0, None),
        }
        changed = await desk.ask(25, None, b"traceOn=true", key="orders1")
        assert (changed.code, changed.remark) == (
            1,
            f"{ACL}Need admin permission for request code=25, but accessKey=orders1 is not",
        )
        assert (await desk.ask(25, None, b"traceOn=true")).code == 0

    plain(main)


def test_a_right_signature_opens_a_connection_for_no_other_request(plain):
    async def main(desk):
        assert await desk.send("Orders", key="orders1") == (0, None)
        code, remark = await desk.send("Orders", key="orders1", secret="abcdefgh")
        assert (code, remark) == (1, f"{ACL}Check signature failed for accessKey=orders1")
        assert (await desk.send("Orders", key=""))[0] == 1

    plain(main)


def test_signatures_of_later_requests_are_checked_without_the_authorizer(plain):
    async def main(desk):
        authorizer = desk.cluster.broker.access.authorizer
        asked, authenticate = [], authorizer.authenticate
        desk.cluster.broker.access._authenticate = lambda *given: asked.append(given) or authenticate(*given)
        for _ in range(4):
            assert await desk.send("Orders", key="orders1") == (0, None)
        assert len(asked) == 1
        assert (await desk.send("Orders", key="orders1", secret="abcdefgh"))[0] == 1
        assert len(asked) == 2
        desk.write(
            ACCOUNTS.replace("accessKey: orders1\n  secretKey: 12345678", "accessKey: orders1\n  secretKey: abcdefgh")
        )
        await desk.reload()
        assert (await desk.send("Orders", key="orders1"))[0] == 1
        assert await desk.send("Orders", key="orders1", secret="abcdefgh") == (0, None)

    plain(main)


WHITE = f"""\
globalWhiteRemoteAddresses:
- %s
{ACCOUNTS.partition("accounts:")[1]}{ACCOUNTS.partition("accounts:")[2]}\
- accessKey: local01
  secretKey: 12345678
  whiteRemoteAddress: 127.0.0.*
"""


def test_addresses_in_a_white_list_need_no_signature(plain):
    async def of_account(desk):
        assert await desk.send("Any", key="local01", secret="wrong secret") == (0, None)
        assert (await desk.ask(26, key="local01", secret="wrong secret")).code == 0
        assert (await desk.send("Any", key=""))[0] == 1
        assert (await desk.send("Any", key="orders1", secret="wrong secret"))[0] == 1

    async def of_all(desk):
        assert await desk.send("Any", key="") == (0, None)
        assert await desk.send("Any", key="nobody01", secret="wrong secret") == (0, None)
        assert (await desk.ask(26, key="")).code == 0

    plain(of_account, WHITE % "10.0.0.1")
    plain(of_all, WHITE % "127.0.0.{1,2}")


def test_clients_of_ours_get_one_sentence_at_once(plain):
    async def main(desk):
        for account, sentence in (
            (Credentials("orders1", "12345678"), "No default permission for topic:Bills"),
            (Credentials("orders1", "abcdefgh"), "Check signature failed for accessKey=orders1"),
            (None, "No accessKey is configured"),
        ):
            async with Client(desk.cluster.namesrv, world=desk.world, credentials=account) as client:
                with pytest.raises(NoPermission, match=sentence):
                    await asyncio.wait_for(client.producer("PG").send(Message("Bills", b"x")), 20)

    async def with_topics(desk):
        for topic in ("Orders", "Bills"):
            ext = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
            ext |= {"topicFilterType": "SINGLE_TAG", "order": "false"}
            assert (await desk.ask(17, ext)).code == 0
        await main(desk)
        account = Credentials("orders1", "12345678")
        async with Client(desk.cluster.namesrv, world=desk.world, credentials=account) as client:
            await client.producer("PG").send(Message("Orders", b"x"))
            async with client.consumer("readers", "Orders", consume_from="first") as consumer:
                message = await asyncio.wait_for(anext(aiter(consumer)), 60)
                assert message.body == b"x"

    plain(with_topics)


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_changed_file_is_in_force_within_6_seconds(plain, caplog):
    caplog.set_level(logging.INFO)

    async def main(desk):
        assert (await desk.send("Bills", key="orders1"))[0] == 1
        desk.write(ACCOUNTS.replace("Bills=SUB", "Bills=PUB"))
        await desk.reload()
        assert await desk.send("Bills", key="orders1") == (0, None)
        desk.write(ACCOUNTS.replace("orders1", "orders2"))
        await desk.reload()
        assert await desk.send("Orders", key="orders1") == (1, f"{ACL}No acl config for orders1")
        assert await desk.send("Orders", key="orders2") == (0, None)

    plain(main)
    assert [each.getMessage() for each in caplog.records if "again" in each.getMessage()] == [
        "read /rocketmq/conf/plain_acl.yml again: 3 accounts"
    ] * 2


def test_a_broken_file_keeps_the_rules_before_and_is_reported_once(plain, caplog):
    async def main(desk):
        desk.write(ACCOUNTS + "- accessKey: [\n")
        for _ in range(3):
            await desk.reload()
        assert await desk.send("Orders", key="orders1") == (0, None)
        for _ in range(2):
            desk.files.remove(MAIN)
            for _ in range(3):
                await desk.reload()
            assert await desk.send("Orders", key="orders1") == (0, None)
            desk.write(ACCOUNTS + "- accessKey: [\n")
            await desk.reload()
        desk.write(ACCOUNTS.replace("orders1", "orders2"))
        await desk.reload()
        assert (await desk.send("Orders", key="orders1"))[0] == 1

    plain(main)
    said = [each.getMessage() for each in caplog.records]
    broken, missing, again = [each for each in said if "the rules read before stay" in each]
    assert again == missing
    assert broken.startswith("/rocketmq/conf/plain_acl.yml line 21: it is not YAML")
    assert missing.startswith("there is no /rocketmq/conf/plain_acl.yml and no .yml file in /rocketmq/conf/acl")


def test_files_in_the_folder_are_read_and_watched(plain):
    more = "accounts:\n- {accessKey: %s, secretKey: 12345678, defaultTopicPerm: PUB}\n"

    async def main(desk):
        desk.write(more % "below01", FOLDER / "a" / "b" / "more.yaml")
        desk.write(more % "tools01", FOLDER / "tools.yml")
        desk.write(more % "notes01", FOLDER / "notes.txt")
        desk.write(more % "hidden1", FOLDER / "..data" / "more.yml")
        await desk.reload()
        found = {key: (await desk.send("T", key=key))[0] for key in ("below01", "tools01", "notes01", "hidden1")}
        assert found == {"below01": 0, "tools01": 1, "notes01": 1, "hidden1": 1}
        desk.write(more % "orders1", FOLDER / "a.yml")  # the main file has it, too
        await desk.reload()
        assert (await desk.send("Bills", key="orders1"))[0] == 1
        desk.files.remove(FOLDER / "a" / "b" / "more.yaml")
        await desk.reload()
        assert (await desk.send("T", key="below01"))[0] == 1

    plain(main)


def test_the_folder_is_enough(plain):
    async def main(desk):
        assert await desk.send("Orders", key="orders1") == (0, None)

    plain(main, **{"rocketmq.acl.plain.file": "conf/plain_acl.yml"})
    with pytest.raises(PluginError, match="there is no /rocketmq/conf/other.yml and no .yml file in"):
        plain(main, **{"rocketmq.acl.plain.file": "conf/other.yml"})


def test_faults_stop_the_start(plain):
    with pytest.raises(PluginError) as caught:
        plain(None, ACCOUNTS.replace("secretKey: 12345678", "secretKey: 123456", 1))
    assert str(caught.value) == (
        "aclEnable=true: /rocketmq/conf/plain_acl.yml line 5: account operator: secretKey has 6 characters; it needs "
        "more than 6"
    )
    with pytest.raises(PluginError, match="there is no /rocketmq/conf/plain_acl.yml"):
        plain(None, None)
    with pytest.raises(PluginError, match="aclEnable=true needs the folder with conf/plain_acl.yml: set aclHome="):
        plain(None, aclHome="")
    with pytest.raises(ConfigError, match="aclEnable=true selects authorizer=plain, and the test has authorizer=other"):
        plain(None, authorizer="other")


def test_a_file_that_everyone_can_read_is_a_warning(plain, caplog):
    async def main(desk):
        desk.files.mode = 0o644
        await desk.cluster.stop()
        await desk.cluster.start()

    plain(main)
    assert [each.getMessage() for each in caplog.records if "chmod" in each.getMessage()] == [
        "/rocketmq/conf/plain_acl.yml has secrets, and every user of this host can read it: chmod 600 "
        "/rocketmq/conf/plain_acl.yml"
    ]


def test_an_account_that_is_gone_ends_its_connections(plain):
    async def main(desk):
        ext = {
            "consumerGroup": "readers",
            "topic": "Orders",
            "queueId": "0",
            "queueOffset": "0",
            "maxMsgNums": "1",
            "sysFlag": "6",
            "commitOffset": "0",
            "suspendTimeoutMillis": "15000",
            "subscription": "*",
            "subVersion": "0",
        }
        assert await desk.send("Orders", key="orders1") == (0, None)
        held = asyncio.ensure_future(desk.ask(11, {**ext, "queueId": "1"}, key="orders1"))
        await desk.world.clock.sleep(1)
        assert not held.done()
        desk.write(ACCOUNTS.replace("orders1", "orders2"))
        await desk.reload()
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(held, 1)

    plain(main)
