"""A store that we wrote opens in a Java broker, and the reverse."""

import re
from datetime import datetime
from pathlib import Path

import pytest
from checks import assert_same_messages, leave, position, wait_for_bodies
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, MqAdmin
from harness.gantry_server import gantrymq
from harness.java_servers import SMALL_STORE
from harness.process import Event
from polling import wait_until

from gantrymq.formats.record import read_record
from gantrymq.model.hosts import pack_host, parse_address
from gantrymq.model.ids import offset_id

pytestmark = pytest.mark.interop

JAVA = "5.3.3"
# Small enough that the messages below fill several files of the log, of each queue, and of the index.
QUEUE_FILE_BYTES = 600
ENTRY_BYTES = 20
SETTINGS = {
    **SMALL_STORE,
    "mappedFileSizeCommitLog": "262144",
    "mappedFileSizeConsumeQueue": str(QUEUE_FILE_BYTES),
    "maxHashSlotNum": "50",
    "maxIndexNum": "200",
}
QUEUES = 4
# Lines that depend on the broker's address, the tool's machine, online clients, or the tool's log and stack traces.
HERE_ONLY = re.compile(r"OffsetID:|Message Body Path:|MessageTrack |See https|\d\d:\d\d:\d\d,\d+ \|-|\s+(at |\.\.\. )")
DEADLINE_S = 30.0
SAME = ("queueId", "queueOffset", "msgId", "bodySha256", "bodyLength", "tags", "keys")


def test_a_java_broker_opens_our_store_and_we_open_it_again(tmp_path: Path, topic: str) -> None:
    with GantryServer.both(tmp_path / "ours", settings=SETTINGS) as server:
        written = _write(Driver(JAVA, tmp_path / "first", server.namesrv), topic)
        answers = _look_up(tmp_path / "tool1", server.namesrv, server.broker_address, topic, written)
        store = server.store
        assert server.stop() == 0
    assert len(list((store / "commitlog").iterdir())) > 1
    assert len(list((store / "index").iterdir())) > 1
    assert not (store / "abort").exists()

    added = _read_and_add_with_java(tmp_path, store, topic, written, answers)

    with GantryServer.both(tmp_path / "again", store=store, settings=SETTINGS) as server:
        _assert_all(Driver(JAVA, tmp_path / "third", server.namesrv), topic, [*written, *added])
        assert _look_up(tmp_path / "tool3", server.namesrv, server.broker_address, topic, written) == answers
        _look_up(tmp_path / "tool4", server.namesrv, server.broker_address, topic, added)


def test_a_java_broker_opens_our_store_whose_beginning_was_deleted(tmp_path: Path, topic: str) -> None:
    settings = {**SETTINGS, "deleteCommitLogFilesInterval": "0"}
    with GantryServer.both(tmp_path / "ours", settings={**settings, "fileReservedTime": "0"}) as server:
        written = _write(Driver(JAVA, tmp_path / "first", server.namesrv), topic)
        found = gantrymq(tmp_path / "clean", "broker", "clean", "log", "-n", server.namesrv)
        deleted = re.fullmatch(r"deleting (\d+) log files, (\d+) bytes", found["cleaned"][0]["said"])
        assert deleted is not None
        assert int(deleted[2]) == int(deleted[1]) * 262144 > 0
        # Files whose entries became durable meanwhile are removed without the command.
        _wait_for_one_log_file(server.store, least=int(deleted[2]))
        kept, queues = _read(Driver(JAVA, tmp_path / "second", server.namesrv), topic)
        store = server.store
        # A Java broker searches a queue's minimum in its first file only, and deletes files later.
        _wait_for_queue_files(store, topic, {queue_id: minimum for queue_id, (minimum, _) in queues.items()})
        assert server.stop() == 0
    assert 0 < len(kept) < len(written)
    assert {e["bodySha256"] for e in kept} < {e["bodySha256"] for e in written}
    assert all(minimum > 0 for minimum, _ in queues.values())

    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, store=store, settings=settings),
    ):
        driver = Driver(JAVA, tmp_path / "third", namesrv.address)
        assert _read(driver, topic) == (kept, queues)
        added = driver.produce(topic, 40, body_prefix="added")
        after, _ = _read(driver, topic)
        assert_same_messages(added, [e for e in after if e not in kept])

    with GantryServer.both(tmp_path / "again", store=store, settings=settings) as server:
        assert _read(Driver(JAVA, tmp_path / "fourth", server.namesrv), topic)[0] == after


def test_we_open_the_store_of_a_java_broker(tmp_path: Path, topic: str) -> None:
    group = f"{topic}-group"
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, settings=SETTINGS) as broker,
    ):
        driver = Driver(JAVA, tmp_path / "first", namesrv.address)
        written = _write(driver, topic)
        with driver.push(topic, group) as consumer:
            leave(consumer, broker.address, group, written)
        answers = _look_up(tmp_path / "tool1", namesrv.address, broker.address, topic, written)
        store = broker.store

    with GantryServer.both(tmp_path / "ours", store=store, settings=SETTINGS) as server:
        driver = Driver(JAVA, tmp_path / "second", server.namesrv)
        _assert_all(driver, topic, written)
        assert _look_up(tmp_path / "tool2", server.namesrv, server.broker_address, topic, written) == answers
        added = driver.produce(topic, 40, body_prefix="added")
        _assert_all(driver, topic, [*written, *added])
        _look_up(tmp_path / "tool3", server.namesrv, server.broker_address, topic, added)
        with driver.push(topic, group) as consumer:
            # The group's offsets came with the store: it gets only new messages.
            assert_same_messages(added, wait_for_bodies([consumer], added))


@pytest.mark.parametrize("end", [pytest.param("stopped cleanly", marks=pytest.mark.long), "killed"])
def test_a_java_broker_walks_over_the_places_that_we_gave_up(tmp_path: Path, topic: str, end: str) -> None:
    """A flipped bit, a zeroed page, the start of a file: every other message is there, at its offset, on both sides."""
    with GantryServer.both(tmp_path / "ours", settings=SETTINGS) as server:
        written = _write(Driver(JAVA, tmp_path / "first", server.namesrv), topic)
        store = server.store
        assert server.stop() == 0
    gone = _damage(store / "commitlog")
    (store / "abort").touch()
    (store / "checkpoint").unlink()  # the whole log is checked
    with GantryServer.both(tmp_path / "repaired", store=store, settings=SETTINGS) as server:
        ours = _received(Driver(JAVA, tmp_path / "second", server.namesrv), topic)
        assert server.stop() == 0
    left = [e for e in written if (e["queueId"], e["queueOffset"]) not in gone]
    assert len(gone) >= 3
    assert_same_messages(left, ours)

    if end == "killed":  # then Java reads its whole log, and ends it at the first record that it cannot parse
        (store / "abort").touch()
        (store / "checkpoint").unlink()
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, store=store, settings=SETTINGS),
    ):
        driver = Driver(JAVA, tmp_path / "third", namesrv.address)
        by_place = {(e["queueId"], e["queueOffset"]): e for e in _received(driver, topic)}
        assert_same_messages(left, by_place.values())
        added = driver.produce(topic, 40, body_prefix="added")
        by_place = {(e["queueId"], e["queueOffset"]): e for e in _received(driver, topic)}
        assert_same_messages([*left, *added], by_place.values())

    with GantryServer.both(tmp_path / "again", store=store, settings=SETTINGS) as server:
        assert_same_messages([*left, *added], _received(Driver(JAVA, tmp_path / "fourth", server.namesrv), topic))


def _received(driver: Driver, topic: str) -> list[Event]:
    return [e for e in driver.run("pull", topic=topic) if e["event"] == "received"]


def _damage(folder: Path) -> set[tuple[int, int]]:
    """Damage three places of the log; return queue and queue offset of the damaged messages."""
    first, second = sorted(folder.iterdir())[:2]
    hits = ((first, 5_000, 5_001), (first, 40_960, 45_056), (second, 0, 10))
    gone: set[tuple[int, int]] = set()
    for path, start, end in hits:
        data = bytearray(path.read_bytes())
        at = 0
        while at + 8 < len(data):
            size, magic = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
            if size == 0 or magic == b"\xcb\xd4\x31\x94":
                break
            if at < end and start < at + size:
                record = read_record(bytes(data[at : at + size]))
                gone.add((record.queue_id, record.queue_offset))
            at += size
        data[start:end] = bytes([data[start] ^ 1]) if end == start + 1 else bytes(end - start)
        path.write_bytes(data)
    return gone


def _write(driver: Driver, topic: str) -> list[Event]:
    """Send short, long and compressed bodies, single and in batches. A batch entry has the id of its batch, see
    `checks`."""
    single = driver.produce(topic, 160, tags="TagA,TagB", keys_prefix="k", size=3_000, body_prefix="single")
    packed = driver.produce(topic, 10, size=20_000, body_prefix="packed")
    batch = driver.produce(topic, 80, "batch", tags="TagA", body_prefix="batch")
    return [*single, *packed, *({**e, "msgId": None} for e in batch)]


def _read_and_add_with_java(
    tmp_path: Path, store: Path, topic: str, written: list[Event], answers: list[str]
) -> list[Event]:
    """Open *store* in a Java broker, find everything, by key too, add messages, and stop it cleanly."""
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, store=store, settings=SETTINGS) as broker,
    ):
        driver = Driver(JAVA, tmp_path / "second", namesrv.address)
        _assert_all(driver, topic, written)
        assert _look_up(tmp_path / "tool2", namesrv.address, broker.address, topic, written) == answers
        added = driver.produce(topic, 40, body_prefix="added")
        _assert_all(driver, topic, [*written, *added])
    return added


def _look_up(scratch: Path, namesrv: str, broker: str, topic: str, sent: list[Event]) -> list[str]:
    """Return what the admin tool finds by keys, unique keys, log offsets, and time windows.

    The first message, one in the middle and the last are queried; offset ids are built for *broker*, whichever broker
    stored the messages. One run of the tool can query only one unique key.
    """
    known = [each for each in sent if each["msgId"] is not None]
    here = pack_host(*parse_address(broker))
    answers = []
    for number, each in enumerate((known[0], known[len(known) // 2], known[-1])):
        with MqAdmin(JAVA, scratch / str(number), namesrv) as tool:

            def run(command: str, *words: str, tool: MqAdmin = tool) -> str:
                text = tool.run(command, "-n", namesrv, "-t", topic, *words)
                return "\n".join(line for line in text.splitlines() if not HERE_ONLY.match(line))

            by_unique_key = run("queryMsgByUniqueKey", "-i", each["msgId"])
            values = dict(line.split(": ", 1) for line in by_unique_key.splitlines() if ": " in line)
            assert (values["Topic"].strip(), int(values["Queue Offset"])) == (topic, each["queueOffset"])
            by_place = run("queryMsgById", "-i", offset_id(here, int(values["CommitLog Offset"])))
            assert each["msgId"] in by_place
            answers += [by_unique_key, by_place]
            stored = datetime.strptime(values["Store Timestamp"].strip(), "%Y-%m-%d %H:%M:%S,%f")
            at_ms = round(stored.timestamp() * 1000)
            if each["keys"]:
                found = run("queryMsgByKey", "-k", each["keys"])
                assert each["msgId"] in found
                answers.append(found)
                for begin, end in ((at_ms - 2000, at_ms + 2000), (0, at_ms - 60_000), (at_ms + 60_000, 2 * at_ms)):
                    answers.append(run("queryMsgByKey", "-k", each["keys"], "-b", str(begin), "-e", str(end)))
            answers.append(run("queryMsgByKey", "-k", "nobody-has-this-key"))
    return answers


def _wait_for_one_log_file(store: Path, *, least: int = 1) -> int:
    """Return where the log begins, at *least* there, when only the newest file and a preallocated one are left."""

    def look() -> int:
        starts = sorted(int(path.name) for path in (store / "commitlog").iterdir())
        return starts[0] if len(starts) <= 2 and starts[0] >= least else 0

    return wait_until(look, "all log files but the newest deleted", DEADLINE_S)


def _wait_for_queue_files(store: Path, topic: str, minima: dict[int, int]) -> None:
    """Wait until the first file of each queue has the queue's minimum."""

    def look() -> bool:
        names = {each: min((store / "consumequeue" / topic / str(each)).iterdir()).name for each in minima}
        return all(minima[each] * ENTRY_BYTES < int(name) + QUEUE_FILE_BYTES for each, name in names.items())

    wait_until(look, "queue files without entries deleted", DEADLINE_S)


def _read(driver: Driver, topic: str) -> tuple[list[Event], dict[int, tuple[int, int]]]:
    """Return what a Java client reads from each queue's minimum on, in offset order, and the queues' bounds."""
    events = driver.run("pull", topic=topic)
    received = sorted((e for e in events if e["event"] == "received"), key=position)
    bounds = {e["queueId"]: (e["minOffset"], e["maxOffset"]) for e in events if e["event"] == "queue"}
    return [{name: e[name] for name in SAME} for e in received], bounds


def _assert_all(driver: Driver, topic: str, expected: list[Event]) -> None:
    """Check that every message is there once, at its offset, and that each queue runs from 0 without a gap."""
    events = driver.run("pull", topic=topic)
    assert_same_messages(expected, [e for e in events if e["event"] == "received"])
    queues = [e for e in events if e["event"] == "queue"]
    assert [e["queueId"] for e in queues] == list(range(QUEUES))
    assert {e["minOffset"] for e in queues} == {0}
    assert sum(e["maxOffset"] for e in queues) == len(expected)
