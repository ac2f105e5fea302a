"""Idempotent consumption without an event loop: the same steps, in threads that may block."""

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.idempotency.sqlalchemy_records import SqlAlchemyRecords
from gantrymq.client.idempotency.sqlite_records import SqliteRecords
from gantrymq.client.idempotency.threads import run_without_loop
from gantrymq.client.sync import idempotent
from gantrymq.errors import InvalidParameter


@pytest.fixture
def path(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as file:
        file.execute("CREATE TABLE done (number TEXT)")
    return tmp_path / "shop.db"


@pytest.fixture
def message(record):
    def make(number):
        text = f"UNIQ_KEY\x01U{number}\x02".encode()
        (received,) = decode_messages(record(properties=text, body=b"%d" % number, log_offset=number), "b")
        return received

    return make


def effects(path):
    with contextlib.closing(sqlite3.connect(path)) as file:
        return [int(row[0]) for row in file.execute("SELECT number FROM done ORDER BY number")]


def done(message, connection):
    connection.execute("INSERT INTO done VALUES (?)", (message.body.decode(),))


def test_many_threads_do_each_message_once(path, message):
    with SqliteRecords(path) as store, ThreadPoolExecutor(8) as threads:
        once = idempotent(store, "billing", cache_size=3)
        messages = [message(n % 9) for n in range(90)]
        list(threads.map(once(done), messages))
        assert (once.consumed, once.duplicates) == (9, 81)
    assert effects(path) == list(range(9))


def test_what_raises_leaves_nothing_and_may_come_again(path, message):
    with SqliteRecords(path) as store:
        once = idempotent(store, "billing")
        with pytest.raises(ZeroDivisionError), once.attempt(message(1)) as connection:
            done(message(1), connection)
            raise ZeroDivisionError
        assert effects(path) == []
        for expected in (True, False):
            with once.attempt(message(1)) as connection:
                assert (connection is not None) is expected
                if connection is not None:
                    done(message(1), connection)
        assert once.prune() == 0
    assert effects(path) == [1]


def test_lists_are_one_transaction(path, message):
    with SqliteRecords(path) as store:
        once, seen = idempotent(store, "billing"), []

        @once
        def all_of(messages, connection):
            seen.append([int(each.body) for each in messages])
            for each in messages:
                done(each, connection)

        all_of([message(1), message(2)])
        all_of([message(2), message(3)])
        all_of([message(1)])
    assert seen == [[1, 2], [3]]
    assert effects(path) == [1, 2, 3]


def test_a_plain_engine_does_as_well_and_an_async_one_does_not(path, message):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    once = idempotent(SqlAlchemyRecords(engine), "billing")

    @once
    def work(message, connection):
        connection.execute(sqlalchemy.text("INSERT INTO done VALUES (:n)"), {"n": message.body.decode()})

    work(message(1))
    work(message(1))
    engine.dispose()
    assert effects(path) == [1]

    pytest.importorskip("aiosqlite")
    pytest.importorskip("greenlet")
    from sqlalchemy.ext.asyncio import create_async_engine

    with pytest.raises(InvalidParameter, match="give a plain engine"):
        idempotent(SqlAlchemyRecords(create_async_engine(f"sqlite+aiosqlite:///{path}")), "billing")


def test_a_step_that_waits_is_a_bug():
    class Waits:
        def __await__(self):
            yield

    async def wait():
        await Waits()

    with pytest.raises(AssertionError, match="waited for an event loop"):
        run_without_loop(wait())
