"""Timed messages that cannot be stored, and recalls that fail."""

import base64
import time

import pytest
from polling import wait_until

pytest.importorskip("gantrymq_schedule")

from faulty_broker import FAST, start_broker

PLUGINS = FAST["plugins"] + ",schedule"
RECALL = 370
DAYS_MS = 3 * 24 * 3600 * 1000
IN_AN_HOUR_MS = int(time.time() * 1000) + 3600 * 1000


def wait_for(folder):
    """Wait until *folder* has a file."""
    wait_until(lambda: folder.is_dir() and list(folder.iterdir()), f"file in {folder}")


def handle(topic, broker, time_ms):
    """A handle as a broker makes it."""
    return base64.urlsafe_b64encode(f"v1 {topic} {broker} {time_ms} AC1100010000000000000000".encode()).decode()


def recall(peer, topic, text):
    return peer.ask(RECALL, {"producerGroup": "PG", "topic": topic, "recallHandle": text})


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory):
    """The broker of `broker`, with timers."""
    running = start_broker(tmp_path_factory.mktemp("timers") / "store", plugins=PLUGINS)
    yield running
    running.close()


@pytest.fixture
def recalling(broker_with):
    """A broker that accepts recalls, and has topic Timed."""
    broker = broker_with(plugins=PLUGINS, recallMessageEnable=True)
    with broker.peer() as peer:
        assert peer.send("Timed").code == 0
    return broker


def test_bi164_a_delay_beyond_the_horizon(broker, row):
    with broker.peer() as peer:
        answer = peer.send("Timed", b"x", f"TIMER_DELAY_MS\x01{DAYS_MS + 1}\x02")
        row.check(answer.remark, answer.code, delay=DAYS_MS + 1, longest=DAYS_MS)


@pytest.mark.parametrize("value", ["soon", "1.5", "0x10", "٣", "9" * 30])
def test_bi165_a_time_that_is_no_number(broker, row, value):
    for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"):
        with broker.peer() as peer:
            answer = peer.send("Timed", b"x", f"{name}\x01{value}\x02")
            row.check(answer.remark, answer.code, name=name, value=value)


def test_bi166_a_delay_where_timers_are_off(broker_with, row):
    with broker_with(plugins=PLUGINS, timerWheelEnable=False).peer() as peer:
        answer = peer.send("Timed", b"x", "TIMER_DELAY_SEC\x015\x02")
        row.check(answer.remark, answer.code)
        assert peer.send("Timed", b"x", "DELAY\x011\x02").code == 0


def test_bi167_a_recall_where_recalls_are_off(broker, row):
    with broker.peer() as peer:
        answer = recall(peer, "Timed", handle("Timed", "broker-a", IN_AN_HOUR_MS))
        row.check(answer.remark, answer.code)


NO_ID = base64.b64encode(f"v1 Timed broker-a {IN_AN_HOUR_MS} ".encode()).decode()


@pytest.mark.parametrize(
    "text",
    ["", "x", "!!!!", "djEgVA==", base64.b64encode(b"v2 a b 1 c").decode(), "\x00", pytest.param(NO_ID, id="no id")],
)
def test_bi168_a_handle_that_is_none(recalling, row, text):
    with recalling.peer() as peer:
        answer = recall(peer, "Timed", text)
        row.check(answer.remark, answer.code)


def test_bi169_a_handle_of_another_topic(recalling, row):
    with recalling.peer() as peer:
        answer = recall(peer, "Timed", handle("Other", "broker-a", IN_AN_HOUR_MS))
        row.check(answer.remark, answer.code, other="Other", topic="Timed")


def test_bi170_a_handle_of_another_broker(recalling, row):
    with recalling.peer() as peer:
        name = base64.urlsafe_b64decode(
            peer.send("Timed", b"x", "TIMER_DELAY_SEC\x0160\x02").ext["recallHandle"]
        ).split()[2]
        answer = recall(peer, "Timed", handle("Timed", "elsewhere", IN_AN_HOUR_MS))
        row.check(answer.remark, answer.code, other="elsewhere", broker=name.decode())


def test_bi171_a_handle_whose_time_is_past(recalling, row):
    with recalling.peer() as peer:
        sent = peer.send("Timed", b"x", "TIMER_DELAY_SEC\x0160\x02").ext["recallHandle"]
        for _ in range(2):
            assert recall(peer, "Timed", sent).code == 0
        version, topic, broker, _, unique_id = base64.urlsafe_b64decode(sent).decode().split()
        for time_ms in (1, 10**17, "soon"):
            past = " ".join((version, topic, broker, str(time_ms), unique_id))
            answer = recall(peer, "Timed", base64.urlsafe_b64encode(past.encode()).decode())
            left = answer.remark.partition("handle is ")[2].partition(" ms")[0]
            row.check(answer.remark, answer.code, left=left, most=DAYS_MS - 1)


def test_bi172_a_timed_message_without_room_for_more_properties(broker, row):
    with broker.peer() as peer:
        answer = peer.send("Timed", b"x", "TIMER_DELAY_SEC\x0160\x02K\x01" + "x" * 30867 + "\x02")
        size = int(answer.remark.partition("have ")[2].partition(" ")[0])
        assert size > 30867
        row.check(answer.remark, answer.code, size=size)


def test_bi254_a_timer_log_that_is_gone(tmp_path, broker_with, row, caplog):
    store = tmp_path / "store"
    first = start_broker(store, plugins=PLUGINS)
    with first.peer() as peer:
        assert peer.send("Timed", b"x", f"TIMER_DELIVER_MS\x01{IN_AN_HOUR_MS}\x02").code == 0
        wait_for(store / "timerlog")
    first.close()
    for path in (store / "timerlog").iterdir():
        path.unlink()
    broker_with(plugins=PLUGINS)
    (said,) = [each for each in caplog.messages if "rebuilt" in each]
    row.check(said, "starts", folder=store / "timerlog", size=52)
    wait_for(store / "timerlog")


def test_bi173_a_timer_log_of_another_file_size(tmp_path, row, program):
    folder = tmp_path / "store" / "timerlog"
    folder.mkdir(parents=True)
    path = folder / ("0" * 20)
    path.write_bytes(bytes(65536))
    said, code = program.refusal("--store", tmp_path / "store", "--set", "metricsExporterType=DISABLE")
    row.check(said, code, path=path, size=65536, first=0, wanted=100 * 1024 * 1024)
