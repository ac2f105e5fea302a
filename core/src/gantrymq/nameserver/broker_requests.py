"""Requests of brokers: register, unregister, stay alive, compare versions, look up their own group.

Source: apache/rocketmq namesrv/.../processor/DefaultRequestProcessor.java (registerBroker, unregisterBroker,
brokerHeartbeat, queryBrokerTopicConfig, getBrokerMemberGroup).
"""

from __future__ import annotations

from gantrymq.config import Settings
from gantrymq.errors import RequestError
from gantrymq.loose_json import dumps
from gantrymq.model.data_version import DataVersion
from gantrymq.nameserver.handlers import Handlers, read_object
from gantrymq.nameserver.kv import ORDER_TOPIC_CONFIG, KvConfig
from gantrymq.nameserver.membership import Membership
from gantrymq.nameserver.registration import Registration
from gantrymq.nameserver.registration_body import read_registration_body
from gantrymq.nameserver.tables import BrokerAddress, RouteTables
from gantrymq.nameserver.topics import member_group
from gantrymq.nameserver.unregistration import Unregistration
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.headers.nameserver import (
    BrokerHeartbeatRequest,
    GetBrokerMemberGroupRequest,
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
)
from gantrymq.world import Clock


class BrokerRequests:
    """Handlers for what brokers ask."""

    def __init__(
        self, tables: RouteTables, membership: Membership, kv: KvConfig, settings: Settings, clock: Clock
    ) -> None:
        self._tables = tables
        self._membership = membership
        self._kv = kv
        self._settings = settings
        self._clock = clock

    def handlers(self) -> Handlers:
        """Request code to handler."""
        return {
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.QUERY_DATA_VERSION: self._query_data_version,
            RequestCode.GET_BROKER_MEMBER_GROUP: self._member_group,
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
        }

    def _register(self, request: Command, connection: object) -> Command:
        header = RegisterBrokerRequest.from_ext(request.ext)
        body = read_registration_body(
            request.payload, crc32=header.body_crc32, compressed=header.compressed, version=request.version
        )
        answer = self._membership.register(
            Registration(
                cluster=header.cluster_name,
                broker_name=header.broker_name,
                address=header.broker_addr,
                broker_id=header.broker_id,
                ha_address=header.ha_server_addr,
                zone=header.zone_name,
                timeout_ms=header.heartbeat_timeout_millis,
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

    def _unregister(self, request: Command, connection: object) -> Command:
        header = UnregisterBrokerRequest.from_ext(request.ext)
        self._membership.submit(
            Unregistration(header.cluster_name, header.broker_name, header.broker_addr, header.broker_id)
        )
        return response_to(request)

    def _query_data_version(self, request: Command, connection: object) -> Command:
        header = QueryDataVersionRequest.from_ext(request.ext)
        key = BrokerAddress(header.cluster_name, header.broker_addr)
        asked = _data_version(request)
        changed = asked is None or self._tables.version_differs(key, asked)
        self._tables.refresh(key, self._clock.now_ms())
        live = self._tables.live.get(key)
        body = None if live is None else dumps(live.version.to_json())
        return response_to(request, ext=QueryDataVersionResponse(changed=changed).to_ext(), body=body)

    def _member_group(self, request: Command, connection: object) -> Command:
        header = GetBrokerMemberGroupRequest.from_ext(request.ext)
        return response_to(request, body=dumps(member_group(self._tables, header.cluster_name, header.broker_name)))

    def _heartbeat(self, request: Command, connection: object) -> Command:
        header = BrokerHeartbeatRequest.from_ext(request.ext)
        self._tables.refresh(BrokerAddress(header.cluster_name, header.broker_addr), self._clock.now_ms())
        return response_to(request)


def _data_version(request: Command) -> DataVersion | None:
    if not request.payload:
        return None
    try:
        return DataVersion.from_json(read_object(request, "data version"))
    except (TypeError, ValueError, OverflowError) as error:
        raise RequestError(f"the body is no data version: {error}") from error
