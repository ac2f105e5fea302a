"""The README's Python code equals the files in examples/, which run unchanged."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from polling import wait_until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
END_S = 60.0


ONLY = """
from gantrymq.plugins import discover
every = discover.entry_points
discover.entry_points = lambda *by: [point for point in every(*by) if point.distribution in {0}]
"""  # a plugin of pytest that hides all installed packages except a set of distributions

OF_THE_CLIENT = sorted((ROOT / "examples" / "client").glob("*.py"))


def example(name, namesrv, folder=None):
    """Start a program of examples/ as a reader of the README would, in *folder*."""
    return subprocess.Popen(
        [sys.executable, ROOT / "examples" / f"{name}.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "NAMESRV_ADDR": namesrv},
        preexec_fn=heed_ctrl_c,
    )


def heed_ctrl_c():
    """As in a terminal: a process started by a shell in the background ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_readme_shows_the_examples_as_they_are():
    assert shown_in("README.md") == sorted(path.read_text() for path in EXAMPLES)


def test_the_clients_pages_show_its_examples_as_they_are():
    pages = (path.relative_to(ROOT) for path in sorted((ROOT / "docs/client").glob("*.md")))
    shown = sorted(text for page in pages for text in shown_in(page))
    assert shown == sorted(path.read_text() for path in OF_THE_CLIENT)


def shown_in(page):
    return sorted(re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL))


def distributions_to_install(page):
    """The plugins of the page's first ``pip install`` line."""
    (line,) = re.findall(r"^pip install (.*)", (ROOT / page).read_text(), re.MULTILINE)[:1]
    return {f"gantrymq-{folder.replace('_', '-')}" for folder in re.findall(r"\./plugins/(\w+)", line)}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_readme_names_each_example(path):
    assert f"examples/{path.name}" in (ROOT / "README.md").read_text()


def test_examples_send_and_consume(servers):
    with example("send", servers.namesrv) as sending:
        said, errors = sending.communicate(timeout=END_S)
    assert (sending.returncode, errors) == (0, "")
    assert re.fullmatch(r"hello is stored: queue \d, offset 0\n1000 more are stored\n", said)

    with example("consume", servers.namesrv) as consuming:
        try:
            lines = [consuming.stdout.readline() for _ in range(1001)]
            consuming.send_signal(signal.SIGINT)
            rest, errors = consuming.communicate(timeout=END_S)
        finally:
            consuming.kill()
    assert (consuming.returncode, rest, errors) == (0, "", "")
    bodies = sorted(re.fullmatch(r"queue \d, offset \d+: (.*)\n", line)[1] for line in lines)
    assert bodies == sorted(["hello", *(f"number {n}" for n in range(1000))])


def test_the_first_program_of_the_tutorial(servers):
    """Eleven lines; stopped as described by its page, and not repeated by the next run."""
    assert len([line for line in (ROOT / "examples/client/first.py").read_text().splitlines() if line]) <= 11
    for _ in range(2):
        assert interrupted("client/first", servers.namesrv, lines=1) == ["hello"]


def test_each_example_has_topics_and_groups_of_its_own():
    """So that none consumes the messages of another, or has its subscription changed by another, on one broker."""
    users = {}
    for path in OF_THE_CLIENT:
        source = path.read_text()
        topics = re.findall(r'(?:Message|TopicConfig|subscriber|publisher)\("(\w+)"', source)
        groups = re.findall(r'(?:consumer|lite_pull)\("([\w-]+)"|group="(\w+)"', source)
        for name in {*topics, *(one or other for one, other in groups)}:
            users.setdefault(name, []).append(path.stem)
    assert {name: users[name] for name in users if len(users[name]) > 1} == {}


@pytest.mark.parametrize(("name", "count"), [("read", 7), ("pop", 6), ("poll", 6), ("acknowledge", 10)])
def test_an_example_that_sends_and_reads(servers, name, count):
    if name == "pop" and not find_spec("gantrymq_pop"):
        pytest.skip("gantrymq-pop is not installed")
    assert len(finished(f"client/{name}", servers.namesrv)) == count


def test_the_example_of_order(servers):
    said = finished("client/in_order", servers.namesrv)
    for customer in ("ann", "bob"):
        mine = [line for line in said if line.startswith(customer)]
        assert mine == [f"{customer}: {step}" for step in ("created", "paid", "shipped")]


def test_the_example_of_a_handler(servers):
    lines = interrupted("client/handler", servers.namesrv, lines=4)
    assert sorted(lines) == ["order 1, try 1", "order 2, try 1", "order 3, try 2", "order 4, try 1"]


def test_the_tests_that_are_an_example(tmp_path):
    """With the distributions that the page names, and no other plugin."""
    words = ["-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", f"--basetemp={tmp_path / 'tests'}"]
    (tmp_path / "installed.py").write_text(ONLY.format(distributions_to_install("docs/client/testing.md")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-p", "installed", ROOT / "examples/client/test_orders.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=END_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def finished(name, namesrv, folder=None):
    """Run a program of examples/ to its end; return the printed lines."""
    with example(name, namesrv, folder) as running:
        said, errors = running.communicate(timeout=END_S)
    assert (running.returncode, errors) == (0, "")
    return said.splitlines()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_stops_on_a_signal(servers, number):
    with example("client/stopping", servers.namesrv) as running:
        try:
            assert running.stdout.readline() == "a task\n"
            running.send_signal(number)
            said, errors = running.communicate(timeout=END_S)
        finally:
            running.kill()
    assert (running.returncode, said, errors) == (0, "stopped\n", "")


def test_a_web_application_sends_what_is_posted(servers):
    pytest.importorskip("starlette")
    pytest.importorskip("httpx")
    program = (
        "from starlette.testclient import TestClient; from web_app import app\n"
        "with TestClient(app) as web: print(web.post('/orders', content=b'one').json()['status'])"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": "/", "NAMESRV_ADDR": servers.namesrv}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "examples/client", env=environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "SEND_OK\n"), done.stderr


def test_each_process_of_a_web_server_has_a_producer(servers):
    assert finished("client/web_worker", servers.namesrv) == ["SEND_OK"]
    program = (
        "import os, web_worker\n"
        "child = os.fork()\n"
        "print(web_worker.producer().send(web_worker.Message('Signups', b'bob')).status.name, flush=True)\n"
        "if child: os.waitpid(child, 0)\n"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": "/", "NAMESRV_ADDR": servers.namesrv}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "examples/client", env=environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "SEND_OK\n" * 2), done.stderr


def interrupted(name, namesrv, lines):
    """Run a program of examples/ until it has printed a number of lines, then press Ctrl-C; return the lines."""
    with example(name, namesrv) as running:
        try:
            said = [running.stdout.readline().rstrip("\n") for _ in range(lines)]
            running.send_signal(signal.SIGINT)
            rest, errors = running.communicate(timeout=END_S)
        finally:
            running.kill()
    assert (running.returncode, rest, errors) == (0, "", "")
    return said


def test_the_examples_that_send_batches_pay_and_ask(servers, tmp_path):
    said = {name: finished(f"client/{name}", servers.namesrv, tmp_path) for name in ("batching", "payments", "prices")}
    assert said["batching"][0] == "1000 readings are stored, each with its own result"
    assert said["batching"][1].startswith("1000 more are in queue ")
    assert sorted(said["payments"]) == ["order 1 is paid", "order 3 is paid"]
    with contextlib.closing(sqlite3.connect(tmp_path / "payments.db")) as database:
        assert database.execute("SELECT order_id FROM payments ORDER BY order_id").fetchall() == [(1,), (3,)]
    assert said["prices"] == ["apples: 12", "pears: 15", "plums: nobody knows"]


def test_the_programs_that_were_moved_from_other_clients(servers):
    first, *orders = finished("client/from_kafka", servers.namesrv)
    assert first.startswith("stored at [0")
    assert sorted(orders) == ["ann one apple", "ann one plum", "bob two pears"]
    assert orders.index("ann one apple") < orders.index("ann one plum")
    assert finished("client/from_rocketmq", servers.namesrv) == ["sent: SEND_OK", "received: hello"]


def test_the_example_that_prints_a_trace(servers):
    said = "\n".join(finished("client/trace", servers.namesrv))
    assert re.fullmatch(r"shop sent it, 9 bytes, in \d+ ms\ntraced_billing consumed it in \d+ ms", said)


def test_the_example_that_books_each_order_once(servers, tmp_path):
    """Every order is sent twice by each run; the program is killed and started again."""
    with example("client/once", servers.namesrv, tmp_path) as booking:
        lines = {booking.stdout.readline() for _ in range(5)}
        booking.kill()
        lines.update(booking.stdout)  # what it booked before the kill is not printed again
    with example("client/once", servers.namesrv, tmp_path) as booking:
        try:
            while len(lines) < 10:
                lines.add(line := booking.stdout.readline())
                assert line, f"it ended after {sorted(lines)}"
            wait_until(lambda: len(booked(tmp_path)) >= 10, "commit, after the line that is printed", END_S)
            booking.send_signal(signal.SIGINT)
            _, errors = booking.communicate(timeout=END_S)
        finally:
            booking.kill()
    assert (booking.returncode, errors) == (0, "")
    assert sorted(lines) == [f"order {number} is booked\n" for number in range(10)]
    assert booked(tmp_path) == list(range(10))


def booked(folder):
    with contextlib.closing(sqlite3.connect(folder / "shop.db")) as database:
        return [row[0] for row in database.execute("SELECT order_id FROM bookings ORDER BY order_id")]
