"""Pull and lite pull consumers, and the requests of the admin tool to consumers."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from checks import wait_for_bodies
from harness import Driver, GantryServer, MqAdmin, create_topic, gantrymq, wait_for_route
from harness.probe import committed, request
from polling import wait_until

from gantrymq.model.hosts import pack_host, parse_address
from gantrymq.model.ids import offset_id

pytestmark = pytest.mark.interop

COUNT = 12
PROGRESS_S = 60.0
GROUPS = ("CG_live", "CG_live_orderly")  # of the admin tool's own consumers


@pytest.fixture(params=[pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def driver(request: pytest.FixtureRequest, ours: GantryServer, tmp_path: Path) -> Driver:
    return Driver(request.param, tmp_path, ours.namesrv)


def test_pull_and_lite_pull_consumers_read_seek_and_commit(driver: Driver, ours: GantryServer, topic: str) -> None:
    create_topic(ours.namesrv, topic, queues=2)
    bodies = sorted(str(event["body"]) for event in driver.produce(topic, COUNT))
    found = {event["event"]: event for event in driver.run("read", topic=topic, count=COUNT, behind=5)}
    half = COUNT // 2
    ends = {"0": half, "1": half}
    assert sorted(found["legacy"]["bodies"]) == bodies
    assert (found["legacy"]["ends"], found["committed"]["ends"], found["found by time"]["offset"]) == (ends, ends, 0)
    assert found["scheduled"]["good"]
    assert sorted(found["scheduled"]["bodies"]) == bodies
    assert (sorted(found["subscribed"]["bodies"]), found["subscribed"]["ends"]) == (bodies, ends)
    assert (found["subscribed again"]["bodies"], found["subscribed again"]["ends"]) == ([], ends)
    lite = found["assigned"]
    assert (sorted(lite["first"]), sorted(lite["again"]), lite["none"]) == (bodies, bodies, [])
    assert (len(lite["rest"]), lite["byTime"], lite["committed"]) == (half - 1, 0, half)
    for group in ("legacy", "scheduled", "lite", "assigned"):
        places = [committed(ours.broker_address, f"{topic}-{group}", topic, queue_id) for queue_id in (0, 1)]
        assert places == [half, half], group


@pytest.fixture(scope="module")
def live(ours: GantryServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqAdmin]:
    """The admin tool with a producer and two consumers of topic Live, which have read its messages."""
    with MqAdmin("5.3.3", tmp_path_factory.mktemp("tool"), ours.namesrv) as tool:
        create_topic(ours.namesrv, "Live", queues=2)
        tool.live("Live")
        broker = next(iter(re.findall(r'"brokerName":"([^"]+)"', wait_for_route(ours.namesrv, "Live"))))
        for number in range(COUNT):
            body = base64.b64encode(b"message %d" % number).decode()
            tool.send("Live", broker, number % 2, "TagA", f"live{number}", body)
        for group in GROUPS:
            wait_for_all_read(ours, group)
        yield tool


def places(ours: GantryServer, group: str, topic: str) -> list[int | None]:
    return [committed(ours.broker_address, group, topic, queue_id) for queue_id in (0, 1)]


def wait_for_all_read(ours: GantryServer, group: str) -> None:
    wait_until(lambda: places(ours, group, "Live") == [6, 6], f"progress of {group}", PROGRESS_S)


def test_consumers_say_what_they_do(live: MqAdmin, ours: GantryServer) -> None:
    """Request 307: the tool shows and compares the response of each consumer."""
    for group in GROUPS:
        text = live.run("consumerStatus", "-n", ours.namesrv, "-g", group)
        assert "Same subscription in the same group of consumer" in text, text
        assert "Rebalance OK" in text, text
        (client,) = re.findall(r"(\S+@c\d)\s", text)[:1]
        text = live.run("consumerStatus", "-n", ours.namesrv, "-g", group, "-i", client)
        assert "#Consumer Properties#" in text, text
        assert "#Consumer MQ Detail#" in text, text


def test_consumers_tell_their_offsets(live: MqAdmin, ours: GantryServer) -> None:
    """Request 223: offsets by client id, as the consumers have them in memory."""
    header, body = request(ours.broker_address, 223, {"topic": "Live", "group": GROUPS[0]})
    assert header["code"] == 0
    assert b'"127.0.0.1@c2":{' in body
    assert re.findall(rb'"queueId":(\d),"topic":"Live"}:(\d+)', body) in (
        [(b"0", b"6"), (b"1", b"6")],
        [(b"1", b"6"), (b"0", b"6")],
    )


def test_a_message_is_consumed_at_once_by_the_consumer_that_is_named(live: MqAdmin, ours: GantryServer) -> None:
    """Request 309, in all forms of the tool; a consumer that is not online gives code 1."""
    row = live.run("queryMsgByKey", "-n", ours.namesrv, "-t", "Live", "-k", "live3").splitlines()[1].split()
    found = live.run("queryMsgByUniqueKey", "-n", ours.namesrv, "-t", "Live", "-i", row[0])
    (at,) = re.findall(r"CommitLog Offset:\s+(\d+)", found)
    place = offset_id(pack_host(*parse_address(ours.broker_address)), int(at))
    for group, client in zip(GROUPS, ("c2", "c3"), strict=True):
        for words in (
            ("queryMsgById", "-t", "Live", "-i", place, "-g", group, "-d", f"127.0.0.1@{client}"),
            ("queryMsgByUniqueKey", "-t", "Live", "-i", row[0], "-g", group, "-d", f"127.0.0.1@{client}"),
        ):
            text = live.run(words[0], "-n", ours.namesrv, *words[1:])
            assert "consumeResult=CR_SUCCESS" in text, text
    text = live.run("queryMsgById", "-n", ours.namesrv, "-t", "Live", "-i", place, "-g", GROUPS[0], "-d", "gone")
    assert "The Consumer <CG_live> <gone> not online" in text, text


def test_the_tool_reads_messages(live: MqAdmin, ours: GantryServer) -> None:
    text = live.run("consumeMessage", "-n", ours.namesrv, "-t", "Live", "-c", "20")
    assert len(re.findall(r"^MSGID: ", text, re.MULTILINE)) == COUNT, text


def test_offsets_are_set_cloned_and_passed_over(live: MqAdmin, ours: GantryServer) -> None:
    """Requests 222, 314 and 15; online members read again from the offset of the reset."""
    group = GROUPS[0]
    text = live.run("resetOffsetByTime", "-n", ours.namesrv, "-g", group, "-t", "Live", "-s", "0", "-f", "true")
    assert sorted(line.split()[1:] for line in text.splitlines()[2:]) == [["0", "0"], ["1", "0"]], text
    wait_for_all_read(ours, group)
    gantrymq(ours.store.parent, "group", "create", "-n", ours.namesrv, "-g", "CG_clone")
    text = live.run("cloneGroupOffset", "-n", ours.namesrv, "-s", group, "-d", "CG_clone", "-t", "Live", "-o", "false")
    assert "clone group offset success" in text, text
    assert places(ours, "CG_clone", "Live") == [6, 6]
    live.run("resetOffsetByTime", "-n", ours.namesrv, "-g", "CG_clone", "-t", "Live", "-s", "0", "-f", "true")
    assert places(ours, "CG_clone", "Live") == [0, 0]
    text = live.run("skipAccumulatedMessage", "-n", ours.namesrv, "-g", "CG_clone", "-t", "Live", "-f", "true")
    assert places(ours, "CG_clone", "Live") == [6, 6], text


def test_a_new_group_begins_where_consume_from_where_says(driver: Driver, ours: GantryServer, topic: str) -> None:
    """A new group starts a young queue at its first message with every consumeFromWhere; a commit has precedence."""
    create_topic(ours.namesrv, topic, queues=1)
    before = driver.produce(topic, 3, body_prefix="before")
    with driver.push(topic, f"{topic}-last", **{"from": "last"}) as consumer:
        wait_for_bodies([consumer], before)
