"""Consume a message once, in three steps.

1. Key and place of a message (`identity`) are looked up among those consumed lately, in memory; a message of which one
   is there is a duplicate.
2. They are looked up in the database.
3. A transaction begins, both are written, and the handler makes its change in the same transaction. Both are there
   after the commit, or neither is: then the message was not consumed, and comes again.

    once = idempotent(SqliteRecords("shop.db"), "billing")

    @once
    def handle(message, connection):
        connection.execute("UPDATE accounts ...")

    await consumer.run(handle)

Two members that have the same message at once both get to the third step. The database lets one write its record; the
other waits for that commit, is refused, and takes the message for what it is by then, a duplicate.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from gantrymq.client.idempotency.cache import RecentKeys
from gantrymq.client.idempotency.identity import MAX_KEY_CHARS, KeyOf, MessageIdentity, alias_prefix, identity_of
from gantrymq.client.idempotency.records import PRUNE_BATCH, AsyncRecords, ConsumedRecord, Records
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

__all__ = ["Idempotent", "idempotent"]

logger = logging.getLogger("gantrymq.client")

KEEP_S: Final = 7 * 24 * 3600.0
PRUNE_EVERY_S: Final = 600.0
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
    """What makes handlers, and bodies of loops, do their work once for each message.

    Args:
        store: `SqliteRecords` or `SqlAlchemyRecords`, in the database in which the handlers work.
        group: consumer group; each group consumes a message once.
        key: of a message, in place of its unique id: text of 1 to 255 characters, such as the number of an order.
        keep_s: seconds after which a record is forgotten; longer than a message may take to come again. Brokers keep
            messages for 72 h by default, and the last of 16 tries comes after less than 5 h.
        cache_size: keys in memory, some 150 bytes each; 0 for none.
        threads: messages under way at once where the database's calls block.
        world: None for the real one.

    Raises:
        InvalidParameter: a number is out of bounds, or *group* is empty or longer than 255 characters.
    """
    return Idempotent(store, group, key=key, keep_s=keep_s, cache_size=cache_size, threads=threads, world=world)


class Idempotent:
    """Made by `idempotent`; used in one event loop at a time. `gantrymq.client.sync.Idempotent` is the one for threads.

    Attributes:
        consumed: messages whose transaction was committed here.
        duplicates: messages that were consumed before, here or elsewhere.
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
        """As `idempotent` has it; *records* are those of *store*, where they are not used beside an event loop."""
        if not 0 < len(group) <= MAX_KEY_CHARS:
            raise InvalidParameter(
                f"the group {group[:20]!r} has {len(group)} characters; expected 1 to {MAX_KEY_CHARS}"
            )
        for name, value, least in (("keep_s", keep_s, 1), ("cache_size", cache_size, 0), ("threads", threads, 1)):
            if value < least:
                raise InvalidParameter(f"{name} is {value}; expected {least} and more")
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
        """A handler for `Consumer.run` that calls ``handler(message, connection)`` for messages not consumed before.

        Args:
            handler: its change to the database goes through *connection*, in a transaction that is committed when it
                returns and rolled back when it raises. A plain function runs in a thread and gets the database's own
                connection; an async one gets the ``AsyncConnection`` of an async engine, else a `ThreadConnection`. For
                ``batch_size`` it gets a list of the messages that are new, in one transaction.

        Raises:
            InvalidParameter: a plain function, and a store of an async engine; what is not callable, or a generator
                function.
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
        """The connection for what *message* changes, in a transaction as `__call__` says; None for a duplicate.

            async for message in consumer:
                async with once.attempt(message) as connection:
                    if connection is not None:
                        await connection.execute("UPDATE accounts ...")

        Raises:
            InvalidParameter: the key of the message is not legal.
            what the database raises: the message was not consumed.
        """
        async with self.attempts([message]) as (_, connection):
            yield connection

    async def prune(self) -> int:
        """Forget all records that are older than ``keep_s``, of any group; returns how many.

        Some of them are forgotten every 10 minutes while messages are consumed.
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
        """As `attempt`, for several at once: those that are new, and the connection for them."""
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
                    if left == new or (entered and left):  # not our key, or not all of them: nothing was committed
                        await self._record_keys([identities[number] for number in new])
                        raise
                    if entered:  # the database told only at the commit that another member was first
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
        """Write down the keys of messages that were not consumed; when they come back they may have lost them."""
        for each in failed:
            if each.redelivered or each.key == each.place:
                continue
            alias = alias_prefix(each.place) + each.key
            try:
                async with self._records.transaction() as connection:
                    await self._records.add(connection, self._rows([MessageIdentity(alias, alias)]))
            except self._records.conflicts:
                pass  # it failed before
            except Exception:
                logger.exception("the key %s of a message of %s could not be written down", each.key, self._group)

    async def _new_messages(self, identities: Sequence[MessageIdentity]) -> list[int]:
        """The numbers of those not consumed; of several with one name the first."""
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
        """Now and then; a failure is no failure of the message, which is consumed."""
        now_s = self._world.clock.monotonic()
        if now_s < self._prune_at_s:
            return
        self._prune_at_s = now_s + PRUNE_EVERY_S
        try:
            if await self._records.prune(self._world.clock.now_ms() - self._keep_ms) >= PRUNE_BATCH:
                self._prune_at_s = now_s
        except Exception:
            logger.exception("old records of %s could not be forgotten; that is tried again", self._group)
