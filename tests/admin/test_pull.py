"""``gantrymq message pull`` says where it ends, and why it printed nothing."""

import json
import re

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client import Client
from gantrymq.client.message import Message

for each in ("filter_tag", "storage_memory"):
    pytest.importorskip(f"gantrymq_{each}")

QUEUES = 3


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A broker with topic T: 40 messages in queue 0, 2 in queue 1, none in queue 2; every other one has a tag."""
    from gantrymq_testing.running_broker import RunningBroker

    broker = RunningBroker(tmp_path_factory.mktemp("broker"))
    broker.start()
    broker.create_topic("T", QUEUES)

    async def work():
        async with Client(broker.namesrv) as client, client.producer("PG") as producer:
            queues = await producer.queues("T")
            for queue, count in ((0, 40), (1, 2)):
                for number in range(count):
                    tag = "Even" if number % 2 == 0 else "Odd"
                    await producer.send(Message("T", f"{queue}-{number}".encode(), tag), queue=queues[queue])

    broker.run(work())
    yield broker
    broker.stop()


@pytest.fixture
def pull(running):
    def run(*words):
        done = CliRunner().invoke(main, ["message", "pull", "-t", "T", "-n", running.namesrv, *words])
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines(), done.stderr

    return run


def test_a_stop_at_the_maximum_reports_the_remaining_messages(pull):
    lines, said = pull()
    assert (len(lines), said) == (32, "ended after 32 (--max); 10 more follow\n")


@pytest.mark.parametrize(("most", "rest"), [(40, 2), (41, 1)])
def test_remaining_messages_are_counted_over_all_queues(pull, most, rest):
    assert pull("--max", str(most))[1] == f"ended after {most} (--max); {rest} more follow\n"


@pytest.mark.parametrize("words", [("--max", "42"), ("--max", "100"), ("--queue", "1", "--max", "2")])
def test_nothing_is_said_where_everything_was_printed(pull, words):
    assert pull(*words)[1] == ""


def test_one_queue_counts_by_itself(pull):
    assert pull("--queue", "0", "--max", "30")[1] == "ended after 30 (--max); 10 more follow\n"


def test_with_a_filter_the_count_is_an_upper_bound(pull):
    lines, said = pull("-e", "Odd", "--max", "5")
    assert (len(lines), said) == (5, "ended after 5 (--max); at most 32 more follow\n")


def test_a_filter_that_nothing_passes(pull):
    assert pull("-e", "Nothing") == ([], "nothing to print: T has no such messages\n")


def test_an_offset_beyond_the_end_of_some_queues(pull):
    lines, said = pull("--from-offset", "38")
    assert len(lines) == 2
    assert re.fullmatch(r"offset 38 is beyond the end of \S+:1 \(it ends at 2\), \S+:2 \(it ends at 0\)\n", said), said


def test_an_offset_beyond_the_end_of_all_queues(pull):
    lines, said = pull("--from-offset", "500", "--output", "json")
    assert lines == []
    assert "offset 500 is beyond the end of " in said
    assert said.endswith("nothing to print: T has no such messages\n")


def test_the_end_itself_is_an_offset_of_no_message(pull):
    assert pull("--queue", "0", "--from-offset", "40") == ([], "nothing to print: T has no such messages\n")


def test_the_offset_counts_in_every_queue(pull):
    lines, said = pull("--from-offset", "1", "--max", "1", "--output", "json")
    assert [json.loads(line)["queue_offset"] for line in lines] == [1]
    assert said.endswith("ended after 1 (--max); 39 more follow\n")


@pytest.mark.parametrize("words", [("--from-time", "-10m"), ("--from-time=-10m",), ("--from-time", "-1d")])
def test_a_time_ago(pull, words):
    lines, said = pull(*words, "--max", "40")
    assert (len(lines), said) == (40, "ended after 40 (--max); 2 more follow\n")


def test_a_time_to_come(pull):
    lines, _ = pull("--from-time", "+10m")
    assert len(lines) < QUEUES + 1  # a broker answers with the end of a queue, or with its last message


def stored(lines):
    found = [json.loads(line) for line in lines]
    return [(each["stored_ms"], each["queue"], each["queue_offset"]) for each in found]


def test_the_newest_first_over_all_queues(pull):
    every = stored(pull("--newest", "--max", "100", "--output", "json")[0])
    assert len(every) == 42 and every == sorted(every, key=lambda each: -each[0])
    assert stored(pull("--newest", "--output", "json")[0]) == every[:32]
    assert stored(pull("--newest", "--skip", "3", "--max", "4", "--output", "json")[0]) == every[3:7]
    first, last = every[30][0], every[10][0]
    found = stored(pull("--newest", "--from-time", str(first), "--to-time", str(last), "--output", "json")[0])
    assert found == [each for each in every if first <= each[0] <= last]
    found = stored(pull("--newest", "--queue", "0", "--to-offset", "5", "--output", "json")[0])
    assert [offset for _, _, offset in found] == [5, 4, 3, 2, 1, 0]
    assert len(pull("--newest", "-e", "Odd", "--max", "100")[0]) == 21
    assert pull("--newest", "--to-time", "5") == ([], "nothing to print: T has no such messages\n")


@pytest.mark.parametrize(
    "words", [("--skip", "1"), ("--to-time", "5"), ("--to-offset", "5"), ("--newest", "--from-offset", "1")]
)
def test_options_that_do_not_fit(running, words):
    done = CliRunner().invoke(main, ["message", "pull", "-t", "T", "-n", running.namesrv, *words])
    assert done.exit_code == 2 and "--newest" in done.output


def test_the_first_messages_of_many_queues_take_few_requests(running, pull, monkeypatch):
    """Where the first queue has enough, the others are only asked what lies in them."""
    from gantrymq.client import Reader

    pulled = []
    plain = Reader.pull

    async def counted(self, queue, offset, **more):
        pulled.append(queue.queue_id)
        return await plain(self, queue, offset, **more)

    monkeypatch.setattr(Reader, "pull", counted)
    pull("--max", "3")
    assert pulled == [0]
