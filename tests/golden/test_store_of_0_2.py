"""A store that GantryMQ 0.2.0 stopped cleanly: this version opens it, and leaves files that 0.2.0 reads.

README.md says what is in the store. That 0.2.0 itself goes on with what this version leaves was tried by hand with its
code; here the files are compared with those that it wrote.
"""

import json
import tarfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client import Message
from gantrymq.client.sync import Client
from gantrymq.loose_json import loads
from gantrymq_testing.running_broker import RunningBroker

NEEDED = "admin allocate diagnosis filter_sql92 filter_tag nameserver pop schedule storage_mmap store_tools transaction"
pytestmark = pytest.mark.skipif(
    any(find_spec(f"gantrymq_{name}") is None for name in NEEDED.split()), reason="needs the plugins of a whole broker"
)

ARCHIVE = Path(__file__).parent / "store_0_2.tar.xz"
SETTINGS = {
    "store": "mmap",
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "6000",
    "mappedFileSizeTimerLog": "32000",
    "maxHashSlotNum": "400",
    "maxIndexNum": "1000",
    "enablePropertyFilter": "true",
    "enableCalcFilterBitMap": "true",
    "fileReservedTime": "1000000",  # hours: the store stays as old as it is
    "metricsExporterType": "DISABLE",
}
WAITED = {f"old-{kind}-{number}" for kind in ("level", "timed") for number in range(3)}
NOT_CONSUMED = (
    {f"old-{number}" for number in (*range(129, 192, 2), *range(192, 200))}
    | {f"old-batch-{number}" for number in range(5)}
    | {"old-committed"}
)


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "store"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_it_is_sound(store):
    done = CliRunner().invoke(main, ["store", "check", str(store), "--output", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["records"] == 232


def test_every_group_continues_where_it_was(store):
    with RunningBroker(store.parent, SETTINGS) as server, Client(server.namesrv) as client:
        assert consumed(client, "billing", NOT_CONSUMED | WAITED) == NOT_CONSUMED | WAITED
        assert consumed(client, "expensive", WAITED, "price > 30 AND region = 'r1' OR price IS NULL") >= WAITED
        popped = client.pop_consumer("packing", "Jobs")
        assert {message.body.decode() for message in until(3, lambda: popped.pop(poll_s=1))} == {
            "old-job-0",
            "old-job-1",
            "old-job-4",
        }
        undecided = CliRunner().invoke(main, ["transactions", "list", "-n", server.namesrv, "--output", "json"])
        assert undecided.exit_code == 0, undecided.output
        found = [one["keys"] for broker in json.loads(undecided.stdout)["brokers"] for one in broker["transactions"]]
        assert found == ["old-undecided"]


def test_a_new_group_gets_every_message_by_either_filter(store):
    with RunningBroker(store.parent, SETTINGS) as server, Client(server.namesrv) as client:
        prices = {f"old-{number}" for number in range(31, 200) if number % 5 == 1}
        assert consumed(client, "new_sql", prices, "price > 30 AND region = 'r1'") == prices
        everything = {f"old-{number}" for number in range(200)} | NOT_CONSUMED | WAITED
        assert consumed(client, "new_tag", everything) == everything


def test_it_stays_a_store_of_0_2(store):
    before, keys = files(store), json_keys(store)
    with RunningBroker(store.parent, SETTINGS) as server, Client(server.namesrv) as client:
        consumed(client, "billing", NOT_CONSUMED | WAITED)
        client.producer("shop").send(Message("Orders", b"new", tags="big", properties={"price": "31"}))
    new = {name for name in files(store) - before if not name.startswith(("consumequeue/", "commitlog/"))}
    # 0.2 reads none of these; it writes a .bak itself when a state file changes.
    assert {name for name in new if not name.endswith(".bak")} <= {"delayLevels.json", "lock"}
    assert not before - files(store)
    assert json_keys(store) == keys
    assert (store / "checkpoint").stat().st_size == 4096


def consumed(client, group, bodies, expression=None):
    """Consume as *group* until all of *bodies* have come, and return what has come."""
    options = {"expression": expression, "expression_type": "SQL92"} if expression else {}
    with client.lite_pull(group, "Orders", consume_from="first", **options) as consumer:
        got = until(len(bodies), lambda: consumer.poll(timeout_s=1))
        got += consumer.poll(timeout_s=0.2)  # what is not expected
        consumer.commit()
    return {message.body.decode() for message in got}


def until(count, take):
    """Return what *take* returned until there are *count*, or 30 s have passed."""
    found, end = [], time.monotonic() + 30
    while len(found) < count and time.monotonic() < end:
        found += take()
    return found


def files(store):
    return {path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()}


def json_keys(store):
    """Return the keys of each state file, and of one topic and one group in it."""
    found = {}
    for name in ("topics", "subscriptionGroup", "consumerOffset", "delayOffset"):
        table = loads((store / "config" / f"{name}.json").read_text())
        found[name] = set(table)
        for inner, entry in (("topicConfigTable", "Orders"), ("subscriptionGroupTable", "billing")):
            if inner in table:
                found[name, entry] = set(table[inner][entry])
    found["checkpoint"] = set(json.loads((store / "checkpoint.json").read_text()))
    return found
