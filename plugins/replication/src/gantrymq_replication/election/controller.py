"""The engine on RocketMQ's controller (Java 5.1.1 and newer; DLedger or jRaft).

    start     1005 to each controller until one names the leader
              1012, 1013 an id, if the broker has none; 1003 registers its address
    renew     904 to each controller (liveness is kept by each of them), then 1004 to the leader
    elect     1002
    alter     1001
    news      1008, a request to the broker's own port: pass it to `ControllerEngine.role_changed`
    restore   1004 says that a set with epochs in its logs is unknown: the controllers have lost their data, see `admit`

The controller takes a broker for dead when its heartbeats stop for `heartbeat_s`, and at once when its connection
closes. So the lease of a master counts from before its heartbeat, which the leader must answer, and ends with the
connection.

Source: apache/rocketmq broker/.../controller/ReplicasManager.java, broker/.../out/BrokerOuterAPI.java.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.errors import ClientError, FormatError, GantryError, RequestRefused, StoreDamaged
from gantrymq.plugin.headers import (
    CleanBrokerDataRequest,
    ElectMasterRequest,
    GetMetaDataResponse,
    Header,
    MasterHeader,
)
from gantrymq.plugin.network import RemotingClient, refused
from gantrymq.plugin.remoting import Command, Connection, RequestCode, ResponseCode, request
from gantrymq.plugin.world import World
from gantrymq_replication.election.broker_id import BrokerId, IdentityFiles, in_use
from gantrymq_replication.election.controller_headers import (
    AlterRequest,
    AlterResponse,
    ApplyIdRequest,
    ControllerCode,
    HeartbeatRequest,
    NextIdRequest,
    NextIdResponse,
    RegisterRequest,
    ReplicaInfoRequest,
    log_end,
    read_set,
    replicas_of,
    write_set,
)
from gantrymq_replication.election.engine import (
    NO_BROKER_IDS,
    NOTHING,
    Answer,
    EngineError,
    EngineRefused,
    EngineUnreachable,
    OnLost,
    OnNews,
    Progress,
    Terms,
    longer,
    not_clean,
    waits_for,
)
from gantrymq_replication.election.machine import Standing
from gantrymq_replication.election.sync_set import Alter

log = logging.getLogger("gantrymq.replication")

_CLEAN_S: Final = 3.0  # for controllers to see the end of a connection
_CLEAN_AGAIN_S: Final = 0.1
_APPLICATIONS: Final = 5  # for an id, when others apply for the same one
_NO_CANDIDATE: Final = (ControllerCode.ELECT_MASTER_FAILED, ControllerCode.MASTER_NOT_AVAILABLE)


@attrs.frozen(kw_only=True)
class ControllerSettings:
    """Settings of the engine."""

    addresses: tuple[str, ...]  # controllerAddr, HOST:PORT each
    cluster: str
    broker: str
    address: str  # of this broker for clients, and for the controller's requests
    identity: Path  # storePathBrokerIdentity
    least_copies: int = 1  # minInSyncReplicas
    heartbeat_s: float = 10.0  # controllerHeartBeatTimeoutMills
    priority: int = 0x7FFFFFFF  # brokerElectionPriority; the lowest wins among equal logs
    call_s: float = 3.0


class ControllerEngine:
    """One broker's access to the controllers."""

    def __init__(self, world: World, rules: ControllerSettings, new_client: Callable[[], RemotingClient]) -> None:
        self.terms = Terms(rules.heartbeat_s, min(1.0, rules.heartbeat_s / 3), fences_on_loss=True)
        self._clock, self._workers, self._rules = world.clock, world.workers, rules
        self._new_client, self._client = new_client, new_client()
        self._client.on_close(self._closed)
        self._files = IdentityFiles(world.files, rules.identity, rules.cluster, rules.broker)
        self._leader = ""
        self._id = 0
        self._opened_at = 0.0  # monotonic; when this process began to take part
        self._admitted = False  # a person has decided that it may be elected, although its log may not be whole
        self._forgotten = False  # the controllers did not know this broker's set, although its log has epochs
        self._on_news: OnNews | None = None
        self._on_lost: OnLost | None = None
        self._beats: dict[str, asyncio.Task[None]] = {}

    @property
    def leader(self) -> str:
        """Address of the leading controller; empty while none is known."""
        return self._leader

    # --- start -------------------------------------------------------------------------------------------------------

    async def open(self, on_news: OnNews, on_lost: OnLost, progress: Progress = NOTHING) -> int:
        """Register, with the id of the identity file or a new one. See `Engine.open`."""
        self._on_news, self._on_lost = on_news, on_lost
        if not self._id:
            try:
                self._id = await self._identity()
            except StoreDamaged as error:
                raise EngineRefused(str(error)) from error
        await self._join(progress)
        self._opened_at = self._clock.monotonic()
        return self._id

    async def _identity(self) -> int:
        granted = await self._workers.run(self._files.granted)
        if granted is not None:
            await self._check_alone(granted.broker_id)
            return granted.broker_id
        for _ in range(_APPLICATIONS):
            applied = await self._workers.run(self._files.applied)
            if applied is None:
                names = NextIdRequest(cluster_name=self._rules.cluster, broker_name=self._rules.broker)
                found = NextIdResponse.from_ext((await self._ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, names)).ext)
                applied = self._own_application(found.next_broker_id)
                await self._workers.run(self._files.apply, applied)
            try:
                await self._apply(applied)
            except EngineRefused:  # another broker was faster
                await self._workers.run(self._files.refuse)
                continue
            await self._workers.run(self._files.grant, applied.broker_id)
            return applied.broker_id
        raise EngineRefused(f"the controller {self._leader} refused {_APPLICATIONS} applications for an id")

    async def _check_alone(self, broker_id: int) -> None:
        """Refuse to take an id whose broker is alive at another address, which a registration would overwrite.

        Both would be the master, because controllers know ids only. RocketMQ's brokers do not look.
        """
        rules = self._rules
        try:
            found = await self._replicas()
        except EngineError:
            return  # it knows no such set, or fails: then `_register` does, too
        for each in (each for each in found if each.get("brokerId") == broker_id):
            if each.get("alive") is True and each.get("brokerAddress") != rules.address:
                raise EngineRefused(in_use(broker_id, str(each.get("brokerAddress")), rules.identity))

    async def _replicas(self, *, in_sync: bool = False) -> list[Mapping[str, Any]]:
        broker = self._rules.broker
        answer = await self._ask(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, None, json.dumps([broker]).encode())
        try:
            return replicas_of(answer.payload, broker, in_sync=in_sync)
        except FormatError as error:
            raise EngineUnreachable(f"the controller {self._leader} sent no readable answer: {error}") from error

    async def has(self, broker_id: int) -> bool:
        """Return whether a broker of this set has *broker_id*. See `Engine.has`."""
        return any(each.get("brokerId") == broker_id for each in await self._replicas())

    async def _apply(self, identity: BrokerId) -> None:
        application = ApplyIdRequest(
            cluster_name=self._rules.cluster,
            broker_name=self._rules.broker,
            applied_broker_id=identity.broker_id,
            register_check_code=identity.check_code,
        )
        await self._ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, application)

    async def _join(self, progress: Progress) -> None:
        """Register, unless the controllers have lost their data: they do not know the set, but this log has epochs.

        Raises:
            EngineRefused: this broker is unknown, for another reason.
        """
        try:
            await self._register()
        except _Refused as error:
            if error.code != ControllerCode.BROKER_NEED_TO_BE_REGISTERED:
                raise
            if progress.epoch < 1 or await self._replica_info() is not None:
                raise EngineRefused(
                    f"the controller {self._leader} does not know broker id {self._id} of {self._rules.broker}: it was "
                    "cleaned there, or these are the controllers of another cluster. To join as a new member, remove "
                    f"{self._rules.identity}"
                ) from error
            self._forgotten = True

    async def _rejoin(self) -> None:
        """Register at controllers that have lost their data.

        They only count the ids that are applied for. With the lower ones, whose brokers have them as soon as they
        register, the next new broker gets no id of another one.
        """
        try:
            await self._register()
        except _Refused:
            for each in range(1, self._id + 1):
                with suppress(_Refused):  # another broker has applied for it
                    await self._apply(self._own_application(each))
            await self._register()
        self._forgotten = False

    def _own_application(self, broker_id: int) -> BrokerId:
        return BrokerId(broker_id, f"{self._rules.address};{self._clock.now_ms()}")

    async def _register(self) -> None:
        header = RegisterRequest(
            cluster_name=self._rules.cluster,
            broker_name=self._rules.broker,
            broker_id=self._id,
            broker_address=self._rules.address,
            invoke_time=self._clock.now_ms(),
        )
        await self._ask(RequestCode.CONTROLLER_REGISTER_BROKER, header)

    # --- the engine's calls ------------------------------------------------------------------------------------------

    async def renew(self, progress: Progress) -> Answer:
        """Send heartbeats and read the standing. See `Engine.renew`."""
        asked_at = self._clock.monotonic()
        if progress.electable:  # a controller elects any living member of the set, even one that does not ask for it
            await self._heartbeat(progress)
        standing = await self._replica_info()
        if standing is None:
            await self._join(progress)
            standing = await self._replica_info()
        elif self._forgotten:
            await self._rejoin()
        return Answer(standing or Standing(None, 0, frozenset(), 0), asked_at)

    async def _replica_info(self) -> Standing | None:
        """Return the state of the set at the leader; None if it does not know the set."""
        header = ReplicaInfoRequest(broker_name=self._rules.broker)
        try:
            answer = await self._ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, header)
        except _Refused as error:
            if error.code != ControllerCode.BROKER_METADATA_NOT_EXIST:
                raise
            return None
        return _standing(MasterHeader.from_ext(answer.ext), answer.payload)

    def _beat_of(self, broker_id: int, progress: Progress) -> HeartbeatRequest:
        rules = self._rules
        return HeartbeatRequest(
            cluster_name=rules.cluster,
            broker_addr=rules.address,
            broker_name=rules.broker,
            broker_id=broker_id,
            epoch=progress.epoch,
            max_offset=progress.end,
            confirm_offset=progress.confirmed,
            heartbeat_timeout_mills=int(rules.heartbeat_s * 1000),
            election_priority=rules.priority,
        )

    async def _heartbeat(self, progress: Progress) -> None:
        rules, header = self._rules, self._beat_of(self._id, progress)
        for address in rules.addresses:  # before the leader, which may be about to be replaced and not answer
            if address != self._leader and address not in self._beats:
                task = asyncio.ensure_future(self._beat(address, header))
                self._beats[address] = task
                task.add_done_callback(partial(self._beaten, address))
        await self._ask(RequestCode.BROKER_HEARTBEAT, header)

    async def _beat(self, address: str, header: HeartbeatRequest) -> None:
        """Send a heartbeat to a controller that does not lead, without an answer, as RocketMQ's brokers do."""
        with suppress(ClientError):
            await self._client.oneway(address, request(RequestCode.BROKER_HEARTBEAT, header.to_ext()))

    def _beaten(self, address: str, task: asyncio.Task[None]) -> None:
        del self._beats[address]

    async def elect(self, progress: Progress) -> Answer:
        """Ask for an election. See `Engine.elect`."""
        await self._heartbeat(progress)
        header = ElectMasterRequest(
            cluster_name=self._rules.cluster,
            broker_name=self._rules.broker,
            broker_id=self._id,
            invoke_time=self._clock.now_ms(),
        )
        asked_at = self._clock.monotonic()
        try:
            answer = await self._ask(
                RequestCode.CONTROLLER_ELECT_MASTER, header, ok=(ControllerCode.MASTER_STILL_EXIST,)
            )
        except _Refused as error:
            if error.code in _NO_CANDIDATE:
                raise EngineRefused(
                    f"no broker of {self._rules.broker} can be elected: none of its in-sync set is alive ({error})"
                ) from error
            raise
        return Answer(_standing(MasterHeader.from_ext(answer.ext), answer.payload), asked_at)

    async def not_whole(self, progress: Progress) -> str:
        """Compare this broker's log with the logs of the other members of the set. See `Engine.not_whole`.

        The controller has no heartbeat of members that wait as well, so they are asked themselves (1007).
        """
        if self._admitted:
            return ""
        members = await self._replicas(in_sync=True)
        others = {int(each["brokerId"]): str(each.get("brokerAddress")) for each in members if "brokerId" in each}
        if others.pop(self._id, None) is None:
            return ""  # it is not elected
        found = await asyncio.gather(*(self._log_of(each) for each in others.values()))
        logs = {broker_id: ends for broker_id, ends in zip(others, found, strict=True) if ends is not None}
        why, least = not_clean(self._id), min(self._rules.least_copies, len(others) + 1)
        if len(logs) < len(others) and self._clock.monotonic() < self._opened_at + self.terms.lease_s:
            return f"{why}it waits {self.terms.lease_s:g} s for the other members of the in-sync set"
        if len(logs) + 1 < least:
            return why + waits_for(least, others.keys() - logs.keys())
        for broker_id, ends in sorted(logs.items()):
            if ends > (progress.epoch, progress.end):
                return why + longer(progress.end, broker_id)
        return ""

    async def _log_of(self, address: str) -> tuple[int, int] | None:
        """Return the last epoch and the end of the log of the broker at *address*; None if it does not answer."""
        try:
            answer = await self._client.call(address, request(RequestCode.GET_BROKER_EPOCH_CACHE), self._rules.call_s)
            return log_end(answer.payload) if answer.code == ResponseCode.SUCCESS else None
        except GantryError:
            return None

    async def alter(self, epoch: int, change: Alter) -> tuple[frozenset[int], int]:
        """Ask for another in-sync set. See `Engine.alter`."""
        header = AlterRequest(
            broker_name=self._rules.broker,
            master_broker_id=self._id,
            master_epoch=epoch,
            invoke_time=self._clock.now_ms(),
        )
        body = write_set(change.members, change.set_epoch)
        answer = await self._ask(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body)
        return change.members, AlterResponse.from_ext(answer.ext).new_sync_state_set_epoch

    async def hand_over(self, epoch: int, broker_id: int, *, leaves: bool = False) -> None:
        """Ask for the election of another broker. See `Engine.hand_over`."""
        await self._designate(broker_id)

    async def _designate(self, broker_id: int) -> Standing:
        header = ElectMasterRequest(
            cluster_name=self._rules.cluster,
            broker_name=self._rules.broker,
            broker_id=broker_id,
            designate_elect=True,
            invoke_time=self._clock.now_ms(),
        )
        answer = await self._ask(RequestCode.CONTROLLER_ELECT_MASTER, header, ok=(ControllerCode.MASTER_STILL_EXIST,))
        return _standing(MasterHeader.from_ext(answer.ext), answer.payload)

    def role_changed(self, command: Command) -> None:
        """Handle a request 1008 of a controller: read the standing from the leader.

        RocketMQ's brokers believe it, but any process that reaches the port can send it.

        Raises:
            RequestRefused: it is malformed.
        """
        standing = _standing(MasterHeader.from_ext(command.ext), command.payload)
        log.debug("a controller tells that broker id %s is the master of epoch %d", standing.master, standing.epoch)
        if self._on_news is not None:
            self._on_news(None)

    async def admit(self, broker_id: int, *, unclean: bool, epoch: int = 0) -> None:
        """Have the controllers elect this broker, also while its log is not whole. See `Engine.admit`.

        If they have lost their data, it is elected in an epoch after *epoch*.
        A controller adds 1 to its epoch in each election of another broker, so this broker and an id that is no
        broker's are elected by turns; brokers take no notice of the older epochs. The controllers need
        enableElectUncleanMaster=true meanwhile. All else they decide by themselves (1002).
        """
        standing = await self._replica_info()
        if broker_id != self._id or not unclean:
            raise EngineRefused(
                f"the controllers {', '.join(self._rules.addresses)} elect, not brokers: ask one of them"
            )
        if standing is not None and standing.epoch >= epoch:
            self._admitted = True
            await self._ask(RequestCode.BROKER_HEARTBEAT, self._beat_of(self._id, NOTHING))
            await self._designate(self._id)
            return
        await self._rejoin()
        standing, other = standing or Standing(None, 0, frozenset(), 0), self._id + NO_BROKER_IDS
        await self._apply(self._own_application(other))
        alive = self._new_client()  # a controller takes one for dead when its connection closes
        try:
            while standing.epoch <= epoch or standing.master != self._id:
                first, second = (self._id, other) if (epoch - standing.epoch) % 2 == 0 else (other, self._id)
                wanted = second if standing.master == first else first  # this broker gets the next one after *epoch*
                if wanted == other:
                    leader = self._leader or await self._find_leader()
                    await self._call(alive, leader, RequestCode.BROKER_HEARTBEAT, self._beat_of(other, NOTHING))
                elected = await self._designate(wanted)
                if elected.epoch <= standing.epoch:
                    raise EngineRefused(f"the controller {self._leader} begins no epoch after {standing.epoch}")
                standing = elected
        finally:
            await alive.close()
            await self._clean(other)

    async def _clean(self, broker_id: int) -> None:
        """Make the controllers forget an id after they have noticed the end of its connection.

        With isCleanLivingBroker they would forget the whole set.
        """
        until = self._clock.monotonic() + _CLEAN_S
        while True:
            try:
                await self.forget(broker_id)
            except EngineError as error:  # or it does not answer: the election itself has succeeded
                if self._clock.monotonic() > until:
                    log.warning(
                        "the controllers still list broker id %d, which belongs to no broker: %s", broker_id, error
                    )
                    return
                await self._clock.sleep(_CLEAN_AGAIN_S)
            else:
                return

    async def forget(self, broker_id: int) -> None:
        """Make the controllers forget an id whose broker is not alive. See `Engine.forget`."""
        header = CleanBrokerDataRequest(
            cluster_name=self._rules.cluster,
            broker_name=self._rules.broker,
            broker_controller_ids_to_clean=str(broker_id),
            invoke_time=self._clock.now_ms(),
        )
        await self._ask(RequestCode.CLEAN_BROKER_DATA, header)

    async def resign(self) -> None:
        """Close the connections: the controller elects another master at once."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        self._on_news = self._on_lost = None
        for task in [*self._beats.values()]:
            task.cancel()
        await self._client.close()

    # --- the leader --------------------------------------------------------------------------------------------------

    async def _ask(
        self, code: RequestCode, header: Header | None, body: bytes | None = None, ok: tuple[int, ...] = ()
    ) -> Command:
        """Ask the leader; once more if the one that was known does not lead any more."""
        for again in (True, False):
            leader = self._leader or await self._find_leader()
            answer = await self._call(self._client, leader, code, header, body)
            if answer.code == ControllerCode.NOT_LEADER:
                self._leader = ""
                if again:
                    continue
            if answer.code == 0 or answer.code in ok:
                return answer
            if answer.code < ControllerCode.FENCED_MASTER_EPOCH:  # an exception, or it is too busy
                self._leader = ""
                raise EngineUnreachable(f"the controller {leader} failed: {answer.code} {self._remark(answer, leader)}")
            raise _Refused(answer.code, leader, answer.remark or "")
        raise AssertionError

    async def _call(
        self, client: RemotingClient, leader: str, code: RequestCode, header: Header | None, body: bytes | None = None
    ) -> Command:
        asked = request(code, header.to_ext() if header is not None else None, body)
        try:
            return await client.call(leader, asked, self._rules.call_s)
        except GantryError as error:
            self._leader = ""
            raise EngineUnreachable(f"the controller does not answer: {error}") from error

    async def _find_leader(self) -> str:
        """Ask every controller, and take the first answer with a leader: one that does not answer delays nothing."""
        asked = [asyncio.ensure_future(self._leader_of(address)) for address in self._rules.addresses]
        problems = []
        try:
            for each in asyncio.as_completed(asked):
                leader, problem = await each
                if leader:
                    log.info("the controller %s leads", leader)
                    self._leader = leader
                    return leader
                problems.append(problem)
        finally:
            for task in asked:
                task.cancel()
        raise EngineUnreachable(f"no controller leads: {'; '.join(sorted(problems))}")

    async def _leader_of(self, address: str) -> tuple[str, str]:
        """Return the leader that one controller names, or why it names none."""
        try:
            answer = await self._client.call(
                address, request(RequestCode.CONTROLLER_GET_METADATA_INFO), self._rules.call_s
            )
        except GantryError as error:
            return "", str(error)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return "", f"{address} is another server, no controller"
        if answer.code != 0:
            return "", f"{address}: {answer.code} {self._remark(answer, address)}"
        leader = GetMetaDataResponse.from_ext(answer.ext).controller_leader_address
        return leader or "", f"{address} knows no leader: more than half of the controllers must be alive"

    def _remark(self, answer: Command, address: str) -> str:
        return refused(self._client, answer, address).remark

    def _closed(self, address: str, connection: Connection) -> None:
        if address == self._leader or not self._leader:  # one that did not answer may lead
            self._leader = ""
            if self._on_lost is not None:
                self._on_lost(f"the connection to the controller {address} broke")


class _Refused(EngineRefused):
    """A refusal with the controller's code."""

    def __init__(self, code: int, leader: str, remark: str) -> None:
        super().__init__(f"the controller {leader} refuses: {code} {remark}")
        self.code = code


def _standing(header: MasterHeader, body: bytes) -> Standing:
    """Return the standing in an answer. The set epoch is in the header or in the body."""
    try:
        members, number = read_set(body) if body else (frozenset[int](), None)
    except (FormatError, RequestRefused) as error:
        raise EngineUnreachable(str(error)) from error
    set_epoch = header.sync_state_set_epoch if number is None else number
    master = header.master_broker_id
    if master is not None and master >= 0 and (header.master_epoch or 0) < 1:
        raise EngineUnreachable(f"the controller names broker id {master} as the master without an epoch")
    return Standing(
        None if master is None or master < 0 else master,
        header.master_epoch or 0,
        members,
        set_epoch or 0,
        header.master_address or "",
    )
