"""Headers of broker configuration, runtime, maintenance, users and access control.

Source: apache/rocketmq remoting/.../protocol/header/GetBrokerConfigResponseHeader.java,
ViewBrokerStatsDataRequestHeader.java, CheckRocksdbCqWriteProgressRequestHeader.java,
ExportRocksDBConfigToJsonRequestHeader.java, {Create,Update,Delete,Get,List}{User,Acl}RequestHeader.java.
"""

from __future__ import annotations

import attrs

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header, Int64, RequestHeader, named, request_header, response_header

__all__ = [
    "AuthAclRequest",
    "AuthDeleteAclRequest",
    "AuthListAclRequest",
    "AuthListUserRequest",
    "AuthUserRequest",
    "CheckRocksdbCqWriteProgressRequest",
    "CleanRequest",
    "ExportRocksdbConfigToJsonRequest",
    "GetBrokerConfigResponse",
    "SetCommitlogReadModeRequest",
    "ViewBrokerStatsDataRequest",
]


@request_header()
class CleanRequest(RequestHeader):
    """Clean up: 306, 316, 329. RocketMQ's requests have no fields; this one is GantryMQ's own."""

    report: bool | None = None  # the answer's remark says what was done; without it there is none, as in RocketMQ


@response_header(RequestCode.GET_BROKER_CONFIG)
class GetBrokerConfigResponse(Header):
    """The version of the settings in the body."""

    version: str  # DataVersion as JSON text


@request_header(RequestCode.VIEW_BROKER_STATS_DATA)
class ViewBrokerStatsDataRequest(RequestHeader):
    """One counter."""

    stats_name: str
    stats_key: str


@request_header(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS)
class CheckRocksdbCqWriteProgressRequest(RequestHeader):
    """Compare RocksDB queues with files."""

    topic: str
    check_store_time: Int64 = 0


@request_header(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON)
class ExportRocksdbConfigToJsonRequest(RequestHeader):
    """Write RocksDB settings as files."""

    config_type: str


@request_header(RequestCode.SET_COMMITLOG_READ_MODE)
class SetCommitlogReadModeRequest(RequestHeader):
    """How the log is read ahead."""

    read_ahead_mode: str | None = attrs.field(default=None, metadata=named("READ_AHEAD_MODE"))


@request_header(
    RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER, RequestCode.AUTH_GET_USER
)
class AuthUserRequest(RequestHeader):
    """One user."""

    username: str | None = None


@request_header(RequestCode.AUTH_LIST_USER)
class AuthListUserRequest(RequestHeader):
    """Users whose name contains the filter."""

    filter: str | None = None


@request_header(RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL, RequestCode.AUTH_GET_ACL)
class AuthAclRequest(RequestHeader):
    """Rules of one subject."""

    subject: str | None = None  # User:name


@request_header(RequestCode.AUTH_DELETE_ACL)
class AuthDeleteAclRequest(RequestHeader):
    """Rules to delete."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


@request_header(RequestCode.AUTH_LIST_ACL)
class AuthListAclRequest(RequestHeader):
    """Rules by subject and resource."""

    subject_filter: str | None = None
    resource_filter: str | None = None
