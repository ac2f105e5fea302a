"""Stops of every kind as an operator meets them: exit codes, what is left in the store, what the next start says."""

from __future__ import annotations

import asyncio
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from durability_rig.broker_process import BrokerProcess
from durability_rig.ledger import Findings, Ledger
from durability_rig.load import TOPICS, Load, make_load_topics, read_everything
from polling import wait_until

from gantrymq.client import Client
from gantrymq.errors import FormatError
from gantrymq.formats.record import RecordView, iter_records
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES

REQUESTS = 60
LOAD_S = 120.0
WRITTEN_S = 60.0
SETTINGS = {"mappedFileSizeCommitLog": 16 * 1024 * 1024, "flushIntervalConsumeQueue": 20}  # one log file; brisk ticks
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ (?P<level>[A-Z]+) (?P<logger>[\w.]+): (?P<text>.+)")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


class Setup:
    """One store, its ledger, and the broker that runs on it."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger()
        self.store = folder / "store"
        self._scratch = folder / "processes"

    def broker(self) -> BrokerProcess:
        return BrokerProcess(self.store, self._scratch, SETTINGS)

    def send_until(self, broker: BrokerProcess, end: Callable[[], None]) -> None:
        """Load the broker, and call *end* in the middle of it."""

        async def work() -> None:
            namesrv = broker.namesrv()
            await make_load_topics(namesrv, self.ledger)
            requests = 0

            def acknowledged() -> None:
                nonlocal requests
                requests += 1
                if requests == REQUESTS:
                    load.stop()
                    end()

            load = Load(self.ledger, namesrv, "recovery", on_acknowledged=acknowledged)
            await asyncio.wait_for(load.run(), LOAD_S)

        asyncio.run(work())
        assert not self.ledger.refusals, self.ledger.refusals

    def send_one(self, broker: BrokerProcess, size: int) -> None:
        """One more message, behind all others."""

        async def work() -> None:
            async with Client(broker.namesrv()) as client, client.producer("last", retries=0) as producer:
                number, message = self.ledger.write(TOPICS[0], random.Random(size), size=size)
                self.ledger.acknowledge("last", [number], await producer.send(message))

        asyncio.run(work())

    def killed(self, last_bytes: int | None = None) -> None:
        """Load a broker and kill it under the load, or when one more message of *last_bytes* has its queue entry."""
        with self.broker() as broker:
            if last_bytes is None:
                self.send_until(broker, broker.send_kill)
            else:
                self.send_until(broker, lambda: None)
                self.send_one(broker, last_bytes)
                self.wait_for_entry(self.records()[-1])
                broker.send_kill()
            broker.exit_code()
        assert (self.store / "abort").exists()

    def wait_for_entry(self, record: RecordView) -> None:
        """Wait until the queue entry of *record*, which is in memory at first, is in its file."""
        path = self.store / "consumequeue" / record.topic / str(record.queue_id) / f"{0:020d}"
        start = record.queue_offset * ENTRY_BYTES
        entry = ENTRY.pack(record.log_offset, record.total_size, 0)[:12]  # without its tags code

        def written() -> bool:
            return path.exists() and path.read_bytes()[start : start + len(entry)] == entry

        wait_until(written, f"entry of {record.log_offset} in {path}", WRITTEN_S)

    def compare(self, broker: BrokerProcess) -> Findings:
        """Read everything back."""
        content, topics = asyncio.run(read_everything(broker.namesrv()))
        return self.ledger.compare(content, topics)

    @property
    def log(self) -> Path:
        """The only log file."""
        (path,) = (path for path in (self.store / "commitlog").iterdir() if int(path.name) == 0)
        return path

    def records(self) -> list[RecordView]:
        """Every record of the log, without a last one that a kill interrupted while it was copied into the file."""
        data = self.log.read_bytes()
        end, records = 0, []
        while size := int.from_bytes(data[end : end + 4]):
            try:
                (record,) = iter_records(data[end : end + size])
            except FormatError:
                assert not any(data[end + size :]), "a damaged record is not the last one"
                break
            records.append(record)
            end += record.total_size
        return records


INDEX_REMOVED = re.compile(r"index file \d{17} was being written when the broker ended; it is removed and rebuilt")


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def number_of(record: RecordView) -> int:
    """Its number in the ledger; the body may be compressed."""
    return int(record.properties["KEYS"])


def said(broker: BrokerProcess, logger: str, level: str) -> list[str]:
    """Lines of one logger and level on stderr; everything there is one line each in the log's form."""
    lines = [LINE.fullmatch(line) for line in broker.errors.splitlines()]
    assert None not in lines, broker.errors
    return [line["text"] for line in lines if line and (line["logger"], line["level"]) == (logger, level)]


def of_store(broker: BrokerProcess) -> tuple[list[str], list[str]]:
    """What the start said of the store: when all was well, and when not."""
    return said(broker, "gantrymq.broker.server", "INFO"), said(broker, "gantrymq.broker.server", "WARNING")


def test_sigterm_under_load_stops_cleanly(setup: Setup) -> None:
    with setup.broker() as broker:
        setup.send_until(broker, broker.send_terminate)
        assert broker.exit_code() == 0, broker.errors
        assert "Traceback" not in broker.errors
    assert not (setup.store / "abort").exists()
    with setup.broker() as broker:
        findings = setup.compare(broker)
        assert findings.problems == 0, findings
        well, not_well = of_store(broker)
        assert not_well == []
        assert len(well) == 1
        assert re.search(r"opened, clean; its log ends at \d+", well[0])
        assert broker.terminate() == 0
    assert not (setup.store / "recovered").exists()


def test_a_start_after_a_kill_says_what_it_did_in_a_line_for_the_log_and_one_for_the_index(setup: Setup) -> None:
    setup.killed()
    count = len(setup.records())
    with setup.broker() as broker:
        findings = setup.compare(broker)
        assert findings.problems == 0, findings
        well, not_well = of_store(broker)
        assert well == []
        index_removed, opened = not_well
        assert INDEX_REMOVED.match(index_removed)
        assert f"opened after a stop that was not clean: {count} records checked" in opened
        assert broker.terminate() == 0
        assert "Traceback" not in broker.errors


@pytest.mark.parametrize(("tear", "last_bytes"), [("zeroed", 10), ("garbage", 20_000), ("truncated", 20_000)])
def test_a_torn_tail_is_cut_and_kept_and_the_rest_is_intact(setup: Setup, tear: str, last_bytes: int) -> None:
    setup.killed(last_bytes)
    *_, last = setup.records()
    start, half = last.log_offset, last.total_size // 2
    data = setup.log.read_bytes()
    kept = data[start : start + half]
    with setup.log.open("r+b") as log:
        if tear == "truncated":  # and reserved again, as an operator's copy of a sparse file may look
            log.truncate(start + half)
            log.truncate(len(data))
        else:
            filling = bytes(last.total_size - half) if tear == "zeroed" else b"\xa5" * (last.total_size - half)
            kept += filling
            log.seek(start + half)
            log.write(filling)
    assert number_of(last) == len(setup.ledger.messages) - 1
    setup.ledger.messages[-1].place = None  # the store may lose what the test destroyed, and nothing else
    with setup.broker() as broker:
        findings = setup.compare(broker)
        assert findings.problems == 0, findings
        well, not_well = of_store(broker)
        assert well == []
        ends, bytes_kept, entry_kept, index_removed, opened = not_well
        assert f"the log ends at {start} because of a write that did not finish" in ends or "because of damage" in ends
        assert "were kept in" in bytes_kept
        assert entry_kept.startswith(f"queue {last.topic}/{last.queue_id}: 1 entries without a record were kept in ")
        assert INDEX_REMOVED.match(index_removed)
        assert "opened after a stop that was not clean" in opened
        assert broker.terminate() == 0
    (folder,) = (setup.store / "recovered").iterdir()
    copy = (folder / "commitlog" / f"{start:020d}").read_bytes()
    assert copy == kept.rstrip(b"\0")
    assert str(folder) in bytes_kept
    assert setup.log.read_bytes()[start : start + last.total_size] == bytes(last.total_size)
    with setup.broker() as broker:  # the cut was durable: nothing is left to say
        assert setup.compare(broker).problems == 0
        assert of_store(broker)[1] == []
        assert broker.terminate() == 0


def test_the_check_sees_a_message_that_was_destroyed(setup: Setup) -> None:
    setup.killed()
    first = next(r for r in setup.records() if setup.ledger.messages[number_of(r)].place is not None)
    with setup.log.open("r+b") as log:
        log.seek(first.log_offset)
        log.write(bytes(first.total_size))
    with setup.broker() as broker:
        findings = setup.compare(broker)
    assert findings.lost == 1, findings  # the records behind it stay
