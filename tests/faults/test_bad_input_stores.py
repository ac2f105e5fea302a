"""Store folders that a broker refuses, or uses with a warning. Following the advice of the sentence makes it serve."""

import json

import pytest
from faulty_broker import LOG_FILE_BYTES, START, start_broker

FIRST, SECOND, THIRD = "00000000000000000000", "00000000000004194304", "00000000000008388608"
MIB = 1024 * 1024


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def refuses(program, row, store):
    """Start the program on the store; it ends with the row's sentence only."""

    def check(*words, command=START, **values):
        row.check(*program.refusal("--store", store, *words, command=command), **values)

    return check


@pytest.fixture
def written(store):
    """A store with one message, stopped cleanly; its log files have 4 MiB, as in the program's settings."""
    running = start_broker(store, mappedFileSizeCommitLog=4 * MIB)
    assert running.serves()
    running.close()
    return store


def make(path, size=0, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with path.open("r+b") as file:
        file.truncate(size or len(text))
    return path


def still_there(running):
    """Whether the first message of the store can be read."""
    with running.peer() as peer:
        return b"message 1" in peer.pull("StillServing", consumerGroup="TOOLS_CONSUMER").payload


def test_bi82_a_store_folder_that_cannot_be_written(refuses, store):
    make(store.parent / "store")
    refuses(command=("broker", "--port", 0), root=store, why="it is a file")


def test_bi83_log_files_of_another_size(refuses, written, broker_with):
    file = written / "commitlog" / FIRST
    refuses("--set", "mappedFileSizeCommitLog=8388608", file=file, size=4 * MIB, configured=8 * MIB)
    assert still_there(broker_with(mappedFileSizeCommitLog=4 * MIB))


def test_bi84_queue_files_of_another_size(refuses, written, broker_with):
    file = written / "consumequeue" / "StillServing" / "0" / FIRST
    refuses("--set", "mappedFileSizeConsumeQueue=600000", file=file, size=6000000, configured=600000)
    assert still_there(broker_with(mappedFileSizeCommitLog=4 * MIB))


def test_bi85_queues_in_a_rocksdb_folder(refuses, written, broker_with):
    (written / "consumequeue").rename(written.parent / "queues")
    make(written / "consumequeue" / "CURRENT", text="MANIFEST-000001\n")
    refuses(folder=written / "consumequeue")
    (written / "consumequeue").rename(written.parent / "rocksdb")
    assert still_there(broker_with(mappedFileSizeCommitLog=4 * MIB))


def test_bi86_a_stray_file_among_the_log_files(refuses, written, broker_with):
    stray = make(written / "commitlog" / "notes.txt", text="do not delete")
    refuses(file=stray)
    assert stray.read_text() == "do not delete"
    stray.rename(written.parent / "notes.txt")
    assert still_there(broker_with(mappedFileSizeCommitLog=4 * MIB))


def test_bi87_a_log_file_that_is_missing(refuses, store):
    for name in (FIRST, THIRD):
        make(store / "commitlog" / name, 4 * MIB)
    folder = store / "commitlog"
    refuses(folder=folder, missing=SECOND, before=FIRST, after=THIRD, size=4 * MIB, file=folder / SECOND)
    assert sorted(path.name for path in (store / "commitlog").iterdir()) == [FIRST, THIRD]


def test_bi88_a_second_broker_on_one_store(refuses, store, broker_with):
    running = broker_with()
    refuses("--set", f"mappedFileSizeCommitLog={LOG_FILE_BYTES}", root=store)
    assert running.serves()


def test_bi89_a_topics_file_that_is_cut_short(written, broker_with, logged, row):
    topics = written / "config" / "topics.json"
    cut = topics.read_text()[:40]
    topics.write_text(cut)
    running = broker_with(mappedFileSizeCommitLog=4 * MIB)
    seen = logged.wait_for(str(topics))
    row.check(seen, "starts", file=topics, why=seen.split(": ", 1)[1].split(";")[0])
    assert still_there(running)
    assert (written / "config" / "topics.json.broken").read_text() == cut


ZEROS = ("\0" * 4096, "it holds nothing but zeros or blanks")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("topics.json", '{"topicConf', 'JSON at 11: expected a closing ", got the end'),
        ("subscriptionGroup.json", "", "it is empty"),
        ("consumerOffset.json", *ZEROS),
        ("delayOffset.json", *ZEROS),
        ("messageRequestMode.json", *ZEROS),
        ("consumerOrderInfo.json", "", "it is empty"),
    ],
)
def test_bi90_a_state_file_and_its_backup_that_cannot_be_read(refuses, written, name, text, why):
    files = [written / "config" / name, written / "config" / f"{name}.bak"]
    for file in files:
        file.write_text(text)
    log = ("--log-file", written.parent / "log")
    refuses(*log, file=files[0], why=why, name=name)
    assert [file.read_text() for file in files] == [text, text]


def test_bi253_an_empty_object_beside_a_fuller_backup(written, broker_with, logged, row):
    offsets = written / "config" / "consumerOffset.json"
    offsets.with_name(offsets.name + ".bak").write_text('{"offsetTable":{"StillServing@CG":{0:1}}}')
    offsets.write_text("{}")
    running = broker_with(mappedFileSizeCommitLog=4 * MIB)
    row.check(logged.wait_for(str(offsets)), "starts", file=offsets, name=offsets.name)
    assert still_there(running)


def test_bi91_a_topics_file_with_a_member_of_the_wrong_type(refuses, written):
    config = written / "config"
    (config / "topics.json").write_text(json.dumps({"topicConfigTable": 7}))
    refuses(folder=config, name="topics.json", member="topicConfigTable", value=7)


def test_bi92_a_config_file_that_cannot_be_read(refuses, store):
    (store / "config" / "consumerOffset.json").mkdir(parents=True)
    refuses(file=store / "config" / "consumerOffset.json", why="Is a directory")


def test_bi93_a_file_where_the_log_folder_belongs(refuses, store):
    make(store / "commitlog")
    refuses(root=store, why="it is a file")
