"""Records in any database supported by SQLAlchemy 2, with a plain or an async engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from gantrymq.client.idempotency.records import PRUNE_BATCH, TABLE, AsyncRecords, ConsumedRecord
from gantrymq.client.idempotency.threads import WorkerThreadRecords
from gantrymq.errors import ClientError, InvalidParameter
from gantrymq.world import Workers

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

T = TypeVar("T")


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
        self._run(self.prepare_in)

    def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Return those of *names* that are recorded."""
        return self._run(self.known_in, group, names)

    def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Return a key that begins with *prefix*."""
        return self._run(self.key_with_prefix_in, group, prefix)

    def add(self, connection: Connection, rows: Sequence[ConsumedRecord]) -> None:
        """Insert *rows*."""
        connection.execute(self._table.insert(), [row._asdict() for row in rows])

    def prune(self, before_ms: int) -> int:
        """Delete rows written before *before_ms*."""
        return self._run(self.prune_in, before_ms)

    @property
    def _sync_engine(self) -> Engine:
        if self._async is not None:
            raise ClientError("the engine is an async one; its calls are awaited")
        return self._engine  # type: ignore[return-value]  # `_async` is None: it is the plain one

    def _run(self, work: Callable[..., T], *args: Any) -> T:
        with self._sync_engine.connect() as connection:
            result = work(connection, *args)
            connection.commit()
            return result

    # --- work of a plain connection, also of one below an async connection --------------------------------------------

    def prepare_in(self, connection: Connection) -> None:
        """Implement `prepare`."""
        from sqlalchemy import inspect

        try:
            self._table.create(connection, checkfirst=True)
            connection.commit()
        except Exception:  # another one may have made it at the same time
            connection.rollback()
            if not inspect(connection).has_table(self._table.name, schema=self._table.schema):
                raise

    def known_in(self, connection: Connection, group: str, names: Sequence[str]) -> set[str]:
        """Implement `known` with a union of recorded keys and places, because each half has an index."""
        from sqlalchemy import select

        columns = self._table.c
        both = select(columns.message_key, columns.place).where(columns.consumer_group == group)
        rows = connection.execute(
            both.where(columns.message_key.in_(names)).union(both.where(columns.place.in_(names)))
        )
        return set(names).intersection(name for row in rows for name in row)

    def key_with_prefix_in(self, connection: Connection, group: str, prefix: str) -> str | None:
        """Implement `key_with_prefix`."""
        from sqlalchemy import select

        columns = self._table.c
        has_prefix = columns.message_key.startswith(prefix, autoescape=True)
        one = select(columns.message_key).where(columns.consumer_group == group, has_prefix).limit(1)
        found: str | None = connection.scalar(one)
        return found

    def prune_in(self, connection: Connection, before_ms: int) -> int:
        """Implement `prune`: delete old rows one by one, which works in any dialect."""
        from sqlalchemy import and_, bindparam, select

        columns = self._table.c
        old = select(columns.consumer_group, columns.message_key).where(columns.consumed_at_ms < before_ms)
        rows = [{"g": group, "k": key} for group, key in connection.execute(old.limit(PRUNE_BATCH))]
        if rows:
            one = and_(columns.consumer_group == bindparam("g"), columns.message_key == bindparam("k"))
            connection.execute(self._table.delete().where(one), rows)
        return len(rows)


class _AsyncEngineRecords:
    """`AsyncRecords` of an async engine: runs the plain records in its connections."""

    def __init__(self, records: SqlAlchemyRecords, engine: AsyncEngine) -> None:
        self._records = records
        self._engine = engine
        self.conflicts = records.conflicts

    def slot(self) -> AbstractAsyncContextManager[Any]:
        """Do not limit messages: the pool of the engine is the limit."""
        return nullcontext()

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open a connection in a transaction."""
        return self._engine.begin()

    async def prepare(self) -> None:
        """Create table and index if they do not exist."""
        await self._run(self._records.prepare_in)

    async def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Return those of *names* that are recorded."""
        return await self._run(self._records.known_in, group, names)

    async def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Return a key that begins with *prefix*."""
        return await self._run(self._records.key_with_prefix_in, group, prefix)

    async def add(self, connection: AsyncConnection, rows: Sequence[ConsumedRecord]) -> None:
        """Insert *rows*."""
        await connection.run_sync(self._records.add, rows)

    async def prune(self, before_ms: int) -> int:
        """Delete rows written before *before_ms*."""
        return await self._run(self._records.prune_in, before_ms)

    async def _run(self, work: Callable[..., T], *args: Any) -> T:
        async with self._engine.connect() as connection:
            result = await connection.run_sync(work, *args)
            await connection.commit()
            return result


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
