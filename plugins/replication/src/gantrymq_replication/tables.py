"""The tables of a slave: topics, groups, offsets, delay offsets, request modes and users of its master.

A round asks the master for tables that may have changed, and installs them if they have. Topics and groups are asked
for only if their data version differs: a page with one entry has the version. A master that makes no pages (RocketMQ
before 5.4) sends everything each time, so its rounds are less frequent.

    round         every second, or every 3 s if the master makes no pages, or 4 times the duration of the last round
    RocketMQ's    every 60 s, by controller every 10 s, and a new slave begins after a minute

An elected master reports at once that topics or groups have changed, and waits until they are copied (`table_copies`):
a short round copies only these. Every master with access control reports a change of users and permissions so.

So a slave here knows a new topic or offset within a second or two. Its offsets are never ahead of its log
(`table_answers`), and it takes tables only of the master whose log it follows: those of another one, such as a second
master of the same name, may lack topics, and topics that a master does not have are deleted with their queues.

Source: apache/rocketmq broker/.../slave/SlaveSynchronize.java, BrokerController.java (handleSlaveSynchronize).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs

from gantrymq.errors import BrokerRefused, FormatError, GantryError
from gantrymq.plugin.headers import UpdateConsumerOffsetRequest
from gantrymq.plugin.interfaces import Broker, TableSnapshot
from gantrymq.plugin.loose_json import dumps
from gantrymq.plugin.model import Queue, Role
from gantrymq.plugin.network import inner_client
from gantrymq.plugin.remoting import Command, RequestCode, ResponseCode
from gantrymq.plugin.world import TimeSlices, wait_set
from gantrymq_replication.access_state import ASK_ACCESS, read_answer, version_of
from gantrymq_replication.election.table_copies import ASK_TABLES
from gantrymq_replication.own_commits import OwnCommits
from gantrymq_replication.peers import ask, first_of
from gantrymq_replication.table_answers import (
    GROUPS,
    TOPICS,
    MasterTables,
    Members,
    PagedTable,
    add_offset,
    is_newer,
    limit_offsets,
    members_of,
    snapshot_of,
    snapshot_of_configs,
)

log = logging.getLogger("gantrymq.replication")

_ROUND_S: Final = 1.0
_WHOLE_ROUND_S: Final = 3.0  # with a master that makes no pages; the period of RocketMQ's timer
_TIMES: Final = 4  # rounds take at most a fifth of the time
_ALONE: Final = 35  # rounds without a master until that is logged: more than a period of registrations
_CALL_S: Final = 10.0
_ANSWER_S: Final = 1.0  # for an elected master's answer, after the time for which it may wait
_LOOK_S: Final = 0.1  # between two looks whether an elected master is followed
_PAGE: Final = 2000  # entries of one answer, RocketMQ's limit
_TURNS: Final = 3  # attempts to read the pages of a table that changes meanwhile
_TOGETHER: Final = 200  # groups to limit the offsets of without yielding
_ABSENT: Final = (
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SERVICE_NOT_AVAILABLE,
)


class TablesService:
    """Copies the tables of a master while this broker is a slave."""

    name = "replication_tables"
    roles = frozenset({Role.REPLICA})

    def __init__(
        self, followed: Callable[[], str | None], commits: OwnCommits, elected_id: Callable[[], int] = lambda: 0
    ) -> None:
        """Create it; *commits* are handed over to the master.

        *followed* returns the broker address of the master whose log is being copied. It is empty if no name server
        reports it, and None while no log is being copied. *elected_id* returns the id of this broker in its set; 0 with
        fixed roles.
        """
        self._commits, self._elected_id = commits, elected_id
        self._other_master = asyncio.Event()
        self.followed = followed
        self.master = ""  # the last one of which tables were copied
        self.problem = "it has not started"  # why the tables are not copied; or empty
        self.rounds = 0  # that succeeded
        self._task: asyncio.Task[None] | None = None

    @property
    def missing(self) -> str:
        """Why the tables are not copied although the log is; empty if they are, or nothing is copied."""
        return self.problem if self._task is not None and self.followed() is not None else ""

    async def start(self, broker: Broker) -> None:
        """Begin to copy the tables."""
        self._broker, self._clock = broker, broker.world.clock
        self._client = inner_client(broker.world, broker.settings)
        self._known: dict[PagedTable, Members] = {}
        self._settled = set[PagedTable]()  # known tables that were read twice with the same version
        self._installed: tuple[object, ...] = ()
        self._configs: tuple[object, ...] = ()  # topics and groups that were installed
        self._copied, self._tells = ("", -1), True  # source and number of the newest save that was copied
        self._pages = True
        self._asks_access, self._access = True, _Access({}, "")
        registration = broker.registration
        self.problem = f"no name server knows a master of {registration.broker_name} in cluster {registration.cluster}"
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Stop; the tables stay as they are."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
            await self._client.close()

    def _learn(self, master: str) -> None:
        """Copy from another master from now on."""
        if master != self.master:
            self.master, self.problem = master, f"master {master}: not copied yet"
            self._copied, self._tells, self._asks_access = ("", -1), True, True
            self._known.clear()
            self._settled.clear()
            self._installed = self._configs = ()

    async def _run(self) -> None:
        told, alone = self.problem, 0
        while True:
            began = self._clock.monotonic()
            if (master := self.followed()) is not None:
                if master:
                    self._learn(master)
                    self.rounds += await self._try(master, self.round)
                else:
                    alone += 1
                if self.problem and (self.problem != told or alone == _ALONE):
                    log.warning("the tables of the master are not copied: %s", self.problem)
                told = self.problem
            else:
                self._asks_access = True  # the master may start again with another authorizer
            pause = _ROUND_S if self._pages or self.problem else _WHOLE_ROUND_S
            await self._pause(max(pause, _TIMES * (self._clock.monotonic() - began)))

    async def _pause(self, seconds: float) -> None:
        """Wait for the next round. Meanwhile an elected master reports changed topics and groups."""
        until = self._clock.monotonic() + seconds
        while (left := until - self._clock.monotonic()) > 0:
            self._other_master.clear()
            master, elected_id = self.followed(), self._elected_id()
            if elected_id and master and master != self.master:
                return
            own_id = elected_id or (self._broker.registration.broker_id if self._access.version else 0)
            if not own_id or not master or self.problem or not self._tells:
                await wait_set(self._clock, self._other_master, min(left, _LOOK_S) if elected_id else left)
            elif (told := await self._told(master, own_id, left)) and await self._try(master, self._short_round):
                self._copied = told

    def followed_changed(self) -> None:
        """Ask the master that is followed now, and no other."""
        self._other_master.set()

    async def _told(self, master: str, own_id: int, seconds: float) -> tuple[str, int] | None:
        """Report to *master* which tables this broker has. Return the newest ones, or None if there are no others."""
        source, number = self._copied
        ext = {
            "brokerId": str(own_id),
            "source": source,
            "number": str(number),
            "waitMillis": str(int(min(seconds, _ROUND_S) * 1000)),
        }
        try:
            reply = await first_of(
                ask(self._client, master, ASK_TABLES, _ROUND_S + _ANSWER_S, ext), self._other_master.wait()
            )
            answer = {} if reply is None else reply.ext or {}
            found = answer.get("source", ""), int(answer.get("number", -1))
        except (GantryError, ValueError) as error:
            if isinstance(error, BrokerRefused) and error.response_code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                self._tells = False
            log.info("the master does not tell of changed topics: %s", error)
            await wait_set(self._clock, self._other_master, min(seconds, _LOOK_S))
            return None
        return None if reply is None or found == self._copied else found

    async def _try(self, master: str, work: Callable[[str], Awaitable[bool]]) -> bool:
        """Copy tables; return whether they are the tables of *master* now."""
        copied = False
        try:
            copied = await work(master)
        except GantryError as error:
            self.problem = f"master {master}: {error}"
        except Exception as error:
            self.problem = f"master {master}: {type(error).__name__}: {error}"
            log.exception("copying the tables failed")
        else:
            self.problem = ""
        return copied

    async def round(self, master: str) -> bool:
        """Copy the tables of *master* once; return whether that is still the master.

        Raises:
            ClientError: it does not answer, or refuses a table.
            FormatError: an answer cannot be read.
            StoreError: the tables could not be saved.
        """
        version, access = await self._changed_access(master)
        topics = await self._paged(master, RequestCode.GET_ALL_TOPIC_CONFIG, TOPICS)
        groups = await self._paged(master, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GROUPS)
        offsets = await self._ask(master, RequestCode.GET_ALL_CONSUMER_OFFSET)
        delays = await self._optional(master, RequestCode.GET_ALL_DELAY_OFFSET)
        modes = await self._optional(master, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        state = topics, groups, offsets, delays, modes
        if state == self._installed and not self._commits.offsets and access is None:
            return True
        tables = await self._broker.world.workers.run(_tables, topics, groups, offsets, delays, modes, access)
        await self._hand_over(master, tables)
        limited = await limit_offsets(tables, self._end_of, TimeSlices(self._clock, _TOGETHER))
        snapshot = await self._broker.world.workers.run(snapshot_of, tables)
        if master != self.followed():
            return False
        await self._install(snapshot, version)
        self._configs = topics, groups
        self._installed = () if limited else state  # limited offsets are copied again when the log has grown
        return True

    async def _short_round(self, master: str) -> bool:
        """Copy topics, groups and users only. As `round`."""
        version, access = await self._changed_access(master)
        found = (
            await self._paged(master, RequestCode.GET_ALL_TOPIC_CONFIG, TOPICS),
            await self._paged(master, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GROUPS),
        )
        if found != self._configs or access is not None:
            snapshot = await self._broker.world.workers.run(snapshot_of_configs, *found, access)
            if master != self.followed():
                return False
            await self._install(snapshot, version)
            self._configs = found
        return master == self.followed()

    async def _install(self, snapshot: TableSnapshot, version: str) -> None:
        await self._broker.tables.install(snapshot)
        if snapshot.access is not None:
            self._access = _Access(self._broker.access.state_texts(None), version)

    async def _changed_access(self, master: str) -> tuple[str, Mapping[str, str] | None]:
        """Return version and files of users and permissions; None for those that this broker has, or if there are none.

        Raises:
            ClientError, FormatError: as `round`.
        """
        if not self._asks_access:
            return "", None
        workers, texts = self._broker.world.workers, self._broker.access.state_texts(None)
        version = self._access.version if texts == self._access.texts else await workers.run(version_of, texts)
        try:
            reply = await self._call(master, ASK_ACCESS, {"version": version})
        except BrokerRefused as refusal:
            if refusal.response_code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            self._asks_access = False
            return "", None
        found = await read_answer(reply, workers)
        if found.texts is None:
            self._access = _Access(texts, found.version)
        if found.controlled and self._broker.access.authorizer is None:
            log.warning(
                "the master %s controls access, and this broker does not: everyone who can reach it can read the "
                "copies; set authorizer here as there",
                master,
            )
        self._asks_access = found.controlled and self._broker.access.authorizer is not None
        return found.version, found.texts if self._asks_access else None

    async def _hand_over(self, master: str, tables: MasterTables) -> None:
        """Commit at the master the offsets that clients have committed here and it lacks, and add them to *tables*.

        Clients commit at a slave while they cannot reach the master. Otherwise its older offsets would replace theirs.

        Raises:
            ClientError: the master does not answer.
        """
        for (group, queue), offset in [*self._commits.offsets.items()]:
            if is_newer(tables, group, queue, offset) and await self._commit(master, group, queue, offset):
                add_offset(tables, group, queue, offset)
            self._commits.handed_over(group, queue, offset)

    async def _commit(self, master: str, group: str, queue: Queue, offset: int) -> bool:
        header = UpdateConsumerOffsetRequest(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        try:
            await self._call(master, RequestCode.UPDATE_CONSUMER_OFFSET, header.to_ext())
        except BrokerRefused as refusal:
            log.warning("the master does not take the offset %d of group %s in %s: %s", offset, group, queue, refusal)
            return False
        return True

    def _end_of(self, queue: Queue) -> int:
        return self._broker.store.bounds(queue).max_offset

    async def _paged(self, master: str, code: RequestCode, table: PagedTable) -> Members:
        """Return a whole table with its data version; the known one if the version is the same.

        A table of a new version is read twice, because a Java broker changes a table and its version without a lock:
        the first answer may have the new version and the old table.
        """
        known = self._known.get(table)
        for turn in range(_TURNS):
            most = 1 if known is not None and not turn else _PAGE  # the version and one entry, or all if it fits
            found, total = await self._page(master, code, table, 0, most)
            same = known is not None and found.get("dataVersion") == known.get("dataVersion")
            if known is not None and same and table in self._settled:
                return known
            entries = _entries(found, table)
            self._pages = total is not None
            while total is not None and (read := len(entries)) < total:
                page, total = await self._page(master, code, table, read, _PAGE, found.get("dataVersion"))
                entries.update(_entries(page, table))
                if page.get("dataVersion") != found.get("dataVersion") or len(entries) == read:
                    break
                found.setdefault("forbiddenTable", {}).update(page.get("forbiddenTable") or {})
            else:
                self._known[table] = {**found, table.table: entries}
                (self._settled.add if same else self._settled.discard)(table)
                return self._known[table]
        raise FormatError(f"{table.table} of the master changed while it was read, {_TURNS} times")

    async def _page(
        self, master: str, code: RequestCode, table: PagedTable, start: int, most: int, version: object = None
    ) -> tuple[Members, int | None]:
        ext = {table.start: str(start), table.most: str(most)}
        if version is not None:
            ext["dataVersion"] = dumps(version).decode()
        reply = await self._call(master, code, ext)
        total = (reply.ext or {}).get(table.total)
        found = await self._broker.world.workers.run(members_of, reply.payload, table.table)
        return found, None if total is None else int(total)

    async def _ask(self, master: str, code: RequestCode) -> bytes:
        return bytes((await self._call(master, code)).payload)

    async def _call(self, master: str, code: RequestCode, ext: dict[str, str] | None = None) -> Command:
        return await ask(self._client, master, code, _CALL_S, ext)

    async def _optional(self, master: str, code: RequestCode) -> bytes | None:
        """Return the answer, None from a master without this table.

        A service that has it does not run yet on an elected master whose log is not confirmed. That needs this slave in
        the in-sync set, so it cannot be waited for; the next round copies the table.
        """
        try:
            return await self._ask(master, code)
        except BrokerRefused as refusal:
            if refusal.response_code in _ABSENT:
                return None
            raise


def _entries(found: Members, table: PagedTable) -> Members:
    entries = found.get(table.table)
    if not isinstance(entries, dict):
        raise FormatError(f"the master's answer has no {table.table}")
    return entries


@attrs.frozen
class _Access:
    """Users and permissions of this broker."""

    texts: Mapping[str, str] = attrs.field(repr=False)
    version: str  # of the master, from which they are; empty: the master has none


def _tables(
    topics: Members,
    groups: Members,
    offsets: bytes,
    delays: bytes | None,
    modes: bytes | None,
    access: Mapping[str, str] | None,
) -> MasterTables:
    """Decode the tables; runs in a thread."""
    return MasterTables(
        topics,
        groups,
        members_of(offsets, "consumer offsets"),
        None if not delays else members_of(delays, "delay offsets"),
        None if not modes else members_of(modes, "request modes"),
        access,
    )
