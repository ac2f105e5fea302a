"""Records in any database supported by SQLAlchemy 2, with a plain or an async engine."""

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
    """Records of an engine that the caller owns: it is not closed here."""

    writers: int | None = None

    def __init__(self, engine: Engine | AsyncEngine, *, table: str = TABLE, schema: str | None = None) -> None:
        """Create the records; nothing is opened yet.

        Args:
            engine: result of ``create_engine`` or ``create_async_engine``, for the database of the business tables.
            table: name of the table of records.
            schema: of the table; None for the default schema.

        Raises:
            ClientError: SQLAlchemy 2 is not installed.
            InvalidParameter: *engine* is not an engine.
        """
        try:
            import sqlalchemy
            from sqlalchemy.ext.asyncio import AsyncEngine
        except ImportError as problem:
            raise ClientError(
                "SqlAlchemyRecords needs SQLAlchemy 2: pip install 'sqlalchemy>=2' (SqliteRecords needs nothing)"
            ) from problem
        if not isinstance(engine, sqlalchemy.Engine | AsyncEngine):
            raise InvalidParameter(f"{engine!r} is not an engine of create_engine or create_async_engine")
        self._engine = engine
        self._async = engine if isinstance(engine, AsyncEngine) else None
        self.blocking = self._async is None
        self.conflicts: tuple[type[Exception], ...] = (sqlalchemy.exc.IntegrityError,)
        self._table = _table(table, schema)

    def for_event_loop(self, workers: Workers, threads: int) -> AsyncRecords:
        """Implement `Records.for_event_loop`."""
        if self._async is None:
            return WorkerThreadRecords(self, workers, threads)
        return _AsyncEngineRecords(self, self._async)

    def close(self) -> None:
        """Do nothing: the caller owns the engine."""

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a connection in a transaction."""
        with self._sync_engine.begin() as connection:
            yield connection

    def prepare(self) -> None:
        """Create table and index if they do not exist."""
        with self._sync_engine.connect() as connection:
            try:
                self.create_table(connection)
                connection.commit()
            except Exception:  # another one may have made it at the same time
                connection.rollback()
                if not self.table_exists(connection):
                    raise

    def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Return those of *names* that are recorded."""
        with self._sync_engine.connect() as connection:
            return matching_names(connection.execute(self.select_known(group, names)), names)

    def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Return a key that begins with *prefix*."""
        with self._sync_engine.connect() as connection:
            found: str | None = connection.scalar(self.select_key_with_prefix(group, prefix))
            return found

    def add(self, connection: Connection, rows: Sequence[ConsumedRecord]) -> None:
        """Insert *rows*."""
        connection.execute(self._table.insert(), values(rows))

    def prune(self, before_ms: int) -> int:
        """Delete rows written before *before_ms*."""
        with self._sync_engine.begin() as connection:
            return self.delete_expired(connection, before_ms)

    @property
    def _sync_engine(self) -> Engine:
        if self._async is not None:
            raise ClientError("the engine is an async one; its calls are awaited")
        return self._engine  # type: ignore[return-value]  # `_async` is None: it is the plain one

    @property
    def insert(self) -> Any:
        """The INSERT statement for rows."""
        return self._table.insert()

    def create_table(self, connection: Connection) -> None:
        """Create the table."""
        self._table.create(connection, checkfirst=True)

    def table_exists(self, connection: Connection) -> bool:
        """Return True if the table exists."""
        from sqlalchemy import inspect

        return inspect(connection).has_table(self._table.name, schema=self._table.schema)

    def select_known(self, group: str, names: Sequence[str]) -> Any:
        """Return the query for recorded keys and places; a union, because each half has an index."""
        from sqlalchemy import select

        columns = self._table.c
        both = select(columns.message_key, columns.place).where(columns.consumer_group == group)
        return both.where(columns.message_key.in_(names)).union(both.where(columns.place.in_(names)))

    def select_key_with_prefix(self, group: str, prefix: str) -> Any:
        """Return the query for a key that begins with *prefix*."""
        from sqlalchemy import select

        columns = self._table.c
        has_prefix = columns.message_key.startswith(prefix, autoescape=True)
        return select(columns.message_key).where(columns.consumer_group == group, has_prefix).limit(1)

    def delete_expired(self, connection: Connection, before_ms: int) -> int:
        """Delete old rows one by one, which works in any dialect; returns how many."""
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
        """Do not limit messages: the pool of the engine is the limit."""
        return nullcontext()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection in a transaction."""
        async with self._engine.begin() as connection:
            yield connection

    async def prepare(self) -> None:
        """Create table and index if they do not exist."""
        async with self._engine.connect() as connection:
            try:
                await connection.run_sync(self._records.create_table)
                await connection.commit()
            except Exception:  # another one may have made it at the same time
                await connection.rollback()
                if not await connection.run_sync(self._records.table_exists):
                    raise

    async def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Return those of *names* that are recorded."""
        async with self._engine.connect() as connection:
            return matching_names(await connection.execute(self._records.select_known(group, names)), names)

    async def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Return a key that begins with *prefix*."""
        async with self._engine.connect() as connection:
            found: str | None = await connection.scalar(self._records.select_key_with_prefix(group, prefix))
            return found

    async def add(self, connection: AsyncConnection, rows: Sequence[ConsumedRecord]) -> None:
        """Insert *rows*."""
        await connection.execute(self._records.insert, values(rows))

    async def prune(self, before_ms: int) -> int:
        """Delete rows written before *before_ms*."""
        async with self._engine.begin() as connection:
            return await connection.run_sync(self._records.delete_expired, before_ms)


def matching_names(rows: Iterable[Sequence[str]], names: Sequence[str]) -> set[str]:
    """Return those of *names* that occur in *rows*."""
    return set(names).intersection(name for row in rows for name in row)


def values(rows: Sequence[ConsumedRecord]) -> list[dict[str, Any]]:
    """Return *rows* as parameters of SQLAlchemy."""
    return [row._asdict() for row in rows]


def _table(name: str, schema: str | None) -> Table:
    from sqlalchemy import BigInteger, Column, Index, MetaData, String, Table, UniqueConstraint
    from sqlalchemy.dialects import mysql

    # MySQL compares text case-insensitively by default: keys that differ only in case would be equal
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
