"""Runs the machine of a broker: passes its decisions to the engine and to the broker, and the results back.

Calls of the engine run beside each other, changes of the role one after the other; of several changes that wait, only
the last one is made. The machine decides synchronously, so that fencing never waits for either.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

from gantrymq.errors import GantryError
from gantrymq.plugin.world import World
from gantrymq_replication.election.engine import (
    Answer,
    Engine,
    EngineError,
    EngineRefused,
    EngineUnreachable,
    Progress,
    listed,
    not_clean,
)
from gantrymq_replication.election.fencing import Fencing
from gantrymq_replication.election.machine import (
    BecomeMaster,
    Decision,
    Elect,
    Fence,
    Follow,
    Machine,
    Renew,
    RoleSettings,
    StandDown,
    Standing,
    Unfence,
)
from gantrymq_replication.election.statistics import ElectionCounts
from gantrymq_replication.election.sync_set import Alter, SyncSet, SyncSetSettings

log = logging.getLogger("gantrymq.replication")

_TICK_S: Final = 0.1
_OPEN_S: Final = 2.0  # between two attempts to register
_HAND_OVER_S: Final = 3.0  # for slaves to confirm the log
_SETTLE_S: Final = 0.02  # for messages that were accepted before to be appended
_AGAIN_S: Final = 1.0  # between two attempts to change the role
_MARGIN_SHARE: Final = 2 / 9  # of the lease: for clocks of different speed, and the last step of an acknowledgement

_RoleChange: TypeAlias = BecomeMaster | Follow | StandDown


class Mastered(NamedTuple):
    """The log of a new master."""

    confirmed: int  # by earlier masters, as far as this broker knows
    end: int


class Host(Protocol):
    """The broker, as the election uses it."""

    def progress(self) -> Progress:
        """Return how far the log is."""

    def log_end(self) -> int:
        """Return the end of the log, also if it is not on the disk yet."""

    async def become_master(self, epoch: int) -> Mastered:
        """End connections of slaves and to a master, cut the log to its last whole record and begin *epoch*."""

    async def follow(self, master: Follow) -> None:
        """Copy the log of another broker from now on."""

    async def stand_down(self, reason: str) -> None:
        """Be neither: serve reads only."""

    def fence(self, reason: str) -> None:
        """Answer senders that wait for an acknowledgement with an error; accept nothing."""

    def unfence(self) -> None:
        """Accept messages again."""

    def moved(self) -> None:
        """Check the confirm offset; called after each event of the machine."""


class RunnerSettings(NamedTuple):
    """Settings of the election."""

    set_rules: Callable[[int], SyncSetSettings]  # by the broker's id
    fencing: Fencing = Fencing.STRICT


class Election:
    """The election of one broker. `machine` is None until the broker has an id."""

    def __init__(self, world: World, engine: Engine, host: Host, rules: RunnerSettings, unelectable: str = "") -> None:
        """*unelectable*: why this broker must not be the master, such as a damaged epoch file; empty if it may."""
        self._clock, self._engine, self._host, self._rules = world.clock, engine, host, rules
        self._unelectable = unelectable
        self.machine: Machine | None = None
        self.own_id = 0  # 0 until the broker has one
        self.unreachable = False  # whether the last calls of the engine had no answer
        self.refused = False  # whether the engine has refused this broker as a member of its set
        self.counts = ElectionCounts(self._clock.monotonic())
        self.problem = "the election has not begun"  # why this broker is no member of its set; empty if it is
        self._tasks = set[asyncio.Task[None]]()
        self._stopped = False
        self._fenced = False  # and the log says so
        self._next: _RoleChange | None = None
        self._changed = asyncio.Event()
        self._known: tuple[int, int | None] = (0, None)  # epoch and master
        self._compared = ""  # why the log of this broker may not be whole
        self._declines: dict[int, str] = {}  # logged reasons why members do not take over
        self._data_lost = ""  # the logged reason
        self.known_since_ms = 0  # wall time since which this broker knows them; 0: it knows none

    def start(self) -> None:
        """Begin to register, and then to take part."""
        self._run(self._main())

    async def stop(self, *, resign: bool) -> None:
        """End; with *resign*, after the broker has stopped acknowledging, have another one elected at once.

        Connections of slaves end afterwards, because slaves without a connection leave the set.
        """
        self._stopped = True
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            if (
                resign and self.machine is not None
            ):  # not the master: an election without an answer may have made it one
                await self._engine.resign()
        except EngineError as error:
            log.warning("the engine was not told that this master stops: %s", error)
        except Exception:
            log.exception("the engine was not told that this master stops")
        try:
            await self._engine.close()
        except Exception:
            log.exception("the connection to the engine did not end")

    async def hand_over(self, broker_id: int | None = None, *, waits: bool = True, leaves: bool = False) -> int:
        """Hand over to another member of the in-sync set, and return its id.

        Args:
            broker_id: of the member; None for the one with the longest log.
            waits: refuse messages until the members have all that this one has, so that none is cut away.
            leaves: this broker stops then, so that the next master need not wait for it.

        Raises:
            EngineError: this broker is not the master, there is no such member, the members do not confirm in time, or
                the engine refuses. This broker stays the master, unless `EngineUnreachable` leaves that open.
        """
        machine = self.machine
        if machine is None or machine.set is None or not machine.is_master:
            raise EngineRefused("this broker is not the master")
        if machine.held or machine.data_lost:
            raise EngineRefused(machine.held or machine.data_lost)
        successor = _successor(machine.set, self.own_id, broker_id)
        before = self._copied(machine, successor) if waits else None
        await self._pass_on(machine, successor, f"this master hands over to broker id {successor}", before, leaves)
        return successor

    async def _pass_on(
        self, machine: Machine, successor: int, held: str, before: Awaitable[None] | None, leaves: bool = False
    ) -> None:
        """Do *before*, then make *successor* the master; refuse messages meanwhile, for the reason *held*."""
        machine.held = held
        try:
            if before is not None:
                await before
            await self._engine.hand_over(machine.epoch, successor, leaves=leaves)
        except EngineRefused:
            raise
        except BaseException as error:  # it may be done, also if the operator's request was cancelled
            reason = str(error) or "a change of the master was interrupted"
            self.do(machine.doubted(reason, self._clock.monotonic()))
            raise
        else:
            self.do(machine.handed_over(self._clock.monotonic()))
        finally:
            machine.held = ""

    def give_way(self, broker_id: int) -> None:
        """Hand over to a broker that has confirmed messages which this master lacks.

        Not if enough copies are in sync: then messages are acknowledged that the other one lacks.
        """
        machine = self.machine
        if machine is not None and machine.set is not None and not (machine.set.enough or machine.held):
            self._run(self._give_way(machine, machine.set, broker_id))

    async def _give_way(self, machine: Machine, held: SyncSet, broker_id: int) -> None:
        reason = f"broker id {broker_id} has acknowledged messages that this master lacks"
        try:
            # Controllers elect from the set, which is the master alone after an election.
            enter = self._entered(machine, held, broker_id) if held.members == {self.own_id} else None
            await self._pass_on(machine, broker_id, f"{reason}, and takes over", enter)
        except EngineError as error:
            log.warning("%s, but it does not take over: %s", reason, error)
        else:
            log.warning("%s: it takes over", reason)

    async def _entered(self, machine: Machine, held: SyncSet, broker_id: int) -> None:
        epoch = machine.epoch
        members, set_epoch = await self._engine.alter(epoch, Alter(0, held.set_epoch, held.members | {broker_id}))
        self.do(machine.altered(epoch, members, set_epoch, self._clock.monotonic()))

    async def _copied(self, machine: Machine, successor: int) -> None:
        """Return when the *successor* has all, and the set, if messages can be acknowledged."""
        began = self._clock.monotonic()
        await self._clock.sleep(_SETTLE_S)
        while (followers := machine.set) is not None:
            follower, end = followers.followers.get(successor), self._host.log_end()
            # With too few copies in sync nothing is acknowledged, however long this waits for the others.
            confirmed = followers.confirmed >= end or not followers.enough
            if follower is not None and follower.acked >= end and confirmed:
                return
            if self._clock.monotonic() - began > _HAND_OVER_S:
                raise EngineRefused(f"the in-sync set did not confirm the log within {_HAND_OVER_S:g} s")
            await self._clock.sleep(0.005)
        raise EngineRefused("this broker is not the master any more")

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a part of the election failed", exc_info=error)

    async def _main(self) -> None:
        while True:
            try:
                own_id = await self._engine.open(self._on_news, self._on_lost, self._host.progress())
                break
            except (EngineError, OSError) as error:
                told, self.problem = self.problem, _sentence(error)
                self.refused = self.refused or isinstance(error, EngineRefused)
                if self.problem != told:
                    log.warning("this broker takes no part in the election: %s", self.problem)
                if isinstance(error, EngineError):
                    self._failed(error)
            except Exception as error:
                log.exception("this broker takes no part in the election")
                self.problem = _sentence(error)
            await self._clock.sleep(_OPEN_S)
            self.counts.look(None, self._clock.monotonic())
        self.problem, self.own_id, self.refused = "", own_id, False
        terms = self._engine.terms
        role_rules = RoleSettings(
            own_id=own_id,
            fencing=self._rules.fencing,
            lease_s=terms.lease_s,
            margin_s=terms.lease_s * _MARGIN_SHARE,
            renew_s=terms.renew_s,
            fences_on_loss=terms.fences_on_loss,
        )
        epoch, now = self._host.progress().epoch, self._clock.monotonic()
        machine = self.machine = Machine(role_rules, self._rules.set_rules(own_id), now, epoch)
        machine.unelectable = self._unelectable
        if not machine.unelectable and not self._host.progress().whole:
            machine.unelectable = f"{not_clean(own_id)}its log is compared with those of the in-sync set first"
            self._run(self._compare(machine))
        self._run(self._change_roles(machine))
        while True:
            try:
                self.do(machine.tick(self._clock.monotonic()))
                self.counts.look(machine, self._clock.monotonic())
            except Exception:  # without ticks, no lease would be renewed
                log.exception("a look at the election failed")
                await self._clock.sleep(_AGAIN_S)
            await self._clock.sleep(_TICK_S)

    async def _compare(self, machine: Machine) -> None:
        """Allow the election of this broker when the engine allows it, unless it follows a master before."""
        told = self._compared = machine.unelectable
        while machine.unelectable == told:
            try:
                told = await self._engine.not_whole(self._host.progress())
            except EngineError as error:
                told = not_clean(self.own_id) + str(error)
            except Exception:  # it would never be elected
                log.exception("the logs of the set cannot be compared")
            if machine.unelectable != self._compared:
                return
            if told and told != self._compared:
                log.warning("%s", told)
            machine.unelectable = self._compared = told
            if not told:
                return
            await self._clock.sleep(_AGAIN_S)

    def take_as_whole(self) -> None:
        """Allow the election of this broker although its log may not be whole, on the decision of an operator."""
        if self.machine is not None and self._compared and self.machine.unelectable == self._compared:
            self.machine.unelectable = ""

    # --- decisions ---------------------------------------------------------------------------------------------------

    def do(self, decisions: list[Decision]) -> None:
        """Carry out decisions of the machine; after `stop` they are ignored."""
        if self._stopped:
            return
        for each in decisions:
            if isinstance(each, Fence):
                log.warning("this master accepts nothing: %s", each.reason)
                self._fenced = True
                self._tell(self._host.fence, each.reason)
            elif isinstance(each, Unfence):
                if self._fenced:
                    log.info("the engine confirms this master: it is not fenced any more")
                self._fenced = False
                self._tell(self._host.unfence)
            elif isinstance(each, Renew):
                self._run(self._ask(self._engine.renew))
            elif isinstance(each, Elect):
                self._run(self._ask(self._engine.elect))
            elif isinstance(each, Alter):
                self._run(self._alter(each))
            else:
                self._next = each
                self._changed.set()
        if (lost := self._machine.data_lost) != self._data_lost:
            self._data_lost = lost
            log.warning("%s", lost or "the engine has data of this set again")
        if (known := (self._machine.epoch, self._machine.master)) != self._known:
            self._known, self.known_since_ms = known, self._clock.now_ms()
        self._tell(self._host.moved)

    def _failed(self, error: Exception) -> None:
        self.counts.failed(self._clock.monotonic(), refused=isinstance(error, EngineRefused))
        if isinstance(error, EngineUnreachable) and not self.unreachable:
            self.unreachable = True
            log.warning("the election's engine cannot be reached: %s", error)

    def _answered(self) -> None:
        self.counts.answered(self._clock.monotonic())
        if self.unreachable:
            self.unreachable = False
            log.info("the election's engine answers again")

    def _tell(self, call: Callable[..., None], *args: str) -> None:
        try:
            call(*args)
        except Exception:  # the decisions that follow must be carried out
            log.exception("a decision of the election failed")

    async def _ask(self, call: Callable[[Progress], Awaitable[Answer]]) -> None:
        machine = self._machine
        try:
            answer = await call(self._host.progress())
        except Exception as error:
            if not isinstance(error, GantryError):
                log.exception("a call of the engine failed")
            self._failed(error)
            self.do(machine.failed(_sentence(error), self._clock.monotonic()))
        else:
            self._answered()
            self.do(machine.learned(answer.standing, answer.asked_at, self._clock.monotonic()))
            self.counts.look(machine, self._clock.monotonic())

    async def _alter(self, change: Alter) -> None:
        machine, epoch = self._machine, self._machine.epoch
        try:
            members, set_epoch = await self._engine.alter(epoch, change)
        except Exception as error:
            known = isinstance(error, EngineRefused)
            self._failed(error)
            log.info("the in-sync set %s was not accepted: %s", listed(change.members), _sentence(error))
            self.do(machine.not_altered(epoch, change.number, known, self._clock.monotonic()))
        else:
            self._answered()
            log.info("the in-sync set is %s", listed(members))
            self.do(machine.altered(epoch, members, set_epoch, self._clock.monotonic()))

    async def _change_roles(self, machine: Machine) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            change, self._next = self._next, None
            try:
                if isinstance(change, BecomeMaster):
                    log.info("this broker becomes the master of epoch %d", change.epoch)
                    found = await self._host.become_master(change.epoch)
                    self.do(machine.ready(change.epoch, **found._asdict(), now=self._clock.monotonic()))
                elif isinstance(change, Follow):
                    log.info("broker id %d is the master of epoch %d", change.master, change.epoch)
                    await self._host.follow(change)
                elif change is not None:
                    log.warning("there is no master: %s", change.reason)
                    await self._host.stand_down(change.reason)
            except Exception as error:
                told, self.problem = self.problem, f"the role of this broker cannot be changed: {_sentence(error)}"
                if not isinstance(error, (GantryError, OSError)):
                    log.exception("the role of this broker cannot be changed")
                elif self.problem != told:
                    log.warning("%s", self.problem)
                if isinstance(change, BecomeMaster):
                    await self._decline(machine, self.problem)
                await self._clock.sleep(_AGAIN_S)
                self._next = self._next or change
                self._changed.set()
            else:
                self.problem = ""
                while machine.own and machine.unelectable and not self._changed.is_set():
                    await self._decline(machine, machine.unelectable)
                    await self._clock.sleep(_AGAIN_S)

    async def _decline(self, machine: Machine, reason: str) -> None:
        """Ask the engine to elect another member: this broker was elected but cannot serve."""
        for other in sorted(machine.standing.members - {self.own_id}):
            try:
                await self._engine.hand_over(machine.epoch, other)
            except EngineError as error:
                if self._declines.get(other) != (told := _sentence(error)):
                    self._declines[other] = told
                    log.info("broker id %d does not take over: %s", other, told)
            except Exception:  # the role is tried again
                log.exception("broker id %d does not take over", other)
            else:
                log.warning("broker id %d is to be the master instead of this one: %s", other, reason)
                self.do(machine.hinted(self._clock.monotonic()))
                return

    @property
    def _machine(self) -> Machine:
        assert self.machine is not None
        return self.machine

    # --- the engine's news -------------------------------------------------------------------------------------------

    def _on_news(self, standing: Standing | None) -> None:
        if self.machine is not None:
            now = self._clock.monotonic()
            self.do(self.machine.hinted(now) if standing is None else self.machine.learned(standing, None, now))

    def _on_lost(self, problem: str) -> None:
        if self.machine is not None:
            self.do(self.machine.lost(problem, self._clock.monotonic()))


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) if isinstance(error, GantryError) else f"{type(error).__name__}: {error}"


def _successor(found: SyncSet, own_id: int, wanted: int | None) -> int:
    """Return the member that takes over: *wanted*, or the one with the longest log.

    Raises:
        EngineRefused: there is none.
    """
    able = {each: found.followers[each].acked for each in found.members if each != own_id and each in found.followers}
    if wanted is not None and wanted not in able:
        why = "is the master already" if wanted == own_id else "is not a connected member of the in-sync set"
        raise EngineRefused(f"broker id {wanted} {why}; able to take over: {listed(able)}")
    if not able:
        raise EngineRefused("no other member of the in-sync set is connected, so that no broker could take over")
    return max(able, key=lambda each: (able[each], -each)) if wanted is None else wanted
