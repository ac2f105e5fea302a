"""The contract of `AsyncRecords`, for a SQLite file and for plain and async engines of SQLAlchemy.

$GANTRYMQ_DATABASE_URLS may name other databases, separated by blanks: the SQLAlchemy URL of a plain engine, a comma,
and that of an async one. Tables are created there, and dropped.

    postgresql+psycopg://postgres@127.0.0.1/postgres,postgresql+psycopg://postgres@127.0.0.1/postgres
    mysql+pymysql://shop@127.0.0.1/shop,mysql+aiomysql://shop@127.0.0.1/shop
"""

import asyncio
import contextlib
import os
import sqlite3
from importlib.util import find_spec

import pytest

from gantrymq.client.idempotency.records import ConsumedRecord
from gantrymq.client.idempotency.sqlalchemy_records import SqlAlchemyRecords
from gantrymq.client.idempotency.sqlite_records import SqliteRecords
from gantrymq.errors import ClientError, InvalidParameter
from gantrymq.world.real import real_world

PLAIN = find_spec("sqlalchemy") is not None
ASYNC = PLAIN and find_spec("aiosqlite") and find_spec("greenlet")
URLS = os.environ.get("GANTRYMQ_DATABASE_URLS", "").split()
KINDS = [
    "sqlite",
    *(["engine", *(f"engine {url.partition(',')[0]}" for url in URLS)] if PLAIN else []),
    *(["async engine", *(f"async engine {url.rpartition(',')[2]}" for url in URLS)] if ASYNC else []),
]


@contextlib.asynccontextmanager
async def opened(kind, folder, **more):
    """Records of *kind* for this event loop, in a file of *folder* or in another database."""
    path, world, url = folder / "shop.db", real_world(worker_threads=4), kind.rpartition(" ")[2]
    if kind == "sqlite":
        store, end = SqliteRecords(path, **more), None
    elif not kind.startswith("async"):
        from sqlalchemy import create_engine

        engine = create_engine(url if "://" in url else f"sqlite:///{path}")
        store, end = SqlAlchemyRecords(engine, **more), engine.dispose
    else:
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(url if "://" in url else f"sqlite+aiosqlite:///{path}")
        store, end = SqlAlchemyRecords(engine, **more), engine.dispose
    try:
        yield store.for_event_loop(world.workers, 4)
    finally:
        store.close()
        if end is not None and asyncio.iscoroutine(ended := end()):
            await ended
        await world.workers.close()


@pytest.fixture(params=KINDS)
def use(request, tmp_path):
    """Run ``work(records)``."""
    used = set()

    def run(work, table="gantrymq_consumed"):
        async def main():
            async with opened(request.param, tmp_path, table=table) as records:
                await records.prepare()
                return await work(records)

        used.add(table)
        return asyncio.run(main())

    yield run
    if "://" in request.param:
        for table in used:
            asyncio.run(drop(request.param, tmp_path, table))


async def drop(kind, folder, table):
    from sqlalchemy import text

    statement = text(f"DROP TABLE {table}")
    async with opened(kind, folder) as records, records.transaction() as connection:
        await (connection.execute(statement) if "run_sync" in dir(connection) else connection.run(dropped, statement))


def dropped(connection, statement):
    connection.execute(statement)


def row(key, group="g", at_ms=5):
    return ConsumedRecord(group, key, f"{key}.place", at_ms)


async def write(records, *keys, group="g", at_ms=5):
    async with records.transaction() as connection:
        await records.add(connection, [row(key, group, at_ms) for key in keys])


def test_what_was_committed_is_known_to_its_group(use):
    async def work(records):
        assert await records.known("g", ["a"]) == set()
        await write(records, "a", "b")
        assert await records.known("g", ["a", "b", "c"]) == {"a", "b"}
        assert await records.known("other", ["a"]) == set()
        assert await records.known("g", ["A"]) == set()

    use(work)


def test_what_was_rolled_back_is_not(use):
    async def work(records):
        with pytest.raises(ZeroDivisionError):
            async with records.transaction() as connection:
                await records.add(connection, [row("a")])
                raise ZeroDivisionError
        assert await records.known("g", ["a"]) == set()
        await write(records, "a")  # nothing is locked

    use(work)


def test_a_key_is_taken_once_and_none_of_its_company_is_written(use):
    async def work(records):
        await write(records, "a")
        with pytest.raises(records.conflicts):
            await write(records, "b", "a")
        assert await records.known("g", ["a", "b"]) == {"a"}
        await write(records, "a", group="other")

    use(work)


def test_a_place_is_taken_once_and_is_known(use):
    async def work(records):
        await write(records, "a")
        with pytest.raises(records.conflicts):
            async with records.transaction() as connection:
                await records.add(connection, [ConsumedRecord("g", "b", "a.place", 5)])
        assert await records.known("g", ["b", "a.place", "b.place"]) == {"a.place"}

    use(work)


def test_a_key_is_found_by_its_beginning(use):
    async def work(records):
        await write(records, "7F is U1", "7E is U2", "8 is U3")
        assert await records.key_with_prefix("g", "7F is ") == "7F is U1"
        assert await records.key_with_prefix("g", "7 is ") is None
        assert await records.key_with_prefix("g", "9") is None
        assert await records.key_with_prefix("other", "7F is ") is None

    use(work)


def test_of_two_transactions_with_one_key_one_is_committed(use):
    async def work(records):
        async def one():
            try:
                await write(records, "a")
            except records.conflicts:
                return "refused"
            return "committed"

        assert sorted(await asyncio.gather(*(one() for _ in range(4)))) == [
            "committed",
            "refused",
            "refused",
            "refused",
        ]

    use(work)


def test_several_make_the_table_at_once(use):
    async def work(records):
        await asyncio.gather(*(records.prepare() for _ in range(4)))
        await write(records, "a")

    use(work)


def test_the_table_may_be_there_already(use):
    async def work(records):
        await write(records, "a")
        await records.prepare()
        assert await records.known("g", ["a"]) == {"a"}

    use(work)
    use(work_again)


async def work_again(records):
    assert await records.known("g", ["a"]) == {"a"}


def test_it_may_have_another_name(use, tmp_path, request):
    use(lambda records: write(records, "a"), table="seen")
    if "://" in request.node.callspec.params["use"]:
        return
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as file:
        assert file.execute("SELECT * FROM seen").fetchall() == [("g", "a", "a.place", 5)]
        assert file.execute("SELECT name FROM sqlite_master WHERE name = 'seen_at'").fetchall()


def test_old_records_are_forgotten_a_thousand_at_a_time(use):
    async def work(records):
        await write(records, *(f"old {n}" for n in range(1200)), at_ms=99)
        await write(records, "new", at_ms=100)
        assert [await records.prune(100) for _ in range(3)] == [1000, 200, 0]
        assert await records.known("g", ["old 7", "new"]) == {"new"}

    use(work)


def test_a_cancelled_transaction_is_rolled_back_and_holds_nothing(use):
    async def work(records):
        entered = asyncio.Event()

        async def stay():
            async with records.transaction() as connection:
                await records.add(connection, [row("a")])
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(stay())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await records.known("g", ["a"]) == set()
        await write(records, "a")

    use(work)


def test_cancelled_while_it_begins_it_holds_nothing(tmp_path):
    async def work():
        async with opened("sqlite", tmp_path) as records:
            await records.prepare()
            for turns in range(12):

                async def one():
                    async with records.transaction() as connection:
                        await records.add(connection, [row("a")])

                task = asyncio.create_task(one())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, *records.conflicts):
                    await task
            await write(records, "b")

    asyncio.run(work())


def test_a_file_is_needed_and_a_name_of_a_table(tmp_path):
    with pytest.raises(InvalidParameter, match="must outlive the process"):
        SqliteRecords(":memory:")
    with pytest.raises(InvalidParameter, match="'a; b' is not a valid table name"):
        SqliteRecords(tmp_path / "shop.db", table="a; b")


def test_closed_records_say_so(tmp_path):
    with SqliteRecords(tmp_path / "shop.db") as records:
        records.prepare()
    with pytest.raises(ClientError, match="are closed"):
        records.known("g", ["a"])


def test_a_transaction_that_was_ended_inside_is_told(tmp_path):
    with SqliteRecords(tmp_path / "shop.db") as records:
        records.prepare()
        with pytest.raises(ClientError, match="leave that to idempotent"), records.transaction() as connection:
            connection.execute("COMMIT")
        with records.transaction():
            pass


def test_an_engine_is_needed():
    pytest.importorskip("sqlalchemy")
    with pytest.raises(InvalidParameter, match="'sqlite://' is not an engine"):
        SqlAlchemyRecords("sqlite://")


def test_without_sqlalchemy_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sqlalchemy", None)
    with pytest.raises(ClientError, match=r"pip install 'sqlalchemy>=2'"):
        SqlAlchemyRecords(object())
