"""Headers, bodies and response codes of the requests between brokers and RocketMQ's controller.

Source: apache/rocketmq remoting/.../protocol/header/controller/*.java,
header/namesrv/BrokerHeartbeatRequestHeader.java, body/SyncStateSet.java, ResponseCode.java.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

from gantrymq.errors import FormatError
from gantrymq.plugin import loose_json
from gantrymq.plugin.headers import Header, Int32, Int64, header_of
from gantrymq.plugin.remoting import RequestCode


class ControllerCode(enum.IntEnum):
    """Response codes of a controller."""

    FENCED_MASTER_EPOCH = 2000
    FENCED_SYNC_STATE_SET_EPOCH = 2001
    INVALID_MASTER = 2002
    INVALID_REPLICAS = 2003
    MASTER_NOT_AVAILABLE = 2004
    INVALID_REQUEST = 2005
    BROKER_NOT_ALIVE = 2006
    NOT_LEADER = 2007
    BROKER_METADATA_NOT_EXIST = 2008
    INVALID_CLEAN_BROKER_METADATA = 2009
    BROKER_NEED_TO_BE_REGISTERED = 2010
    MASTER_STILL_EXIST = 2011
    ELECT_MASTER_FAILED = 2012
    ALTER_SYNC_STATE_SET_FAILED = 2013
    BROKER_ID_INVALID = 2014


@header_of(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID)
class NextIdRequest(Header):
    """Ask for an id that is not taken."""

    cluster_name: str
    broker_name: str


@header_of(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID)
class NextIdResponse(Header):
    """The id."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64


@header_of(RequestCode.CONTROLLER_APPLY_BROKER_ID)
class ApplyIdRequest(Header):
    """Take an id."""

    cluster_name: str
    broker_name: str
    applied_broker_id: Int64
    register_check_code: str  # address;millis


@header_of(RequestCode.CONTROLLER_REGISTER_BROKER)
class RegisterRequest(Header):
    """Register the address of an id."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    broker_address: str
    invoke_time: Int64


@header_of(RequestCode.CONTROLLER_GET_REPLICA_INFO)
class ReplicaInfoRequest(Header):
    """Ask for the master and the in-sync set."""

    broker_name: str


@header_of(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET)
class AlterRequest(Header):
    """Replace the in-sync set, which is in the body."""

    broker_name: str
    master_broker_id: Int64
    master_epoch: Int32
    invoke_time: Int64


@header_of(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET)
class AlterResponse(Header):
    """The number of the new set."""

    new_sync_state_set_epoch: Int32


@header_of(RequestCode.BROKER_HEARTBEAT)
class HeartbeatRequest(Header):
    """Report to a controller that a broker is alive, and the end of its log."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64
    epoch: Int32
    max_offset: Int64
    confirm_offset: Int64
    heartbeat_timeout_mills: Int64
    election_priority: Int32 = 0x7FFFFFFF


def write_set(members: Iterable[int], set_epoch: int) -> bytes:
    """Return a body with an in-sync set."""
    return b'{"syncStateSet":[%s],"syncStateSetEpoch":%d}' % (
        b",".join(b"%d" % each for each in sorted(members)),
        set_epoch,
    )


def read_set(body: bytes) -> tuple[frozenset[int], int | None]:
    """Return the set of a body, and its set epoch if the body has one.

    Raises:
        FormatError: it is no body with a set.
    """
    found = loose_json.loads(body)
    members = found.get("syncStateSet") if isinstance(found, dict) else None
    number = found.get("syncStateSetEpoch") if isinstance(found, dict) else None
    if not isinstance(members, list) or not all(type(each) is int for each in members):
        raise FormatError("the controller's answer has no syncStateSet")
    return frozenset(members), number if type(number) is int else None


def replicas_of(body: bytes, broker: str, *, in_sync: bool = False) -> list[Mapping[str, Any]]:
    """Return the brokers of a set, or its in-sync set, from an answer to 1006; none without the set."""
    found = loose_json.loads(body)
    sets = found.get("replicasInfoTable") if isinstance(found, dict) else None
    members = sets.get(broker) if isinstance(sets, dict) else None
    if not isinstance(members, dict):
        return []
    keys = ("inSyncReplicas",) if in_sync else ("inSyncReplicas", "notInSyncReplicas")
    return [each for key in keys for each in members.get(key) or () if isinstance(each, dict)]


def log_end(body: bytes) -> tuple[int, int]:
    """Return the last epoch and the end of a log, from an answer to 1007.

    Raises:
        FormatError: it is no such answer.
    """
    found = loose_json.loads(body)
    epochs, end = (found.get("epochList"), found.get("maxOffset")) if isinstance(found, dict) else (None, None)
    if not isinstance(epochs, list) or type(end) is not int:
        raise FormatError("the answer has no epochList and maxOffset")
    last = epochs[-1].get("epoch") if epochs and isinstance(epochs[-1], dict) else -1
    return last if type(last) is int else -1, end
