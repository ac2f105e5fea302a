"""RocketMQ's controllers, which elect the masters of sets of brokers: leader, sets, elections, settings.

Each call goes to one controller, host:port. All but the first and the settings are answered by the leader only
(code 2007 from others).

Sources: apache/rocketmq client/.../impl/MQClientAPIImpl.java (getControllerMetaData, getInSyncStateData, electMaster,
cleanControllerBrokerData), remoting/.../protocol/body/BrokerReplicasInfo.java.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import attrs

from gantrymq.client.admin.configuration import ConfigurationCalls, properties_body
from gantrymq.client.admin.errors import parsing
from gantrymq.client.argument_types import check_kind
from gantrymq.client.calls.rpc import reply_header
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.controller import (
    CleanBrokerDataRequest,
    ElectMasterRequest,
    GetMetaDataResponse,
    MasterHeader,
)


@attrs.frozen
class ControllerMetadata:
    """The controllers of a group, as one of them knows them."""

    group: str
    leader_id: str | None  # None: none leads
    leader: str | None  # host:port
    leads: bool  # whether it is the one that answers
    peers: tuple[str, ...]  # n0:host:port each, with jRaft host:port


@attrs.frozen
class SetMember:
    """A broker of a set."""

    broker_id: int
    address: str
    alive: bool  # whether its heartbeats reach the controller


@attrs.frozen(kw_only=True)
class BrokerSet:
    """The brokers of one name, as the leading controller has them."""

    broker: str
    master: int | None  # id; None: there is none
    master_address: str | None
    epoch: int
    in_sync_epoch: int  # number of the in-sync set
    in_sync: tuple[SetMember, ...]
    others: tuple[SetMember, ...]

    @property
    def members(self) -> tuple[SetMember, ...]:
        """All, by id."""
        return tuple(sorted((*self.in_sync, *self.others), key=lambda each: each.broker_id))


@attrs.frozen
class ElectedMaster:
    """The result of an election."""

    broker_id: int | None
    address: str | None
    epoch: int | None


class ControllerCalls(ConfigurationCalls):
    """Part of `Admin`. Calls raise BrokerRefused with the controller's code, or ConnectFailed, ConnectionLost or
    CallTimeout without a response.
    """

    async def controller_metadata(self, address: str) -> ControllerMetadata:
        """Return which controller leads; any of them answers."""
        reply = await self.request(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
        found = reply_header(GetMetaDataResponse, reply, f"the metadata of {address}")
        return ControllerMetadata(
            found.group or "",
            found.controller_leader_id,
            found.controller_leader_address,
            found.is_leader,
            tuple(filter(None, (found.peers or "").split(";"))),
        )

    async def broker_sets(self, address: str, brokers: Collection[str]) -> dict[str, BrokerSet]:
        """Return the sets of these broker names, by name; a name that the controller does not know is missing."""
        check_kind("brokers", brokers, Collection)
        body = json.dumps([str(each) for each in brokers]).encode()
        found = await self.request_json(address, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, None, body, what="sets")
        with parsing(f"the sets of {address}"):
            return {str(name): _set(str(name), each) for name, each in (found.get("replicasInfoTable") or {}).items()}

    async def elect_master(self, address: str, cluster: str, broker: str, broker_id: int) -> ElectedMaster:
        """Elect a living member of the in-sync set of *broker* as the master at once.

        Raises:
            BrokerRefused: code 2011, it is the master already; 2012, it is not such a member; 2010, it is unknown.
        """
        header = ElectMasterRequest(
            cluster_name=cluster,
            broker_name=broker,
            broker_id=broker_id,
            designate_elect=True,
            invoke_time=self._started().world.clock.now_ms(),
        )
        reply = await self.request(address, RequestCode.CONTROLLER_ELECT_MASTER, header)
        found = reply_header(MasterHeader, reply, f"the election of {broker}")
        return ElectedMaster(found.master_broker_id, found.master_address, found.master_epoch)

    async def clean_broker_metadata(
        self, address: str, cluster: str, broker: str, ids: Collection[int] = (), *, living: bool = False
    ) -> None:
        """Let the controllers forget brokers of a set.

        Args:
            address: of the leading controller.
            cluster: of the set.
            broker: broker name of the set.
            ids: of the brokers; empty: the whole set.
            living: also if they are alive.

        Raises:
            BrokerRefused: code 2009, one of them is alive, or the set is unknown.
        """
        check_kind("ids", ids, Collection)
        header = CleanBrokerDataRequest(
            cluster_name=cluster,
            broker_name=broker,
            broker_controller_ids_to_clean=";".join(map(str, ids)) or None,
            is_clean_living_broker=living,
            invoke_time=self._started().world.clock.now_ms(),
        )
        await self.request(address, RequestCode.CLEAN_BROKER_DATA, header)

    async def controller_settings(self, address: str) -> dict[str, str]:
        """Return all settings of one controller as text, sorted by key."""
        return await self._settings(address, RequestCode.GET_CONTROLLER_CONFIG)

    async def change_controller_settings(self, address: str, settings: Mapping[str, str]) -> None:
        """Change settings of one running controller, which writes them to its file; others keep theirs."""
        await self.request(address, RequestCode.UPDATE_CONTROLLER_CONFIG, body=properties_body(settings))


def _set(name: str, members: Mapping[str, Any]) -> BrokerSet:
    master = members.get("masterBrokerId")
    return BrokerSet(
        broker=name,
        master=None if master is None else int(master),
        master_address=members.get("masterAddress"),
        epoch=int(members["masterEpoch"]),
        in_sync_epoch=int(members.get("syncStateSetEpoch") or 0),
        in_sync=tuple(map(_member, members.get("inSyncReplicas") or ())),
        others=tuple(map(_member, members.get("notInSyncReplicas") or ())),
    )


def _member(members: Mapping[str, Any]) -> SetMember:
    return SetMember(int(members["brokerId"]), str(members["brokerAddress"]), bool(members["alive"]))
