"""`gantrymq store` as a whole: exit codes, JSON, text."""

import io
import json

import pytest
from click.testing import CliRunner
from small_store import SmallStore

from gantrymq.cli import main
from gantrymq.formats.record import iter_records
from gantrymq.model.ids import offset_id
from gantrymq_store_tools.commands.progress import progress_bar


@pytest.fixture
def small(tmp_path):
    store = SmallStore(tmp_path / "store")
    for number in range(20):
        store.add("Orders", number % 2, f"body {number} ".encode() * 9, f"key-{number}")
    store.add("Orders", 0, b"\xff\xfe", "binary")
    store.write()
    return store


def run(*words, code=0):
    done = CliRunner().invoke(main, ["store", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


def documents(*words, code=0):
    return [json.loads(line) for line in run(*words, "--output", "json", code=code).stdout.splitlines()]


def test_check_says_sound_or_damaged_by_its_exit_code(small):
    assert "sound" in run("check", small.root).stdout
    (report,) = documents("check", small.root)
    assert (report["damaged"], report["findings"], report["records"]) == (False, [], 21)
    small.spoil_log(small.records[7][0] + 100, b"?")
    done = run("check", small.root, code=1)
    assert "log.damaged" in done.stdout
    assert "gantrymq store repair" in done.stderr
    (report,) = documents("check", small.root, code=1)
    assert report["findings"][0]["kind"] == "log.damaged"
    assert report["findings"][0]["place"] == small.records[7][0]


def test_check_says_how_many_entries_are_in_how_many_files(small):
    end = small.records[-1][0] + small.records[-1][1]
    assert run("check", small.root).stderr == (
        f"21 records from log offset 0 to {end}; entries: 21 in 2 queues, 0 in 0 batch queues, 63 in 2 index files\n"
    )


def test_check_without_crc_lets_a_body_pass(small):
    small.spoil_log(small.records[7][0] + 100, b"?")
    run("check", small.root, "--no-crc")


def test_what_is_no_store_is_refused_with_a_sentence(tmp_path):
    for command in ("check", "repair", "rebuild-queues", "rebuild-index", "extract", "dump", "stat"):
        done = run(command, tmp_path, code=1)
        assert done.stderr.startswith("gantrymq: ")
        assert "is not a store" in done.stderr


def test_repair_makes_a_sound_copy_beside_the_store(small):
    assert "nothing to repair" in run("repair", small.root).stdout
    small.spoil_log(small.records[7][0] + 100, b"?")
    before = small.contents()
    (report,) = documents("repair", small.root)
    target = small.root.with_name("store.repaired")
    assert (report["target"], report["damaged"], report["before"]["damaged"]) == (str(target), False, True)
    assert small.contents() == before
    run("check", target)
    assert "already exists" in run("repair", small.root, code=1).stderr
    text = run("repair", small.root, "--to", small.root.with_name("other")).stdout
    assert "a filler of" in text
    assert "sound, 20 records" in text


def test_queues_and_index_are_rebuilt_beside_the_store(small):
    (queues,) = documents("rebuild-queues", small.root)
    (index,) = documents("rebuild-index", small.root)
    target = small.root.with_name("store.rebuilt")
    assert queues["target"] == index["target"] == str(target)
    assert queues["same_files"] == queues["files"] == 2
    assert index["entries"] == 63
    assert sorted(path.name for path in target.iterdir()) == ["consumequeue", "index"]
    small.spoil_log(small.records[7][0] + 100, b"?")
    assert "1 queue offset has no record" in run("rebuild-queues", small.root, "--to", target / "a", code=1).stderr
    assert "--slots and --entries" in run("rebuild-index", small.root, "--slots", 5, code=2).stderr


def test_an_index_is_made_with_the_sizes_and_keys_asked_for(small):
    words = ("rebuild-index", small.root, "--slots", 10, "--entries", 400, "--tags")
    (report,) = documents(*words)
    (made,) = (small.root.with_name("store.rebuilt") / "index").iterdir()
    assert (report["entries"], made.stat().st_size) == (84, 40 + 10 * 4 + 400 * 20)


def test_messages_are_extracted_as_json_lines_or_text(small):
    found = documents("extract", small.root, "-t", "Orders", "--queue", 1, "--max", 2)
    assert [each["queue_offset"] for each in found] == [0, 1]
    assert found[0]["body"] == "body 1 " * 9
    (binary,) = documents("extract", small.root, "-k", "binary")
    assert binary["body_base64"] == "//4="
    (one,) = documents("extract", small.root, "--id", offset_id(bytes(8), small.records[5][0]))
    assert one["keys"] == "key-5 all"
    assert "Orders:1 @0" in run("extract", small.root, "-k", "key-1").stdout
    assert "nothing found" in run("extract", small.root, "-t", "No", code=1).stderr
    assert "is not a time; expected one such as" in run("extract", small.root, "--from-time", "soon", code=2).stderr
    assert len(documents("extract", small.root, "--from-time", "2026-11-20 00:00:00", "--max", 3)) == 3


def test_records_are_extracted_as_they_are(small, tmp_path):
    target = tmp_path / "records"
    run("extract", small.root, "--queue", 1, "--raw", target)
    assert [record.queue_offset for record in iter_records(target.read_bytes())] == list(range(10))
    assert "already exists" in run("extract", small.root, "--raw", target, code=1).stderr


def test_damage_is_told_while_extracting(small):
    small.spoil_log(small.records[7][0] + 100, b"?")
    done = run("extract", small.root, "--output", "json", code=1)
    assert len(done.stdout.splitlines()) == 20
    assert "could not be read" in done.stderr


def test_single_things_are_dumped(small):
    (record,) = documents("dump", small.root, "--record", small.records[3][0])
    assert record["keys"] == "key-3 all"
    rows = documents("dump", small.root, "--queue", "Orders:1", "--max", 4)
    assert [row["queue_offset"] for row in rows] == [0, 1, 2, 3]
    (checkpoint,) = documents("dump", small.root, "--checkpoint")
    assert checkpoint["log_timestamp"] == small.last_ms
    name = min((small.root / "index").iterdir()).name
    (index,) = documents("dump", small.root, "--index", name, "--from", 3, "--max", 2)
    assert [entry["number"] for entry in index["entries"]] == [3, 4]
    assert "commitlog" in run("dump", small.root).stdout
    assert "log offset" in run("dump", small.root, "--queue", "Orders:0").stdout
    assert "begin timestamp" in run("dump", small.root, "--index", name).stdout
    assert "TOPIC:ID" in run("dump", small.root, "--queue", "Orders", code=2).stderr
    assert "give one of" in run("dump", small.root, "--checkpoint", "--record", 0, code=2).stderr


def test_stat_counts(small):
    (report,) = documents("stat", small.root)
    (orders,) = report["topics"]
    assert (orders["topic"], orders["records"]) == ("Orders", 21)
    assert [queue["max_offset"] for queue in orders["queues"]] == [10, 9]
    assert "Orders" in run("stat", small.root).stdout
    small.spoil_log(small.records[7][0], b"?")
    assert "1 ranges" in run("stat", small.root, code=1).stderr


def test_progress_is_drawn_on_a_terminal_only(small, monkeypatch):
    assert run("check", small.root).stderr.count("\n") == 1

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar() as progress:
        progress.begin("reading", 1000)
        progress.advance(400)
        progress.end()
    assert "reading" in terminal.getvalue()
    assert "1.0/1.0 kB" in terminal.getvalue()
