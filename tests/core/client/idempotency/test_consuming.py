import asyncio
import contextlib
import sqlite3
import threading
import zlib

import pytest

from gantrymq.client import ThreadConnection, idempotent
from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.idempotency.sqlalchemy_records import SqlAlchemyRecords
from gantrymq.client.idempotency.sqlite_records import SqliteRecords
from gantrymq.errors import InvalidParameter

RECORDED = "SELECT message_key FROM gantrymq_consumed WHERE message_key NOT LIKE '% is %'"  # without aliases


class Shop:
    """A database file with a table of the application, and consumers that write to it."""

    def __init__(self, path):
        self.path = path
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.execute("CREATE TABLE paid (order_id TEXT)")
        self.store = SqliteRecords(path)

    def once(self, group="billing", **more):
        return idempotent(self.store, group, **more)

    def read(self, query="SELECT order_id FROM paid ORDER BY order_id"):
        with contextlib.closing(sqlite3.connect(self.path)) as file:
            return [row[0] for row in file.execute(query)]


@pytest.fixture
def shop(tmp_path):
    made = Shop(tmp_path / "shop.db")
    yield made
    made.store.close()


@pytest.fixture
def message(record):
    def make(unique_id, body=b"7", more="", **fields):
        text = f"UNIQ_KEY\x01{unique_id}\x02{more}"
        fields.setdefault("log_offset", zlib.crc32(unique_id.encode()))
        (received,) = decode_messages(record(properties=text.encode(), body=body, **fields), "b")
        return received

    return make


def pay(message, connection):
    connection.execute("INSERT INTO paid VALUES (?)", (message.body.decode(),))


def test_a_plain_handler_runs_in_a_thread_and_once(shop, message):
    threads = []

    def handle(received, connection):
        threads.append(threading.current_thread())
        pay(received, connection)

    async def main():
        once = shop.once()
        consume = once(handle)
        for _ in range(3):
            await consume(message("U1"))
        assert (once.consumed, once.duplicates) == (1, 2)

    asyncio.run(main())
    assert shop.read() == ["7"]
    assert threads[0] is not threading.main_thread()


def test_an_async_handler_reaches_the_database_in_a_thread(shop, message):
    async def main():
        @shop.once()
        async def consume(received, connection):
            assert isinstance(connection, ThreadConnection)
            await connection.execute("INSERT INTO paid VALUES (?)", (received.body.decode(),))
            await connection.run(lambda own: pay(received, own))
            assert await connection.execute("SELECT count(*) FROM paid") == [(2,)]

        await consume(message("U1"))
        await consume(message("U1"))

    asyncio.run(main())
    assert shop.read() == ["7", "7"]


def test_another_process_that_consumed_it_is_seen_in_the_database(shop, message):
    async def main():
        await shop.once()(pay)(message("U1"))
        after_restart = shop.once()
        await after_restart(pay)(message("U1"))
        assert (after_restart.consumed, after_restart.duplicates) == (0, 1)
        await shop.once("shipping")(pay)(message("U1"))

    asyncio.run(main())
    assert shop.read() == ["7", "7"]  # one for each group


def test_a_handler_that_raises_leaves_neither_change_nor_record(shop, message):
    async def main():
        once = shop.once()

        @once
        def consume(received, connection):
            pay(received, connection)
            if len(tries) < 2:
                tries.append(1)
                raise ZeroDivisionError

        tries = []
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await consume(message("U1"))
            assert shop.read() == shop.read(RECORDED) == []
        await consume(message("U1"))
        assert once.consumed == 1

    asyncio.run(main())
    assert shop.read() == ["7"]


def test_a_conflict_of_the_application_is_no_duplicate(shop, message):
    with contextlib.closing(sqlite3.connect(shop.path)) as file:
        file.execute("CREATE UNIQUE INDEX one ON paid (order_id)")

    async def main():
        consume = shop.once()(pay)
        await consume(message("U1"))
        with pytest.raises(sqlite3.IntegrityError):
            await consume(message("U2"))
        assert shop.read(RECORDED) == ["U1"]

    asyncio.run(main())


def test_nothing_is_thought_to_be_done_before_the_commit(shop, message):
    """The second one starts while the first one is running; if it were reported as a duplicate, the message would be
    lost."""

    async def main():
        once = shop.once()
        at_work, go_on, tries = asyncio.Event(), asyncio.Event(), []

        @once
        async def consume(received, connection):
            tries.append(received)
            await connection.run(lambda own: pay(received, own))
            if len(tries) == 1:
                at_work.set()
                await go_on.wait()
                raise ZeroDivisionError

        first = asyncio.create_task(consume(message("U1")))
        await at_work.wait()
        second = asyncio.create_task(consume(message("U1")))
        go_on.set()
        with pytest.raises(ZeroDivisionError):
            await first
        await second
        assert (once.consumed, once.duplicates) == (1, 0)

    asyncio.run(main())
    assert shop.read() == ["7"]


def test_many_at_once_with_few_threads_wait_for_each_other(shop, message):
    async def main():
        once = shop.once(threads=2)
        consume = once(pay)
        await asyncio.gather(*(consume(message(f"U{n % 10}", b"%d" % (n % 10))) for n in range(100)))
        assert (once.consumed, once.duplicates) == (10, 90)

    asyncio.run(main())
    assert shop.read() == [str(n) for n in range(10)]


def test_it_goes_on_in_another_event_loop(shop, message):
    once = shop.once(threads=2)
    consume = once(pay)

    async def main(first):
        await asyncio.gather(*(consume(message(f"U{n}", b"%02d" % n)) for n in range(first, first + 10)))

    asyncio.run(main(0))
    asyncio.run(main(5))
    assert shop.read() == [f"{n:02}" for n in range(15)]
    assert (once.consumed, once.duplicates) == (15, 5)


def test_two_members_in_two_processes_have_one_message(shop, message):
    """Each has its own records object for the same file, as two processes do."""
    other = SqliteRecords(shop.path)

    async def main():
        members = [shop.once(), idempotent(other, "billing")]
        consume = [each(pay) for each in members]
        await asyncio.gather(*(consume[n % 2](message(f"U{n // 2}", b"%d" % (n // 2))) for n in range(40)))
        assert sum(each.consumed for each in members) == sum(each.duplicates for each in members) == 20

    asyncio.run(main())
    other.close()
    assert len(shop.read()) == 20


def test_a_loop_gets_a_connection_or_none(shop, message):
    async def main():
        once = shop.once()
        for expected in (True, False):
            async with once.attempt(message("U1")) as connection:
                assert (connection is not None) is expected
                if connection is not None:
                    await connection.run(lambda own: pay(message("U1"), own))
        with pytest.raises(ZeroDivisionError):
            async with once.attempt(message("U2")) as connection:
                await connection.run(lambda own: pay(message("U2"), own))
                raise ZeroDivisionError

    asyncio.run(main())
    assert shop.read() == ["7"]


def test_a_batch_is_one_transaction_of_those_that_are_new(shop, message):
    async def main():
        once, seen = shop.once(), []
        await once(pay)(message("U2", b"2"))

        @once
        def consume(batch, connection):
            seen.append([each.body for each in batch])
            for each in batch:
                pay(each, connection)
            if len(seen) == 1:
                raise ZeroDivisionError

        batch = [message(f"U{n}", b"%d" % n) for n in (1, 2, 3, 1)]
        with pytest.raises(ZeroDivisionError):
            await consume(batch)
        assert shop.read() == ["2"]
        await consume(batch)
        await consume(batch)
        assert seen == [[b"1", b"3"], [b"1", b"3"]]
        assert (once.consumed, once.duplicates) == (3, 2 + 4)

    asyncio.run(main())
    assert shop.read() == ["1", "2", "3"]


def test_messages_of_a_producers_batch_are_several_and_known_when_they_come_back(shop, message):
    """All have the id of the batch; when redelivered they have no other id."""
    batch = [message(f"U{n}", b"%d" % n, "UNIQ_KEY\x01BATCH\x02", log_offset=n * 100) for n in (1, 2, 3)]
    places = [each.offset_id for each in batch]
    back = [
        message("BATCH", b"%d" % n, f"ORIGIN_MESSAGE_ID\x01{place}\x02RETRY_TOPIC\x01Orders\x02", log_offset=n + 900)
        for n, place in enumerate(places, 1)
    ]
    stored_twice = [message(f"U{n}", b"%d" % n, "UNIQ_KEY\x01BATCH\x02", log_offset=n + 2000) for n in (1, 2, 3)]

    async def main():
        once, fail = shop.once(), [True]

        @once
        def consume(received, connection):
            pay(received, connection)
            if fail and received.body != b"2":
                raise ZeroDivisionError

        for each in batch:
            with contextlib.suppress(ZeroDivisionError):
                await consume(each)
        fail.clear()
        after_restart = shop.once()(pay)
        for each in back:
            await after_restart(each)
        assert shop.read() == ["1", "2", "3"]
        for each in (*back, *stored_twice, *batch):
            await after_restart(each)

    asyncio.run(main())
    assert shop.read() == ["1", "2", "3"]


def test_messages_of_a_batch_that_come_back_without_having_been_here_are_not_taken_for_each_other(shop, message):
    """They were refused before, by something in front of this."""
    back = [message("BATCH", b"%d" % n, f"ORIGIN_MESSAGE_ID\x01PLACE{n}\x02") for n in (1, 2, 3)]

    async def main():
        once = shop.once()
        for each in (*back, *back):
            await once(pay)(each)
        assert (once.consumed, once.duplicates) == (3, 3)

    asyncio.run(main())
    assert shop.read() == ["1", "2", "3"]


def test_a_failure_is_told_though_its_key_cannot_be_written_down(shop, message, monkeypatch, caplog):
    def fail(*_):
        raise sqlite3.OperationalError("disk I/O error")

    async def main():
        once = shop.once()

        @once
        def consume(received, connection):
            monkeypatch.setattr(SqliteRecords, "add", fail)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await consume(message("U1"))

    asyncio.run(main())
    assert "the key U1 of a message of billing could not be recorded" in caplog.text


def test_the_key_may_be_the_applications(shop, message):
    async def main():
        consume = shop.once(key=lambda received: received.body.decode())(pay)
        await consume(message("U1"))
        await consume(message("U2"))

    asyncio.run(main())
    assert shop.read() == ["7"]
    assert shop.read(RECORDED) == ["7"]


def test_a_cache_of_any_size_changes_no_outcome(shop, message):
    async def main():
        once = shop.once(cache_size=2)
        consume = once(pay)
        for _ in range(3):
            for n in range(5):
                await consume(message(f"U{n}", b"%d" % n))
        assert (once.consumed, once.duplicates) == (5, 10)

    asyncio.run(main())
    assert len(shop.read()) == 5


def test_a_failure_of_pruning_is_none_of_the_message(shop, message, monkeypatch, caplog):
    def fail(self, before_ms):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(SqliteRecords, "prune", fail)

    async def main():
        await shop.once()(pay)(message("U1"))

    asyncio.run(main())
    assert shop.read() == ["7"]
    assert "old records of billing could not be deleted" in caplog.text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"keep_s": 0}, "keep_s is 0; expected 1 or more"),
        ({"cache_size": -1}, "cache_size is -1; expected 0"),
        ({"threads": 0}, "threads is 0; expected 1"),
        ({"group": ""}, "0 characters"),
    ],
)
def test_what_is_out_of_bounds_is_refused(shop, more, said):
    with pytest.raises(InvalidParameter, match=said):
        shop.once(**more)


def test_an_async_engine_gives_its_own_connection_and_takes_no_plain_handler(shop, message):
    pytest.importorskip("aiosqlite")
    pytest.importorskip("greenlet")
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from sqlalchemy.ext.asyncio import create_async_engine

    async def main():
        engine = create_async_engine(f"sqlite+aiosqlite:///{shop.path}")
        once = idempotent(SqlAlchemyRecords(engine), "billing")
        with pytest.raises(InvalidParameter, match="write 'async def'"):
            once(pay)

        @once
        async def consume(received, connection):
            await connection.execute(sqlalchemy.text("INSERT INTO paid VALUES (:id)"), {"id": received.body.decode()})

        await asyncio.gather(*(consume(message("U1")) for _ in range(4)))
        assert (once.consumed, once.duplicates) == (1, 3)
        await engine.dispose()

    asyncio.run(main())
    assert shop.read() == ["7"]


def test_a_plain_engine_gives_its_connection_and_a_session_joins_it(shop, message):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from sqlalchemy.orm import Session

    engine = sqlalchemy.create_engine(f"sqlite:///{shop.path}")

    async def main():
        once = idempotent(SqlAlchemyRecords(engine), "billing")

        @once
        def consume(received, connection):
            with Session(bind=connection) as session:
                session.execute(sqlalchemy.text("INSERT INTO paid VALUES (:id)"), {"id": received.body.decode()})
                session.commit()
            if received.body == b"no":
                raise ZeroDivisionError

        await consume(message("U1"))
        await consume(message("U1"))
        with pytest.raises(ZeroDivisionError):
            await consume(message("U2", b"no"))

    asyncio.run(main())
    engine.dispose()
    assert shop.read() == ["7"]


def test_a_cancelled_consumer_stays_so_where_the_database_refuses_meanwhile(shop, message):
    """Another member was first with the message; a cancellation has precedence over a duplicate."""

    async def main():
        refused_to_end = threading.Event()
        entered = asyncio.Event()
        loop = asyncio.get_running_loop()

        def handle(received, connection):
            loop.call_soon_threadsafe(entered.set)
            assert refused_to_end.wait(60)
            raise sqlite3.IntegrityError("as SQLite says")

        once = shop.once()
        task = asyncio.create_task(once(handle)(message("U1")))
        await entered.wait()
        task.cancel()
        refused_to_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (once.consumed, once.duplicates) == (0, 0)
        await once(pay)(message("U1"))

    asyncio.run(main())
    assert shop.read() == ["7"]
