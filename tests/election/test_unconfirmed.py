"""What is not confirmed is compared before a broker follows, because a power cut may have changed either log."""

import json
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import elected, leads, members, simulate_brokers, two_in_sync
from ha_pairs import end, ha_address, log_of, put
from message_history import records_in

from gantrymq_replication.election.epochs import Epoch
from gantrymq_replication.log_comparison import unconfirmed
from gantrymq_store_files.filler import fillers

EPOCHS = [Epoch(1, 0), Epoch(3, 500)]


@pytest.fixture
def run(monkeypatch):
    """Run ``main(brokers)``."""
    return lambda main, seed=1: simulate_brokers(main, monkeypatch, seed)


@pytest.mark.parametrize(
    ("low", "kept", "point", "master", "found"),
    [
        (0, 800, 800, EPOCHS, (600, 800, 800)),
        (0, 900, 800, EPOCHS, (600, 800, 800)),
        (0, 700, 800, EPOCHS, (600, 700, 800)),
        (0, 550, 800, EPOCHS, (550, 550, 800)),
        (0, 200_000, 200_000, EPOCHS, (200_000 - 65536, 200_000, 200_000)),
        (800, 800, 800, EPOCHS, None),
        (0, 800, 800, [Epoch(1, 700)], (700, 800, 800)),
        (0, 0, 800, EPOCHS, (1, 0, 800)),
        (0, 0, 0, EPOCHS, None),
        (600, 0, 800, EPOCHS, (600, 600, 800)),
        (0, 300, 800, EPOCHS[1:], None),
        (0, 300, 800, [], None),
    ],
)
def test_what_is_compared(low, kept, point, master, found):
    compared = unconfirmed(low, kept, point, 600, master)
    assert (compared and (compared.start, compared.least, compared.end)) == found


def test_a_master_of_another_set_at_the_same_address_is_not_followed(run):
    """Both logs have epoch 1 at 0 and records of the same sizes."""

    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await put(one, 10)
        await brokers.until(lambda: elected(two).confirmed == end(one), "copy")
        log = await log_of(two)
        await two.stop()
        other = await brokers.start("other", brokerName="broker-b")
        await brokers.until(lambda: leads(other), "other master")
        await put(other, 20)
        assert await elected(other).engine._take_id(2) == 2  # that set has one, too
        key = "/gantry/DefaultCluster/broker-a/members/1"
        record = brokers.etcd.keys[key]
        there = json.loads(record.value) | {"haAddress": ha_address(other)}
        brokers.etcd.write(
            {"/gantry/DefaultCluster/broker-a/members/1": (json.dumps(there).encode(), record.lease)}, []
        )
        two = await brokers.start("two")
        await brokers.until(lambda: "is that a master of another set" in elected(two).copy.problem, "refusal")
        assert await log_of(two) == log

    run(main)


def test_damage_after_the_confirm_offset_is_cut(run):
    """Recovery after a power cut replaces damage before whole records by fillers, so that the end stays."""

    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await put(one, 10)
        await brokers.until(lambda: end(two) == end(one), "copy")
        await two.stop()
        await brokers.until(lambda: members(one) == {1}, "set of one")
        files, log = brokers.pair.world.files, Path("/two/store/commitlog/00000000000000000000")
        confirmed, damaged = [*records_in([files.read(log)])][3:5]
        files.replace(Path("/two/store/plugins/replication/confirmed"), b"%d" % confirmed.log_offset)
        for place, data in fillers(damaged.log_offset, damaged.total_size, damaged.store_timestamp, ""):
            content = files.read(log)
            files.replace(log, content[:place] + data + content[place + len(data) :])
        two = await brokers.start("two")
        await brokers.until(lambda: members(one) == {1, 2}, "set of two")
        assert await log_of(two) == await log_of(one)
        await put(one, 10)
        await brokers.until(lambda: elected(two).confirmed == end(one), "copy")

    run(main)


@pytest.mark.parametrize("equal", [True, False])
def test_with_an_older_list_of_epochs_the_bytes_decide(run, equal):
    """The list in ``.bak`` lacks the epoch of the records that were confirmed last."""

    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await put(one, 10)
        await brokers.until(lambda: end(two) == end(one), "copy")
        await one.stop()
        await brokers.until(lambda: leads(two), "successor")
        one = await brokers.start("one")
        await brokers.until(lambda: members(two) == {1, 2}, "set of two")
        await put(two, 10)
        await brokers.until(lambda: elected(one).confirmed == end(two), "copy")
        await one.stop()
        files, epochs = brokers.pair.world.files, Path("/one/store/epochFileCheckpoint")
        whole = files.read(epochs)
        assert files.read(epochs.with_name(f"{epochs.name}.bak")) != whole
        files.replace(epochs, whole[:-4])
        if not equal:
            log = Path("/one/store/commitlog/00000000000000000000")
            content = files.read(log)
            *_, last = records_in([content])
            place = last.log_offset + last.total_size - 1
            files.replace(log, content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        one = await brokers.start("one")
        if equal:
            await brokers.until(lambda: files.read(epochs) == whole, "list of epochs")
            await brokers.until(lambda: members(two) == {1, 2}, "set of two")
            assert await log_of(one) == await log_of(two)
        else:
            await brokers.until(lambda: "this log is damaged at" in elected(one).copy.problem, "refusal")

    run(main)
