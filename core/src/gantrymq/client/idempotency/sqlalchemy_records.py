"""Records in any database that SQLAlchemy 2 knows, through a plain engine or an async one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from gantrymq.client.idempotency.records import PRUNE_BATCH, TABLE, AsyncRecords, ConsumedRecord
from gantrymq.client.idempotency.threads import WorkerThreadRecords
from gantrymq.errors import ClientError, InvalidParameter
from gantrymq.world import Workers

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

__all__ = ["SqlAlchemyRecords"]


class SqlAlchemyRecords:
    """The engine stays the caller's: it is not closed here."""

    writers: int | None = None

    def __init__(self, engine: Engine | AsyncEngine, *, table: str = TABLE, schema: str | None = None) -> None:
        """Nothing is opened yet.

        Args:
            engine: of ``create_engine`` or ``create_async_engine``; the one of the business tables.
            table: name of the table of records.
            schema: that it is in; None for the default one.

        Raises:
            ClientError: SQLAlchemy 2 is not installed.
            InvalidParameter: *engine* is none.
        """
        try:
            import sqlalchemy
            from sqlalchemy.ext.asyncio import AsyncEngine
        except ImportError as problem:
            raise ClientError(
                "SqlAlchemyRecords needs SQLAlchemy 2: pip install 'sqlalchemy>=2' (SqliteRecords needs nothing)"
            ) from problem
        if not isinstance(engine, sqlalchemy.Engine | AsyncEngine):
            raise InvalidParameter(f"{engine!r} is no engine; expected what create_engine or create_async_engine gave")
        self._engine = engine
        self._async = engine if isinstance(engine, AsyncEngine) else None
        self.blocking = self._async is None
        self.conflicts: tuple[type[Exception], ...] = (sqlalchemy.exc.IntegrityError,)
        self._table = _table(table, schema)

    def for_event_loop(self, workers: Workers, threads: int) -> AsyncRecords:
        """As `Records` has it."""
        if self._async is None:
            return WorkerThreadRecords(self, workers, threads)
        return _AsyncEngineRecords(self, self._async)

    def close(self) -> None:
        """Nothing: the engine is the caller's."""

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection in a transaction."""
        with self._sync_engine.begin() as connection:
            yield connection

    def prepare(self) -> None:
        """Make table and index where they are missing."""
        with self._sync_engine.connect() as connection:
            try:
                self.create_table(connection)
                connection.commit()
            except Exception:  # another one may have made it at the same time
                connection.rollback()
                if not self.table_exists(connection):
                    raise

    def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Those of *names* that are recorded."""
        with self._sync_engine.connect() as connection:
            return matching_names(connection.execute(self.select_known(group, names)), names)

    def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """A key that begins with *prefix*."""
        with self._sync_engine.connect() as connection:
            found: str | None = connection.scalar(self.select_key_with_prefix(group, prefix))
            return found

    def add(self, connection: Connection, rows: Sequence[ConsumedRecord]) -> None:
        """Write *rows*."""
        connection.execute(self._table.insert(), values(rows))

    def prune(self, before_ms: int) -> int:
        """Forget what was written before *before_ms*."""
        with self._sync_engine.begin() as connection:
            return self.delete_expired(connection, before_ms)

    @property
    def _sync_engine(self) -> Engine:
        if self._async is not None:
            raise ClientError("the engine is an async one; its calls are awaited")
        return self._engine  # type: ignore[return-value]  # the constructor saw which of the two it is

    @property
    def insert(self) -> Any:
        """The statement that writes rows."""
        return self._table.insert()

    def create_table(self, connection: Connection) -> None:
        """Make the table."""
        self._table.create(connection, checkfirst=True)

    def table_exists(self, connection: Connection) -> bool:
        """Whether the table is there."""
        from sqlalchemy import inspect

        return inspect(connection).has_table(self._table.name, schema=self._table.schema)

    def select_known(self, group: str, names: Sequence[str]) -> Any:
        """The query for keys and places that are recorded; a union, as each half has an index."""
        from sqlalchemy import select

        columns = self._table.c
        both = select(columns.message_key, columns.place).where(columns.consumer_group == group)
        return both.where(columns.message_key.in_(names)).union(both.where(columns.place.in_(names)))

    def select_key_with_prefix(self, group: str, prefix: str) -> Any:
        """The query for a key that begins with *prefix*."""
        from sqlalchemy import select

        columns = self._table.c
        has_prefix = columns.message_key.startswith(prefix, autoescape=True)
        return select(columns.message_key).where(columns.consumer_group == group, has_prefix).limit(1)

    def delete_expired(self, connection: Connection, before_ms: int) -> int:
        """Delete old rows one by one, in any dialect; returns how many."""
        from sqlalchemy import and_, bindparam, select

        columns = self._table.c
        old = select(columns.consumer_group, columns.message_key).where(columns.consumed_at_ms < before_ms)
        rows = [{"g": group, "k": key} for group, key in connection.execute(old.limit(PRUNE_BATCH))]
        if rows:
            one = and_(columns.consumer_group == bindparam("g"), columns.message_key == bindparam("k"))
            connection.execute(self._table.delete().where(one), rows)
        return len(rows)


class _AsyncEngineRecords:
    """`AsyncRecords` of an async engine."""

    def __init__(self, records: SqlAlchemyRecords, engine: AsyncEngine) -> None:
        self._records = records
        self._engine = engine
        self.conflicts = records.conflicts

    def slot(self) -> AbstractAsyncContextManager[Any]:
        """The engine's pool is the bound."""
        return nullcontext()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction."""
        async with self._engine.begin() as connection:
            yield connection

    async def prepare(self) -> None:
        """Make table and index where they are missing."""
        async with self._engine.connect() as connection:
            try:
                await connection.run_sync(self._records.create_table)
                await connection.commit()
            except Exception:  # another one may have made it at the same time
                await connection.rollback()
                if not await connection.run_sync(self._records.table_exists):
                    raise

    async def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Those of *names* that are recorded."""
        async with self._engine.connect() as connection:
            return matching_names(await connection.execute(self._records.select_known(group, names)), names)

    async def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """A key that begins with *prefix*."""
        async with self._engine.connect() as connection:
            found: str | None = await connection.scalar(self._records.select_key_with_prefix(group, prefix))
            return found

    async def add(self, connection: AsyncConnection, rows: Sequence[ConsumedRecord]) -> None:
        """Write *rows*."""
        await connection.execute(self._records.insert, values(rows))

    async def prune(self, before_ms: int) -> int:
        """Forget what was written before *before_ms*."""
        async with self._engine.begin() as connection:
            return await connection.run_sync(self._records.delete_expired, before_ms)


def matching_names(rows: Iterable[Sequence[str]], names: Sequence[str]) -> set[str]:
    """Those of *names* that stand in *rows*."""
    return set(names).intersection(name for row in rows for name in row)


def values(rows: Sequence[ConsumedRecord]) -> list[dict[str, Any]]:
    """*rows* as SQLAlchemy takes them."""
    return [row._asdict() for row in rows]


def _table(name: str, schema: str | None) -> Table:
    from sqlalchemy import BigInteger, Column, Index, MetaData, String, Table, UniqueConstraint
    from sqlalchemy.dialects import mysql

    # MySQL compares text without regard to case by default: two keys would be one
    text = String(255).with_variant(mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb")
    return Table(
        name,
        MetaData(),
        Column("consumer_group", text, primary_key=True),
        Column("message_key", text, primary_key=True),
        Column("place", text, nullable=False),
        Column("consumed_at_ms", BigInteger, nullable=False),
        UniqueConstraint("consumer_group", "place", name=f"{name}_place"),
        Index(f"{name}_at", "consumed_at_ms"),
        schema=schema,
    )
