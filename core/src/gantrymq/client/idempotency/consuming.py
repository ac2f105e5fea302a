"""Consumption of each message exactly once, in three steps.

1. The key and the place of a message (`identity`) are looked up in a cache of recent messages. If one of them is found,
   the message is a duplicate.
2. Otherwise they are looked up in the database, with the same result if one of them is found.
3. In one transaction, both are inserted and the handler makes its change. After the commit both exist. After a rollback
   neither does: the message was not consumed and is delivered again.

    once = idempotent(SqliteRecords("shop.db"), "billing")

    @once
    def handle(message, connection):
        connection.execute("UPDATE accounts ...")

    await consumer.run(handle)

If two members receive the same message at the same time, both reach the third step. The database accepts one of the
inserts; the other one waits for that commit and fails with a conflict, so its message is treated as a duplicate.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from gantrymq.client.idempotency.records import (
    MAX_KEY_CHARS,
    PRUNE_BATCH,
    AsyncRecords,
    ConsumedRecord,
    KeyOf,
    MessageIdentity,
    Records,
    alias_prefix,
    identity_of,
)
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.user_functions import (
    await_result,
    check_function,
    is_async,
    is_failure,
    require_plain,
    running_task,
)
from gantrymq.errors import InvalidParameter
from gantrymq.world import World

logger = logging.getLogger("gantrymq.client")

KEEP_S: Final = 7 * 24 * 3600.0
_PRUNE_EVERY_S: Final = 600.0
CACHE_SIZE: Final = 10_000
THREADS: Final = 8


def idempotent(
    store: Records,
    group: str,
    *,
    key: KeyOf | None = None,
    keep_s: float = KEEP_S,
    cache_size: int = CACHE_SIZE,
    threads: int = THREADS,
    world: World | None = None,
) -> Idempotent:
    """Create a decorator that makes handlers and loop bodies process each message once.

    Args:
        store: `SqliteRecords` or `SqlAlchemyRecords`, in the database that the handlers change.
        group: consumer group; each group consumes a message once.
        key: returns the key of a message, instead of its unique id: 1 to 255 characters, such as an order number.
        keep_s: seconds to keep records; must exceed the time until a message can be redelivered. Brokers keep messages
            for 72 h by default, and the last of 16 redeliveries comes after less than 5 h.
        cache_size: keys in memory, about 150 bytes each; 0 for none.
        threads: messages processed at a time if the database calls block.
        world: None for the real one.

    Raises:
        InvalidParameter: a number is out of bounds, or *group* is empty or longer than 255 characters.
    """
    return Idempotent(store, group, key=key, keep_s=keep_s, cache_size=cache_size, threads=threads, world=world)


class Idempotent:
    """Created by `idempotent`; used in one event loop at a time. For threads use `gantrymq.client.sync.Idempotent`.

    Attributes:
        consumed: messages whose transaction was committed by this object.
        duplicates: messages that had been consumed before, by this object or another one.
    """

    def __init__(
        self,
        store: Records,
        group: str,
        *,
        key: KeyOf | None,
        keep_s: float,
        cache_size: int,
        threads: int,
        world: World | None,
        records: AsyncRecords | None = None,
    ) -> None:
        """Arguments as in `idempotent`; *records* replaces the event loop adapter of *store*."""
        if not 0 < len(group) <= MAX_KEY_CHARS:
            raise InvalidParameter(
                f"the group {group[:20]!r} has {len(group)} characters; expected 1 to {MAX_KEY_CHARS}"
            )
        for name, value, least in (("keep_s", keep_s, 1), ("cache_size", cache_size, 0), ("threads", threads, 1)):
            if value < least:
                raise InvalidParameter(f"{name} is {value}; expected {least} or more")
        if world is None:
            from gantrymq.world.real import real_world

            world = real_world(worker_threads=threads)
        self._store = store
        self._group = group
        if key is not None:
            check_function(key, f"the key of {group}", plain="it is called for each message")
        self._key = key
        self._keep_ms = int(keep_s * 1000)
        self._recent = RecentKeys(cache_size)
        self._world = world
        self._records = store.for_event_loop(world.workers, threads) if records is None else records
        self._prepared = False
        self._prune_at_s = 0.0
        self._guard = threading.Lock()
        self.consumed = 0
        self.duplicates = 0

    def __call__(self, handler: Callable[[Any, Any], Any]) -> Callable[[Any], Awaitable[Any]]:
        """Return a handler for `Consumer.run` that calls ``handler(message, connection)`` for each new message.

        Args:
            handler: changes the database through *connection*, in a transaction that is committed when it returns and
                rolled back if it raises. A plain function runs in a thread and gets the database connection itself; an
                async one gets the ``AsyncConnection`` of an async engine, otherwise a `ThreadConnection`. With
                ``batch_size`` it gets a list of the new messages, in one transaction.

        Raises:
            InvalidParameter: *handler* is a plain function and the store uses an async engine, or *handler* is not
                callable or a generator function.
        """
        name = f"the handler of {self._group}"
        check_function(handler, name)
        is_plain = not is_async(handler)
        if is_plain and not self._store.blocking:
            raise InvalidParameter("a plain handler cannot await the connection of an async engine; write 'async def'")

        async def call(message: Any, connection: Any) -> None:
            if is_plain:
                await connection.run(lambda own: require_plain(handler(message, own), name))
            else:
                await await_result(await handler(message, connection), name)

        @functools.wraps(handler)
        async def handle(message: Any) -> Any:
            several = not isinstance(message, ReceivedMessage)
            async with self.attempts(message if several else [message]) as (new, connection):
                if new:
                    await call(new if several else message, connection)

        return handle

    @asynccontextmanager
    async def attempt(self, message: ReceivedMessage) -> AsyncIterator[Any]:
        """Yield the connection for the changes of *message*, in a transaction as in `__call__`; None for a duplicate.

            async for message in consumer:
                async with once.attempt(message) as connection:
                    if connection is not None:
                        await connection.execute("UPDATE accounts ...")

        Raises:
            InvalidParameter: the key of the message is not valid.
            errors of the database: the message was not consumed.
        """
        async with self.attempts([message]) as (_, connection):
            yield connection

    async def prune(self) -> int:
        """Delete the records of all groups older than ``keep_s``; return their number.

        Old records are also deleted every 10 minutes while messages are consumed.
        """
        await self._prepare()
        total = 0
        while (count := await self._records.prune(self._world.clock.now_ms() - self._keep_ms)) > 0:
            total += count
            if count < PRUNE_BATCH:
                break
        return total

    @asynccontextmanager
    async def attempts(self, messages: Sequence[ReceivedMessage]) -> AsyncIterator[tuple[list[ReceivedMessage], Any]]:
        """As `attempt` for several messages: yield the new ones, and the connection for them."""
        records, task = self._records, running_task()
        async with records.slot():
            identities = [await self._identity(message) for message in messages]
            while new := await self._new_messages(identities):
                entered = False
                try:
                    async with records.transaction() as connection:
                        await records.add(connection, self._rows(identities[number] for number in new))
                        entered = True
                        yield [messages[number] for number in new], connection
                except records.conflicts:
                    left = await self._new_messages(identities)
                    if left == new or (entered and left):  # other keys, or only some of these: nothing was committed
                        await self._record_keys([identities[number] for number in new])
                        raise
                    if entered:  # the database reported the conflict only at the commit
                        self._count(0, len(messages))
                        return
                except BaseException as error:
                    if is_failure(error, task):
                        await self._record_keys([identities[number] for number in new])
                    raise
                else:
                    self._recent.add(name for number in new for name in identities[number][:2])
                    self._count(len(new), len(messages) - len(new))
                    await self._prune_periodically()
                    return
            self._count(0, len(messages))
            yield [], None

    def _count(self, consumed: int, duplicates: int) -> None:
        with self._guard:
            self.consumed += consumed
            self.duplicates += duplicates

    async def _identity(self, message: ReceivedMessage) -> MessageIdentity:
        await self._prepare()
        identity = identity_of(message, self._key)
        if identity.redelivered:
            prefix = alias_prefix(identity.place)
            if (alias := await self._records.key_with_prefix(self._group, prefix)) is not None:
                return identity.with_key(alias.removeprefix(prefix))
        return identity

    async def _record_keys(self, failed: Sequence[MessageIdentity]) -> None:
        """Record the keys of messages that were not consumed: a redelivered message may lack its key."""
        for each in failed:
            if each.redelivered or each.key == each.place:
                continue
            alias = alias_prefix(each.place) + each.key
            try:
                async with self._records.transaction() as connection:
                    await self._records.add(connection, self._rows([MessageIdentity(alias, alias)]))
            except self._records.conflicts:
                pass  # already recorded after an earlier failure
            except Exception:
                logger.exception("the key %s of a message of %s could not be recorded", each.key, self._group)

    async def _new_messages(self, identities: Sequence[MessageIdentity]) -> list[int]:
        """Return the indexes of new messages; only the first of several messages with the same key or place."""
        names = [name for each in identities for name in each.names]
        asked = [name for name in names if not self._recent.has((name,))]
        committed = set(names).difference(asked)
        if asked:
            committed |= await self._records.known(self._group, asked)
            self._recent.add(committed)
        seen, new = committed, []
        for number, each in enumerate(identities):
            if seen.isdisjoint(each.names):
                new.append(number)
            seen.update(each[:2])
        return new

    def _rows(self, identities: Iterable[MessageIdentity]) -> list[ConsumedRecord]:
        now_ms = self._world.clock.now_ms()
        return [ConsumedRecord(self._group, each.key, each.place, now_ms) for each in identities]

    async def _prepare(self) -> None:
        if not self._prepared:
            await self._records.prepare()
            self._prepared = True

    async def _prune_periodically(self) -> None:
        """Delete some old records from time to time; errors are logged, as the message itself was consumed."""
        now_s = self._world.clock.monotonic()
        if now_s < self._prune_at_s:
            return
        self._prune_at_s = now_s + _PRUNE_EVERY_S
        try:
            if await self._records.prune(self._world.clock.now_ms() - self._keep_ms) >= PRUNE_BATCH:
                self._prune_at_s = now_s
        except Exception:
            logger.exception("old records of %s could not be deleted; retrying later", self._group)


class RecentKeys:
    """Least recently used cache of keys of consumed messages; thread-safe.

    A key is added after its transaction was committed, never before.
    """

    def __init__(self, most: int) -> None:
        """Keep up to *most* keys; 0 disables the cache."""
        self._most = most
        self._keys: OrderedDict[str, None] = OrderedDict()
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._keys)

    def has(self, keys: Iterable[str]) -> bool:
        """Return True if one of *keys* is in the cache."""
        with self._guard:
            for key in keys:
                if key in self._keys:
                    self._keys.move_to_end(key)
                    return True
        return False

    def add(self, keys: Iterable[str]) -> None:
        """Add keys of committed messages."""
        with self._guard:
            for key in keys:
                self._keys[key] = None
                self._keys.move_to_end(key)
            while len(self._keys) > self._most:
                self._keys.popitem(last=False)
