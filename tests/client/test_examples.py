"""The README's Python is what stands in examples/, and that runs as it is."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from gantrymq.client import Client, Message

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
END_S = 60.0


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
    """As in a terminal: what a shell starts in the background ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_readme_shows_the_examples_as_they_are():
    assert shown_in("README.md") == sorted(path.read_text() for path in EXAMPLES)


def test_the_clients_pages_show_its_examples_as_they_are():
    pages = (path.relative_to(ROOT) for path in sorted((ROOT / "docs").glob("client*.md")))
    shown = sorted(text for page in pages for text in shown_in(page))
    assert shown == sorted(path.read_text() for path in OF_THE_CLIENT)


def shown_in(page):
    return sorted(re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL))


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
    """Ten lines; stopped as its page says, and not repeated by the next run."""
    assert len([line for line in (ROOT / "examples/client/first.py").read_text().splitlines() if line]) <= 10
    for _ in range(2):
        with example("client/first", servers.namesrv) as running:
            try:
                assert running.stdout.readline() == "hello\n"
                running.send_signal(signal.SIGINT)
                rest, _ = running.communicate(timeout=END_S)
            finally:
                running.kill()
        assert rest == ""


def test_examples_of_the_client(servers):
    """The orders are sent in order, gathered, and consumed by a handler that refuses two of them."""
    with example("client/in_order", servers.namesrv) as steps:
        said, errors = steps.communicate(timeout=END_S)
    assert (steps.returncode, errors) == (0, "")
    for customer in ("ann", "bob"):
        mine = [line for line in said.splitlines() if line.startswith(customer)]
        assert mine == [f"{customer}: {step}" for step in ("created", "paid", "shipped")]

    with example("client/read", servers.namesrv) as reading:
        said, errors = reading.communicate(timeout=END_S)
    assert (reading.returncode, errors, len(said.splitlines())) == (0, "", 7)

    if find_spec("gantrymq_pop"):
        with example("client/pop", servers.namesrv) as popping:
            said, errors = popping.communicate(timeout=END_S)
        assert (popping.returncode, errors, len(said.splitlines())) == (0, "", 6)

    with example("client/poll", servers.namesrv) as polling:
        said, errors = polling.communicate(timeout=END_S)
    assert (polling.returncode, errors, len(said.splitlines())) == (0, "", 6)

    asyncio.run(send_orders(servers.namesrv))
    with example("client/acknowledge", servers.namesrv) as gathering:
        said, errors = gathering.communicate(timeout=END_S)
    assert (gathering.returncode, errors, len(said.splitlines())) == (0, "", 10)

    with example("client/handler", servers.namesrv) as handling:
        try:
            lines = sorted(handling.stdout.readline() for _ in range(4))
            handling.send_signal(signal.SIGINT)
            handling.communicate(timeout=END_S)
        finally:
            handling.kill()
    assert lines == ["order 1, try 1\n", "order 2, try 1\n", "order 3, try 2\n", "order 4, try 1\n"]


def test_the_examples_that_send_batches_pay_and_ask(servers, tmp_path):
    said = {}
    for name in ("batching", "payments", "prices"):
        with example(f"client/{name}", servers.namesrv, tmp_path) as running:
            said[name], errors = running.communicate(timeout=END_S)
        assert (running.returncode, errors) == (0, "")
    assert said["batching"].startswith("1000 readings are stored, each with its own result\n1000 more lie in queue ")
    assert sorted(said["payments"].splitlines()) == ["order 1 is paid", "order 3 is paid"]
    with contextlib.closing(sqlite3.connect(tmp_path / "payments.db")) as database:
        assert database.execute("SELECT order_id FROM payments ORDER BY order_id").fetchall() == [(1,), (3,)]
    assert said["prices"] == "apples: 12\npears: 15\nplums: nobody knows\n"


def test_the_programs_that_were_moved_from_other_clients(servers):
    said = {}
    for name in ("from_kafka", "from_rocketmq"):
        with example(f"client/{name}", servers.namesrv) as running:
            said[name], errors = running.communicate(timeout=END_S)
        assert (running.returncode, errors) == (0, "")
    first, *orders = said["from_kafka"].splitlines()
    assert first.startswith("stored at [0")
    assert sorted(orders) == ["ann one apple", "ann one plum", "bob two pears"]
    assert orders.index("ann one apple") < orders.index("ann one plum")
    assert said["from_rocketmq"] == "sent: SEND_OK\nreceived: hello\n"


def test_the_example_that_prints_a_trace(servers):
    with example("client/trace", servers.namesrv) as tracing:
        said, errors = tracing.communicate(timeout=END_S)
    assert (tracing.returncode, errors) == (0, "")
    assert re.fullmatch(r"shop sent it, 9 bytes, in \d+ ms\nbilling consumed it in \d+ ms\n", said)


def test_the_example_that_books_each_order_once(servers, tmp_path):
    """Every order is sent twice, as a producer does that got no answer; the program is killed and started again."""
    asyncio.run(send_orders_twice(servers.namesrv))
    with example("client/once", servers.namesrv, tmp_path) as booking:
        lines = {booking.stdout.readline() for _ in range(5)}
        booking.kill()
    with example("client/once", servers.namesrv, tmp_path) as booking:
        try:
            while len(lines) < 10:
                lines.add(line := booking.stdout.readline())
                assert line, f"it ended after {sorted(lines)}"
            deadline = time.monotonic() + END_S
            while len(booked(tmp_path)) < 10 and time.monotonic() < deadline:  # it is said before the commit
                time.sleep(0.01)
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


async def send_orders_twice(namesrv):
    async with Client(namesrv) as client:
        producer = client.producer("orders")
        for number in range(10):
            body = json.dumps({"id": number, "amount": 20}).encode()
            result = await producer.send(Message("Orders", body))
            await producer.send(Message("Orders", body, system_properties={"UNIQ_KEY": result.message_id}))


async def send_orders(namesrv):
    async with Client(namesrv) as client:
        producer = client.producer("orders")
        for number in (1, 2, 3, 4):
            order = {"id": number, "service": "away" if number == 3 else "there"}
            await producer.send(Message("Orders", json.dumps(order).encode()))
