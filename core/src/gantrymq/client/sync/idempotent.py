"""Idempotent consumption for threads; the work is done by `gantrymq.client.idempotency.consuming`.

once = idempotent(SqliteRecords("shop.db"), "booking")

@once
def book(message, connection):
    connection.execute("INSERT INTO bookings ...")

consumer.run(book)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gantrymq.client.idempotency.consuming import CACHE_SIZE, KEEP_S
from gantrymq.client.idempotency.consuming import Idempotent as AsyncIdempotent
from gantrymq.client.idempotency.records import KeyOf, Records
from gantrymq.client.idempotency.threads import CallerThreadRecords, run_without_loop
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.user_functions import check_function, require_plain
from gantrymq.errors import InvalidParameter
from gantrymq.world import World


def idempotent(
    store: Records,
    group: str,
    *,
    key: KeyOf | None = None,
    keep_s: float = KEEP_S,
    cache_size: int = CACHE_SIZE,
    world: World | None = None,
) -> Idempotent:
    """Create a decorator that makes plain handlers and loop bodies process each message once.

    Arguments as in `gantrymq.client.idempotent`; each message is processed in the thread that received it.

    Raises:
        InvalidParameter: a number is out of bounds, a name is too long, or *store* uses an async engine.
    """
    return Idempotent(store, group, key=key, keep_s=keep_s, cache_size=cache_size, world=world)


class Idempotent:
    """Created by `idempotent`; used by any number of threads."""

    def __init__(self, store: Records, group: str, **options: Any) -> None:
        """Arguments as in `idempotent`."""
        if not store.blocking:
            raise InvalidParameter("threads cannot await the calls of an async engine; give a plain engine")
        self._group = group
        records = CallerThreadRecords(store)  # type: ignore[arg-type]  # a blocking store implements `BlockingRecords`, too
        self._wrapped = AsyncIdempotent(store, group, threads=1, records=records, **options)

    @property
    def consumed(self) -> int:
        """Messages with a transaction committed here."""
        return self._wrapped.consumed

    @property
    def duplicates(self) -> int:
        """Messages that were consumed before, here or elsewhere."""
        return self._wrapped.duplicates

    def __call__(self, handler: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
        """Return a handler for `Consumer.run` that calls ``handler(message, connection)`` for each new message.

        *connection* is the database connection, in a transaction that is committed when *handler* returns and rolled
        back if it raises. With ``batch_size`` the handler gets a list of the new messages, in one transaction.

        Raises:
            InvalidParameter: *handler* is async, a generator function, or not callable.
        """

        name = f"the handler of {self._group}"
        check_function(handler, name, plain="an async one belongs to gantrymq.client.idempotent")

        @functools.wraps(handler)
        def handle(message: Any) -> None:
            several = not isinstance(message, ReceivedMessage)
            with self._attempt(message if several else [message]) as (new, connection):
                if new:
                    require_plain(handler(new if several else message, connection), name)

        return handle

    @contextmanager
    def attempt(self, message: ReceivedMessage) -> Iterator[Any]:
        """Yield the connection for the changes of *message*, in a transaction as in `__call__`; None for a duplicate.

        Raises:
            InvalidParameter: the key of the message is not valid.
            errors of the database: the message was not consumed.
        """
        with self._attempt([message]) as (_, connection):
            yield connection

    def prune(self) -> int:
        """Delete all records older than ``keep_s``, of any group; returns how many."""
        return run_without_loop(self._wrapped.prune())

    @contextmanager
    def _attempt(self, messages: list[ReceivedMessage]) -> Iterator[tuple[list[ReceivedMessage], Any]]:
        attempt = self._wrapped.attempts(messages)
        found = run_without_loop(attempt.__aenter__())
        try:
            yield found
        except BaseException as error:
            if not run_without_loop(attempt.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            run_without_loop(attempt.__aexit__(None, None, None))
