"""Requests of brokers: register, unregister, heartbeat, data version query, member group.

A registration with thousands of topics is parsed in a worker, to keep the event loop responsive. Later registrations
and unregistrations of the same broker wait for it, so that the last request wins.

Source: apache/rocketmq namesrv/.../processor/DefaultRequestProcessor.java (registerBroker, unregisterBroker,
brokerHeartbeat, queryBrokerTopicConfig, getBrokerMemberGroup).
"""

from __future__ import annotations

import asyncio
from typing import Final

from gantrymq.errors import FormatError, RequestError
from gantrymq.plugin.headers import RegisterBrokerRequest, UnregisterBrokerRequest
from gantrymq.plugin.loose_json import dumps
from gantrymq.plugin.model import Action, DataVersion
from gantrymq.plugin.network import addresses_of_text
from gantrymq.plugin.remoting import Command, RequestCode, response_to, serves
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import World, monotonic_ms
from gantrymq_nameserver.handlers import Answer, in_cluster, read_object
from gantrymq_nameserver.headers import (
    BrokerHeartbeatRequest,
    GetBrokerMemberGroupRequest,
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerResponse,
)
from gantrymq_nameserver.kv import ORDER_TOPIC_CONFIG, KvConfig
from gantrymq_nameserver.membership import Membership
from gantrymq_nameserver.registration import Registration, RegistrationBody
from gantrymq_nameserver.registration_body import read_registration_body
from gantrymq_nameserver.tables import BrokerAddress, RouteTables
from gantrymq_nameserver.topics import member_group
from gantrymq_nameserver.unregistration import Unregistration

_MOST_BYTES_ON_LOOP: Final = 65_536  # largest body parsed on the event loop: some 400 topics, 2 ms

RegistrationTurn = tuple[BrokerAddress, "asyncio.Future[None] | None", "asyncio.Future[None]"]
"""The broker, the future to wait for before, and the future that is done after."""


class BrokerRequests:
    """Handlers of brokers' requests."""

    def __init__(
        self, tables: RouteTables, membership: Membership, kv: KvConfig, settings: Settings, world: World
    ) -> None:
        self._tables = tables
        self._membership = membership
        self._kv = kv
        self._settings = settings
        self._clock = world.clock
        self._workers = world.workers
        self._reading: dict[BrokerAddress, asyncio.Future[None]] = {}  # done after the last queued registration

    @serves(RequestCode.REGISTER_BROKER, access=in_cluster(field="clusterName"))
    def _register(self, request: Command, connection: object) -> Answer:
        header = RegisterBrokerRequest.from_ext(request.ext)
        key = BrokerAddress(header.cluster_name, header.broker_addr)
        if len(request.payload) > _MOST_BYTES_ON_LOOP or key in self._reading:
            before, done = self._reading.get(key), asyncio.get_running_loop().create_future()
            self._reading[key] = done  # set before other requests of the same read are handled
            return self._register_later(request, header, connection, (key, before, done))
        return self._registered(request, header, connection, _body_of(request, header))

    async def _register_later(
        self, request: Command, header: RegisterBrokerRequest, connection: object, turn: RegistrationTurn
    ) -> Command:
        """Parse the body in a worker; registrations of one broker are processed one after the other."""
        key, before, done = turn
        try:
            if before is not None:
                await before
            body = await self._workers.run(_body_of, request, header)
            if getattr(connection, "closed", False):  # it would never be unregistered
                raise RequestError(f"broker {header.broker_addr} closed its connection while it registered")
            return self._registered(request, header, connection, body)
        finally:
            if not done.done():
                done.set_result(None)
            if self._reading[key] is done:
                del self._reading[key]

    def _registered(
        self, request: Command, header: RegisterBrokerRequest, connection: object, body: RegistrationBody
    ) -> Command:
        answer = self._membership.register(
            Registration(
                cluster=header.cluster_name,
                broker_name=header.broker_name,
                address=header.broker_addr,
                broker_id=header.broker_id,
                ha_address=header.ha_server_addr,
                zone=header.zone_name,
                timeout_ms=header.heartbeat_timeout_millis,
                listeners=_listeners_of(header),
                acting_master=header.enable_acting_master,
                connection=connection,
                body=body,
            )
        )
        fields = RegisterBrokerResponse(ha_server_addr=answer.ha_address, master_addr=answer.master_address)
        return response_to(request, ext=fields.to_ext(), body=self._order_config())

    def _order_config(self) -> bytes | None:
        if not self._settings.flag("returnOrderTopicConfigToBroker"):
            return None
        table = self._kv.namespace(ORDER_TOPIC_CONFIG)
        return None if table is None else dumps({"table": table})

    @serves(RequestCode.UNREGISTER_BROKER, access=in_cluster(field="clusterName"))
    def _unregister(self, request: Command, connection: object) -> Answer:
        header = UnregisterBrokerRequest.from_ext(request.ext)
        reading = self._reading.get(BrokerAddress(header.cluster_name, header.broker_addr))
        return (
            self._unregistered(request, header) if reading is None else self._unregister_after(reading, request, header)
        )

    async def _unregister_after(
        self, reading: asyncio.Future[None], request: Command, header: UnregisterBrokerRequest
    ) -> Command:
        await reading
        return self._unregistered(request, header)

    def _unregistered(self, request: Command, header: UnregisterBrokerRequest) -> Command:
        self._membership.submit(
            Unregistration(header.cluster_name, header.broker_name, header.broker_addr, header.broker_id)
        )
        return response_to(request)

    @serves(RequestCode.QUERY_DATA_VERSION, access=in_cluster(field="clusterName"))
    def _query_data_version(self, request: Command, connection: object) -> Command:
        header = QueryDataVersionRequest.from_ext(request.ext)
        key = BrokerAddress(header.cluster_name, header.broker_addr)
        version = _data_version(request)
        changed = version is None or self._tables.version_differs(key, version)
        self._tables.refresh(key, monotonic_ms(self._clock))
        live = self._tables.live.get(key)
        body = None if live is None else dumps(live.version.to_json())
        return response_to(request, ext=QueryDataVersionResponse(changed=changed).to_ext(), body=body)

    @serves(RequestCode.GET_BROKER_MEMBER_GROUP, access=in_cluster(Action.GET, "clusterName"))
    def _member_group(self, request: Command, connection: object) -> Command:
        header = GetBrokerMemberGroupRequest.from_ext(request.ext)
        return response_to(request, body=dumps(member_group(self._tables, header.cluster_name, header.broker_name)))

    @serves(RequestCode.BROKER_HEARTBEAT, access=in_cluster(field="clusterName"))
    def _heartbeat(self, request: Command, connection: object) -> Command:
        header = BrokerHeartbeatRequest.from_ext(request.ext)
        self._tables.refresh(BrokerAddress(header.cluster_name, header.broker_addr), monotonic_ms(self._clock))
        return response_to(request)


def _body_of(request: Command, header: RegisterBrokerRequest) -> RegistrationBody:
    return read_registration_body(
        request.payload, crc32=header.body_crc32, compressed=header.compressed, version=request.version
    )


def _listeners_of(header: RegisterBrokerRequest) -> dict[str, str]:
    """Return the addresses of the broker's other listeners by name; only GantryMQ's brokers send them."""
    try:
        return addresses_of_text(header.listener_addrs or "")
    except ValueError as error:
        raise RequestError(f"listenerAddrs={header.listener_addrs}: {error}") from error


def _data_version(request: Command) -> DataVersion | None:
    if not request.payload:
        return None
    try:
        return DataVersion.from_json(read_object(request, "data version"))
    except FormatError as error:
        raise RequestError(f"the body is not a data version: {error}") from error
