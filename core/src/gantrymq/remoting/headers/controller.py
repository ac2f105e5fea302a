"""Headers of requests to RocketMQ's controllers that operators and brokers send.

Source: apache/rocketmq remoting/.../protocol/header/controller/GetMetaDataResponseHeader.java,
ElectMasterRequestHeader.java, ElectMasterResponseHeader.java, admin/CleanControllerBrokerDataRequestHeader.java,
header/NotifyBrokerRoleChangedRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header, Int32, Int64, header_of


@header_of(RequestCode.CONTROLLER_GET_METADATA_INFO)
class GetMetaDataResponse(Header):
    """Which controller leads."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None  # n0:host:port;n1:host:port, with jRaft host:port;host:port


@header_of(RequestCode.CONTROLLER_ELECT_MASTER)
class ElectMasterRequest(Header):
    """Elect a master; with *designate_elect* the one with this id."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    designate_elect: bool = False
    invoke_time: Int64


@header_of(
    RequestCode.CONTROLLER_REGISTER_BROKER,
    RequestCode.CONTROLLER_ELECT_MASTER,
    RequestCode.CONTROLLER_GET_REPLICA_INFO,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
)
class MasterHeader(Header):
    """The master of a set, in responses and in the notification of a change."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


@header_of(RequestCode.CLEAN_BROKER_DATA)
class CleanBrokerDataRequest(Header):
    """Forget brokers of a set."""

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None  # 1;2
    is_clean_living_broker: bool = False
    invoke_time: Int64
