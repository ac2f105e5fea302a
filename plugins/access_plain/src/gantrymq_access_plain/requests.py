"""Requests 50 to 54, with which RocketMQ's tools read and change plain_acl.yml. Only an admin may send them.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (updateAndCreateAccessConfig, deleteAccessConfig,
updateGlobalWhiteAddrsConfig, getBrokerAclConfigVersion, getBrokerClusterAclConfig), 4.9.7.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import FormatError, InvalidParameter, RequestNotSupported, RequestRefused, StoreError
from gantrymq.plugin import loose_json
from gantrymq.plugin.headers import RequestHeader, header_of
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.model import Action
from gantrymq.plugin.remoting import Command, Connection, RequestCode, request_name, response_to, serves
from gantrymq_access_plain.accounts import RuleFile, Rules, shown_key
from gantrymq_access_plain.authorizer import AclRefused, PlainAuthorizer
from gantrymq_access_plain.rule_files import AccountChange, holder, put_account, put_white_addresses, remove_account
from gantrymq_access_plain.service import PlainService
from gantrymq_access_plain.settings import ENABLE

log = logging.getLogger(__name__)

ACCOUNT_NOT_CHANGED: Final = 209
ACCOUNT_NOT_DELETED: Final = 210
ADDRESSES_NOT_CHANGED: Final = 211


@header_of(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG)
class ChangeAccountRequest(RequestHeader):
    """Create or change an account; missing fields stay as they are, but ``admin`` is false then."""

    access_key: str | None = None
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None  # separated by commas
    group_perms: str | None = None


@header_of(RequestCode.DELETE_ACL_CONFIG)
class DeleteAccountRequest(RequestHeader):
    """Delete an account."""

    access_key: str | None = None


@header_of(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG)
class ChangeWhiteAddressesRequest(RequestHeader):
    """Replace the global white list of a file."""

    global_white_addrs: str | None = None  # separated by commas
    acl_file_full_path: str | None = None  # empty: the main file


class PlainRequests:
    """Handlers of the requests."""

    def __init__(self, service: PlainService) -> None:
        """*service* knows the broker, while it runs."""
        self._service = service

    @serves(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, action=Action.UPDATE)
    async def change_account(self, asked: Command, connection: Connection) -> Command:
        """50: create or change an account, in the file that has it or in the main file."""
        header = ChangeAccountRequest.from_ext(asked.ext)
        change = AccountChange(
            header.access_key or "",
            header.secret_key,
            header.white_remote_address,
            header.admin,
            header.default_topic_perm,
            header.default_group_perm,
            _list(header.topic_perms),
            _list(header.group_perms),
        )
        authorizer = self._authorizer(asked, connection)
        found = holder(authorizer.rules, change.access_key)
        path = authorizer.files.main if found is None else Path(found.where)
        await self._change(asked, connection, path, lambda members: put_account(members, change), ACCOUNT_NOT_CHANGED)
        return response_to(asked, 0)

    @serves(RequestCode.DELETE_ACL_CONFIG, action=Action.UPDATE)
    async def delete_account(self, asked: Command, connection: Connection) -> Command:
        """51: delete an account. Code 210 if there is none."""
        access_key = DeleteAccountRequest.from_ext(asked.ext).access_key or ""
        found = holder(self._authorizer(asked, connection).rules, access_key)
        if found is None:
            raise RequestRefused(ACCOUNT_NOT_DELETED, f"there is no account {shown_key(access_key)} in plain_acl.yml")
        path = Path(found.where)
        await self._change(
            asked, connection, path, lambda members: remove_account(members, access_key), ACCOUNT_NOT_DELETED
        )
        return response_to(asked, 0)

    @serves(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, action=Action.UPDATE)
    async def change_white_addresses(self, asked: Command, connection: Connection) -> Command:
        """53: replace the global white list of one file. Code 211 if it is none of the files in force."""
        header = ChangeWhiteAddressesRequest.from_ext(asked.ext)
        authorizer = self._authorizer(asked, connection)
        patterns = [each for each in (_list(header.global_white_addrs) or []) if each]
        path = authorizer.files.main
        if header.acl_file_full_path:
            known = [each.where for each in authorizer.rules.files]
            path = Path(header.acl_file_full_path)
            if str(path) not in known:
                raise RequestRefused(
                    ADDRESSES_NOT_CHANGED, f"aclFileFullPath is none of the files in force: {', '.join(known)}"
                )
        await self._change(
            asked, connection, path, lambda members: put_white_addresses(members, patterns), ADDRESSES_NOT_CHANGED
        )
        return response_to(asked, 0)

    @serves(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, action=Action.GET)
    def version(self, asked: Command, connection: Connection) -> Command:
        """52: return the data version of each file."""
        authorizer = self._authorizer(asked, connection)
        broker = self._running(asked)
        files = authorizer.rules.files
        main = next((each for each in files if each.where == str(authorizer.files.main)), files[0])
        versions = {each.where: _version(each, authorizer) for each in files}
        ext = {
            "allAclFileVersion": json.dumps(versions, separators=(",", ":")),
            "brokerAddr": broker.registration.address,
            "brokerName": broker.registration.broker_name,
            "clusterName": broker.registration.cluster,
            "version": json.dumps(versions[main.where], separators=(",", ":")),
        }
        return response_to(asked, 0, None, ext)

    @serves(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, action=Action.GET)
    async def accounts(self, asked: Command, connection: Connection) -> Command:
        """54: return all accounts with their secrets, and the global white list."""
        rules = self._authorizer(asked, connection).rules
        return response_to(asked, 0, None, {}, await self._running(asked).world.workers.run(_accounts_body, rules))

    async def _change(
        self, asked: Command, connection: Connection, path: Path, edit: Callable[[dict[str, Any]], None], code: int
    ) -> None:
        authorizer, principal = self._authorizer(asked, connection), connection.principal
        assert principal is not None, "_authorizer refuses others"
        try:
            await authorizer.change(path, edit, principal)
        except (FormatError, InvalidParameter, StoreError) as error:
            what = str(error) if isinstance(error, InvalidParameter) else f"nothing is changed: {error}"
            raise RequestRefused(code, what) from error
        log.warning("%s by %s from %s changed %s", request_name(asked.code), principal.name, connection.address, path)

    def _running(self, asked: Command) -> Broker:
        if self._service.broker is None:
            raise RequestRefused(1, f"{request_name(asked.code)}: the broker is stopping")
        return self._service.broker

    def _authorizer(self, asked: Command, connection: Connection) -> PlainAuthorizer:
        found = self._running(asked).access.authorizer
        if not isinstance(found, PlainAuthorizer):
            name = f"request {asked.code} {request_name(asked.code)}"
            raise RequestNotSupported(f"{name}: this broker does not use plain_acl.yml ({ENABLE}=true)")
        if connection.principal is None:
            raise AclRefused("accounts are managed with an account, also through this listener")
        return found


def _accounts_body(rules: Rules) -> bytes:
    """Return the body of the answer to 54; takes long for thousands of accounts."""
    body = {
        "globalWhiteAddrs": [pattern.text for each in rules.files for pattern in each.white_patterns],
        "plainAccessConfigs": [account.to_json() for account in rules.accounts.values()],
    }
    return loose_json.dumps(body, sort=True)


def _list(text: str | None) -> list[str] | None:
    return None if text is None else [each.strip() for each in text.split(",") if each.strip()]


def _version(file: RuleFile, authorizer: PlainAuthorizer) -> dict[str, int]:
    return {"counter": file.counter, "timestamp": file.timestamp or authorizer.loaded_ms}
