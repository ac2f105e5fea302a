"""A Java broker opens a store repaired by `gantrymq store repair`, and has every undamaged message."""

import json
from pathlib import Path

import pytest
from checks import assert_same_messages
from click.testing import CliRunner
from harness import Driver, JavaBroker, JavaNameServer
from harness.java_servers import SMALL_STORE
from harness.process import Event

from gantrymq.cli import main
from gantrymq.world.real import RealFiles
from gantrymq_store_files.log_walk import LogDamage, scan
from gantrymq_store_tools.layout import find_layout
from gantrymq_store_tools.log_reader import LogReader

pytestmark = pytest.mark.interop

JAVA = "5.3.3"
LOG_FILE_BYTES = 262144
SETTINGS = {**SMALL_STORE, "mappedFileSizeCommitLog": str(LOG_FILE_BYTES), "mappedFileSizeConsumeQueue": "600"}


@pytest.mark.parametrize("stop", [pytest.param("clean", marks=pytest.mark.long), "abort"])
def test_a_java_broker_opens_a_repaired_store(tmp_path: Path, topic: str, stop: str) -> None:
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, settings=SETTINGS) as broker,
    ):
        driver = Driver(JAVA, tmp_path / "first", namesrv.address)
        written = driver.produce(topic, 200, tags="TagA", keys_prefix="k", size=3_000, body_prefix="single")
        store = broker.store
    lost = _spoil(store, topic, [100_000, LOG_FILE_BYTES + 100_000, 2 * LOG_FILE_BYTES + 5_000])
    assert len(lost) == 3

    done = CliRunner().invoke(main, ["store", "repair", str(store), "--output", "json"])
    assert done.exit_code == 0, done.output
    repaired = Path(json.loads(done.stdout)["target"])
    if stop == "abort":
        (repaired / "abort").write_text("1")  # recovery has to read past the filler records

    expected = [event for event in written if (event["queueId"], event["queueOffset"]) not in lost]
    assert len(expected) == len(written) - 3
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv2") as namesrv,
        JavaBroker(JAVA, tmp_path / "java2", namesrv.address, store=repaired, settings=SETTINGS),
    ):
        driver = Driver(JAVA, tmp_path / "second", namesrv.address)
        _assert_there(driver, topic, expected)
        added = driver.produce(topic, 20, body_prefix="added")
        _assert_there(driver, topic, [*expected, *added])
    assert CliRunner().invoke(main, ["store", "check", str(repaired)]).exit_code == 0


def _assert_there(driver: Driver, topic: str, expected: list[Event]) -> None:
    """Every message is there; one next to a lost one may be delivered twice, since the lost one's entry repeats it."""
    received = [event for event in driver.run("pull", topic=topic) if event["event"] == "received"]
    by_place = {(event["queueId"], event["queueOffset"]): event for event in received}
    assert len(received) <= len(by_place) + 3
    assert_same_messages(expected, by_place.values())


def _spoil(store: Path, topic: str, places: list[int]) -> set[tuple[int, int]]:
    """Damage the body of the first record of the topic after each place; return their queues and offsets."""
    files = RealFiles()
    found = scan(LogReader(files, find_layout(files, store).log))
    records = [each for each in found if not isinstance(each, LogDamage) and each.topic == topic]
    lost = set()
    for place in places:
        record = next(record for record in records if record.log_offset >= place)
        start = record.log_offset - record.log_offset % LOG_FILE_BYTES
        path = store / "commitlog" / f"{start:020d}"
        data = bytearray(path.read_bytes())
        data[record.log_offset - start + 100] ^= 1
        path.write_bytes(data)
        lost.add((record.queue_id, record.queue_offset))
    return lost
