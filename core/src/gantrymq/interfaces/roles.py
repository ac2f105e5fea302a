"""The role of a broker, which may change while it runs, and the tables that a replica takes over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from gantrymq.errors import GantryError
from gantrymq.interfaces.store import PutResult, StoreMessage
from gantrymq.model.role import Role

__all__ = ["BrokerRole", "MessageOutlet", "ServiceState", "StateTables", "TableSnapshot"]


class MessageOutlet(Protocol):
    """Stores messages of an acting master's services on other brokers."""

    def __call__(
        self, messages: Sequence[StoreMessage], *, skip_interceptors: bool = False
    ) -> Awaitable[Sequence[PutResult]]:
        """Store *messages* elsewhere and return one result for each, in order; raise nothing.

        A message that cannot be stored now gets SERVICE_NOT_AVAILABLE, one that no broker may take MESSAGE_ILLEGAL. The
        numbers of a result mean nothing here: log offset and size are 0.
        """


class BrokerRole(Protocol):
    """The broker's role; `Broker.role`. A broker starts as a master of epoch 0.

    A replica refuses messages of clients and plugins (code 14), the end of transactions and recalls (11), and changes
    of topics and groups and resets of offsets by operators (1). It creates no topic or group by itself. Pulls, queries,
    heartbeats and requests to commit an offset work; the offset that a pull commits is ignored. Records arrive by
    `RawLog.append_raw`, tables by `StateTables.install`. Retention deletes no log file except as `keep_from` allows.

    An acting master is a replica whose master is missing. It serves consumers like a master and runs the services whose
    ``roles`` name it; the messages that these store go to the outlet of `store_elsewhere`.
    """

    @property
    def current(self) -> Role:
        """The present role."""

    @property
    def epoch(self) -> int:
        """Number of the present term, which only grows; of use to the plugin that changes roles."""

    async def change(self, role: Role, epoch: int) -> None:
        """Change the role, and return when the services of the new role run and the others have stopped.

        A new replica stores what was accepted before and refuses all else, then stops services. A new master starts
        its services, then accepts messages. Changes are made one after the other. Between replica and acting master the
        epoch may stay the same.

        A service may await it in its start when the broker starts, but not in a start or stop during another change,
        which would wait for itself: it then changes the role in a task of its own, afterwards.

        Raises:
            PluginError: a service calls it in its start or stop during another change.
            InvalidParameter: *epoch* is lower than the present one.
            ServiceNotAvailable: a service failed to start or stop; the role has changed, but messages stay refused.
        """

    def start_services_after(self, wait: Callable[[], Awaitable[object]] | None) -> None:
        """Await *wait* in each later change to MASTER before the services start; None: no more.

        `change` returns before that, and messages are accepted meanwhile. For a master with messages that are not
        visible yet: services look for what a former master has delivered.
        """

    def refuse(self, problem: str) -> None:
        """Refuse messages of clients with code 1 and the sentence *problem*, until it is called with an empty one.

        Nothing of a refused message is stored. Messages of plugins are accepted. For a master that has fewer copies
        than it is told to have (RocketMQ's IN_SYNC_REPLICAS_NOT_ENOUGH).
        """

    def refuse_plugins(self, problem: str) -> None:
        """Refuse messages of plugins with code 14 and the sentence *problem*, until it is called with an empty one.

        For a master that cannot know yet whether another broker did the work of its services. It takes effect at once,
        unlike a change of the role.
        """

    def guard(self, check: Callable[[], GantryError | None] | None) -> None:
        """Ask *check* before each message of a client; None: no more.

        A message is refused with the error that it returns, and nothing of it is stored. For a master that may lose its
        role without being told, and so compares the time. On a replica, which refuses all messages, it says why.
        """

    def store_elsewhere(self, outlet: MessageOutlet | None) -> None:
        """Let *outlet* store the messages of plugins while this broker is an acting master; None refuses them (14)."""

    def serve_consumers(self, *, serve: bool) -> None:
        """Let a replica serve consumers as an acting master does, or not any more; for clients that are sent to it."""

    def on_changed(self, callback: Callable[[Role, int], Any]) -> Callable[[], None]:
        """Call *callback* with role and epoch after each change. Its exceptions are logged.

        Return a function that removes the callback.
        """

    def keep_from(self, floor: Callable[[], int]) -> None:
        """Let retention on a replica delete log files before ``floor()``, such as the master's lowest offset."""


@attrs.frozen
class TableSnapshot:
    """The tables of a broker."""

    files: Mapping[str, str]  # the texts of RocketMQ's configuration files, by file name
    access: Mapping[str, str] | None = None  # those of the authorizer (`AuthorizerState`); None: unknown, or unchanged


class StateTables(Protocol):
    """All tables that a replica takes over; `Broker.tables`."""

    async def snapshot(self) -> TableSnapshot:
        """Return topics, groups, offsets, the state of running services (`ServiceState`) and of the authorizer.

        Topics and groups are those of one moment. Offsets are copied after it, yielding to the loop between groups.
        """

    async def install(self, snapshot: TableSnapshot) -> None:
        """Replace the tables of a replica, and return when they are saved.

        Topics that the snapshot does not have are deleted with their queues; the broker's own are kept. A snapshot
        without offsets or access leaves them as they are. The states of services are read when these start. After a
        truncation of the log (`RawLog.truncate`) a snapshot has to be installed before the broker becomes a master:
        state files of its own may be about what was cut off.

        Raises:
            InvalidParameter: this broker is not a replica.
            FormatError: a text is not one of its file; nothing has changed.
            StoreError: the tables have changed, but could not be saved.
        """

    def confirm_changes(self, confirm: Callable[[], Awaitable[None]] | None) -> None:
        """Await *confirm* after each save of topics and groups before the changes count as saved; None: no more.

        Operators' requests that change topics or groups wait for it, and messages to a topic that has changed. They are
        refused with the GantryError that it raises, and it is called again until it succeeds. For a master whose
        replicas must have its topics before its answer.
        """


@runtime_checkable
class ServiceState(Protocol):
    """A service with state files that a replica takes over."""

    def state_texts(self) -> Mapping[str, str]:
        """Return the texts of its files in the ``config`` folder by file name; none while it does not run.

        Each is a JSON object. An empty one resets a file of the replica, such as positions in files that it does not
        get.
        """
