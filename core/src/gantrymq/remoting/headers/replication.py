"""Headers between brokers, containers and controllers.

Source: apache/rocketmq remoting/.../protocol/header/ExchangeHAInfo*.java, ResetMasterFlushOffsetHeader.java,
{Add,Remove}BrokerRequestHeader.java, NotifyBrokerRoleChangedRequestHeader.java, header/controller/**.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import (
    RESPONSE_HEADERS,
    Header,
    Int32,
    Int64,
    RequestHeader,
    request_header,
    response_header,
)

__all__ = [
    "AddBrokerRequest",
    "AlterSyncStateSetRequest",
    "AlterSyncStateSetResponse",
    "ApplyBrokerIdRequest",
    "CleanBrokerDataRequest",
    "ElectMasterRequest",
    "ElectMasterResponse",
    "ExchangeBrokerHaInfoHeader",
    "GetMetadataInfoResponse",
    "GetNextBrokerIdRequest",
    "GetNextBrokerIdResponse",
    "GetReplicaInfoRequest",
    "GetReplicaInfoResponse",
    "NotifyBrokerRoleChangedRequest",
    "RegisterBrokerToControllerRequest",
    "RegisterBrokerToControllerResponse",
    "RemoveBrokerRequest",
    "ResetMasterFlushOffsetRequest",
]


@request_header(RequestCode.EXCHANGE_BROKER_HA_INFO)
class ExchangeBrokerHaInfoHeader(Header):
    """The same fields both ways."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


RESPONSE_HEADERS[RequestCode.EXCHANGE_BROKER_HA_INFO] = ExchangeBrokerHaInfoHeader


@request_header(RequestCode.RESET_MASTER_FLUSH_OFFSET)
class ResetMasterFlushOffsetRequest(RequestHeader):
    """How far the master has flushed."""

    master_flush_offset: Int64


@request_header(RequestCode.ADD_BROKER)
class AddBrokerRequest(RequestHeader):
    """Start a broker in a container."""

    config_path: str | None = None


@request_header(RequestCode.REMOVE_BROKER)
class RemoveBrokerRequest(RequestHeader):
    """Stop a broker in a container."""

    broker_name: str
    broker_cluster_name: str
    broker_id: Int64


@request_header(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET)
class AlterSyncStateSetRequest(RequestHeader):
    """The replicas that are in sync (body) changed."""

    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    invoke_time: Int64 | None = None


@response_header(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET)
class AlterSyncStateSetResponse(Header):
    """Epoch of the new set."""

    new_sync_state_set_epoch: Int32


@request_header(RequestCode.CONTROLLER_ELECT_MASTER)
class ElectMasterRequest(RequestHeader):
    """Choose a master."""

    cluster_name: str
    broker_name: str
    broker_id: Int64 = -1
    designate_elect: bool = False
    invoke_time: Int64 | None = None


@response_header(RequestCode.CONTROLLER_ELECT_MASTER)
class ElectMasterResponse(Header):
    """The master."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


@request_header(RequestCode.CONTROLLER_REGISTER_BROKER)
class RegisterBrokerToControllerRequest(RequestHeader):
    """A broker with its id."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str | None = None
    invoke_time: Int64 | None = None


@response_header(RequestCode.CONTROLLER_REGISTER_BROKER)
class RegisterBrokerToControllerResponse(Header):
    """The current master."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


@request_header(RequestCode.CONTROLLER_GET_REPLICA_INFO)
class GetReplicaInfoRequest(RequestHeader):
    """Who is master?"""

    broker_name: str | None = None


@response_header(RequestCode.CONTROLLER_GET_REPLICA_INFO)
class GetReplicaInfoResponse(Header):
    """The master."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


@response_header(RequestCode.CONTROLLER_GET_METADATA_INFO)
class GetMetadataInfoResponse(Header):
    """The controllers."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool | None = None
    peers: str | None = None


@request_header(RequestCode.NOTIFY_BROKER_ROLE_CHANGED)
class NotifyBrokerRoleChangedRequest(RequestHeader):
    """Controller to broker: the master changed."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


@request_header(RequestCode.CLEAN_BROKER_DATA)
class CleanBrokerDataRequest(RequestHeader):
    """Forget brokers."""

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None


@request_header(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID)
class GetNextBrokerIdRequest(RequestHeader):
    """A free broker id."""

    cluster_name: str | None = None
    broker_name: str | None = None


@response_header(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID)
class GetNextBrokerIdResponse(Header):
    """The id."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


@request_header(RequestCode.CONTROLLER_APPLY_BROKER_ID)
class ApplyBrokerIdRequest(RequestHeader):
    """Take a broker id."""

    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: Int64 | None = None
    register_check_code: str | None = None
