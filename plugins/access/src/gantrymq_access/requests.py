"""Requests about users and policies (3001 to 3010), the report of ``accessMode=report`` (65041), and
the end of a user's connections (65042).

Codes and remarks are RocketMQ's, also its odd ones: a success has the remark ``not set any response code``. A user who
is not Super gets no secrets, changes no Super user, and grants nothing that its own policies do not allow.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (createUser to listAcl),
auth/.../authentication/manager/AuthenticationMetadataManagerImpl.java,
auth/.../authorization/manager/AuthorizationMetadataManagerImpl.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from gantrymq.errors import FormatError, InvalidParameter, NoPermission, RequestNotSupported, RequestRefused
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.loose_json import dumps_standard
from gantrymq.plugin.model import Action, Principal
from gantrymq.plugin.remoting import Command, Connection, RequestCode, response_to, serves
from gantrymq_access.authorizer import AclAuthorizer, Caller
from gantrymq_access.grants import lacking
from gantrymq_access.records import (
    Acl,
    EntryResource,
    Policy,
    PolicyType,
    User,
    UserChange,
    UserStatus,
    UserType,
    check_name,
    check_user,
    member_named,
    parse_subject,
    policies_of,
    read_json,
)
from gantrymq_access.service import ACCESS_REPORT, CLOSE_CLIENTS, AccessService
from gantrymq_access.state import AccessState

AUDITED_ENTRIES: Final = 100
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_USER_BYTES: Final = 128 * 1024  # of the body of 3001 and 3002, which is parsed on the loop
_SUCCESS: Final = "not set any response code"


class AccessRequests:
    """Handlers of the requests."""

    def __init__(self, service: AccessService) -> None:
        """*service* knows the broker, while it runs."""
        self._service = service

    # --- users --------------------------------------------------------------------------------------------------------

    @serves(RequestCode.AUTH_CREATE_USER, action=Action.UPDATE)
    async def create_user(self, asked: Command, connection: Connection) -> Command:
        """3001: create a user."""
        authorizer, caller = self._parts(connection)
        name = _user_name(asked)
        check_name(name)
        wanted = UserChange.from_json(_body(asked, MAX_USER_BYTES))
        user = User(
            name,
            wanted.secret or "",
            wanted.type or UserType.NORMAL,
            wanted.status or UserStatus.ENABLE,
            certificate=wanted.certificate or "",
        )
        check_user(user)

        def create(state: AccessState) -> AccessState:
            is_super = _is_super(state, caller)
            if user.is_super and not is_super:
                raise RequestRefused(1, "The super user can only be create by super user")
            if name in state.users:
                raise NoPermission("The user is existed")
            if (left_over := state.acl(name)) is not None and not is_super:
                _check_grant(state, caller, None, left_over)
            return state.with_user(user)

        await authorizer.change(create, caller, _event(caller, "create user", name, type=user.type.value))
        return _answer(asked)

    @serves(RequestCode.AUTH_UPDATE_USER, action=Action.UPDATE)
    async def update_user(self, asked: Command, connection: Connection) -> Command:
        """3002: change the given members of a user."""
        authorizer, caller = self._parts(connection)
        name = _user_name(asked)
        wanted = UserChange.from_json(_body(asked, MAX_USER_BYTES))
        now_ms = self._clock_ms()

        def update(state: AccessState) -> AccessState:
            is_super = _is_super(state, caller)
            if wanted.type is UserType.SUPER and not is_super:
                raise RequestRefused(1, "The super user can only be update by super user")
            user = state.users.get(name)
            if user is None:
                raise NoPermission("The user is not exist")
            if not is_super:
                self._check_update(state, user, wanted, caller)
            changed = _updated(user, wanted, now_ms)
            check_user(changed)
            return _with_servers(authorizer, state, state.with_user(changed), name)

        members = ", ".join(sorted(wanted.to_json()))
        await authorizer.change(update, caller, _event(caller, "update user", name, members=members))
        return _answer(asked)

    @staticmethod
    def _check_update(state: AccessState, user: User, wanted: UserChange, caller: Principal) -> None:
        """Check what a user who is not Super may change."""
        if user.is_super:
            raise NoPermission("The super user can only be update by super user")
        takes_over = wanted.secret is not None or wanted.certificate is not None
        if takes_over and user.name != caller.name:
            entry = lacking(state.acl(caller.name), None, state.acl(user.name))
            if entry is not None:
                raise NoPermission(
                    f"User:{caller.name} cannot give User:{user.name} another secret, because it lacks what that user "
                    f"has: {entry}"
                )

    @serves(RequestCode.AUTH_DELETE_USER, action=Action.UPDATE)
    async def delete_user(self, asked: Command, connection: Connection) -> Command:
        """3003: delete a user and its policies; succeeds if there is no such user."""
        authorizer, caller = self._parts(connection)
        name = _user_name(asked)

        def delete(state: AccessState) -> AccessState:
            user = state.users.get(name)
            if user is None:
                return state
            if user.is_super and not _is_super(state, caller):
                raise NoPermission("The super user can only be delete by super user")
            return _with_servers(authorizer, state, state.without_user(name), name)

        await authorizer.change(delete, caller, _event(caller, "delete user", name))
        return _answer(asked)

    @serves(CLOSE_CLIENTS, action=Action.UPDATE)
    async def close_clients(self, asked: Command, connection: Connection) -> Command:
        """65042: close the connections of a user within a second."""
        authorizer, caller = self._parts(connection)
        name = _user_name(asked)
        user = authorizer.state.users.get(name)
        if user is None:
            raise NoPermission("The user is not exist")
        if user.is_super and not authorizer.is_super(caller):
            raise NoPermission("The connections of a super user can only be closed by super user")
        authorizer.close_clients(name)
        await authorizer.audit.changed(_event(caller, "close clients", name))
        return _answer(asked)

    @serves(RequestCode.AUTH_GET_USER, action=Action.GET)
    def get_user(self, asked: Command, connection: Connection) -> Command:
        """3004: return a user; no body if there is none."""
        authorizer, caller = self._parts(connection)
        user = authorizer.state.users.get(_user_name(asked))
        return _answer(asked, None if user is None else user.to_json(secrets=authorizer.is_super(caller)))

    @serves(RequestCode.AUTH_LIST_USER, action=Action.GET)
    async def list_users(self, asked: Command, connection: Connection) -> Command:
        """3005: return the users whose names contain a text, by name."""
        authorizer, caller = self._parts(connection)
        text, users, secrets = _field(asked, "filter"), authorizer.state.users, authorizer.is_super(caller)

        def rows() -> list[dict[str, Any]]:
            return [users[name].to_json(secrets=secrets) for name in sorted(users) if text in name]

        return await self._long(asked, rows)

    # --- policies -----------------------------------------------------------------------------------------------------

    @serves(RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL, action=Action.UPDATE)
    async def put_acl(self, asked: Command, connection: Connection) -> Command:
        """3006 and 3007: add entries, each in the place of the one with its policy type and resource."""
        authorizer, caller = self._parts(connection)
        name = parse_subject(_field(asked, "subject"))
        policies = await self._of_broker().world.workers.run(_policies, asked)

        def put(state: AccessState) -> AccessState:
            if name not in state.users:
                raise NoPermission(f"The subject of User:{name} is not exist.")
            before = state.acl(name)
            after = (before or Acl(name)).merged(policies)
            if not _is_super(state, caller):
                _check_grant(state, caller, before, after)
            return state.with_acl(after)

        await authorizer.change(put, caller, _event(caller, "put acl", name, entries=_texts(policies)))
        return _answer(asked)

    @serves(RequestCode.AUTH_DELETE_ACL, action=Action.UPDATE)
    async def delete_acl(self, asked: Command, connection: Connection) -> Command:
        """3008: delete one entry of a policy, or all policies of a user if no resource is given."""
        authorizer, caller = self._parts(connection)
        name, resource = parse_subject(_field(asked, "subject")), _field(asked, "resource")
        kind_text = _field(asked, "policyType")
        kind = member_named(PolicyType, kind_text) if kind_text else PolicyType.CUSTOM
        if kind is None:
            raise InvalidParameter(f"policyType {kind_text[:40]!r} is neither Custom nor Default")

        def delete(state: AccessState) -> AccessState:
            if name not in state.users:
                raise NoPermission("The subject is not exist.")
            before = state.acl(name)
            if before is None:
                raise NoPermission("The acl is not exist.")
            after = before.without(EntryResource.parse(resource), kind) if resource else Acl(name)
            if not _is_super(state, caller):
                _check_grant(state, caller, before, after)
            return state if after == before else state.with_acl(after)

        await authorizer.change(
            delete, caller, _event(caller, "delete acl", name, resource=resource, policy=kind.value)
        )
        return _answer(asked)

    @serves(RequestCode.AUTH_GET_ACL, action=Action.GET)
    async def get_acl(self, asked: Command, connection: Connection) -> Command:
        """3009: return the policies of a user; no body if it has none."""
        authorizer, _ = self._parts(connection)
        name = parse_subject(_field(asked, "subject"))
        if name not in authorizer.state.users:
            raise NoPermission("The subject is not exist.")
        acl = authorizer.state.acl(name)
        return await self._long(asked, lambda: None if acl is None else acl.to_json())

    @serves(RequestCode.AUTH_LIST_ACL, action=Action.GET)
    async def list_acls(self, asked: Command, connection: Connection) -> Command:
        """3010: return policies whose user and resources contain a text."""
        authorizer, _ = self._parts(connection)
        subject, resource, state = _field(asked, "subjectFilter"), _field(asked, "resourceFilter"), authorizer.state

        def rows() -> list[dict[str, Any]]:
            found = (state.deciders[name].acl for name in sorted(state.deciders))
            chosen = (each for each in found if subject in each.subject)
            shown = (each if resource in each.subject else each.only(resource) for each in chosen)
            return [each.to_json() for each in shown if each.policies]

        return await self._long(asked, rows)

    # --- report -------------------------------------------------------------------------------------------------------

    @serves(ACCESS_REPORT, action=Action.GET)
    async def access_report(self, asked: Command, connection: Connection) -> Command:
        """65041: return what would have been refused since the start."""
        authorizer, _ = self._parts(connection)
        report = {"reporting": authorizer.options.reporting, **authorizer.report.to_json()}
        body = await self._of_broker().world.workers.run(dumps_standard, report)
        return response_to(asked, 0, None, body=body)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _of_broker(self) -> Broker:
        if self._service.broker is None:
            raise RequestNotSupported("this broker is starting or stopping and does not serve users and policies")
        return self._service.broker

    def _parts(self, connection: Connection) -> tuple[AclAuthorizer, Principal]:
        """Return the authorizer and the sender of the request that is being served."""
        authorizer, caller = self._of_broker().access.authorizer, connection.principal
        if not isinstance(authorizer, AclAuthorizer):
            raise RequestNotSupported(
                "this broker has no users and policies of RocketMQ 5; set authenticationEnabled=true and "
                "authorizationEnabled=true and start it again"
            )
        if caller is None or (isinstance(caller, Caller) and caller.problem is not None):
            raise NoPermission("managing users and policies needs an account, also through this listener")
        return authorizer, caller

    def _clock_ms(self) -> int:
        return self._of_broker().world.clock.now_ms()

    async def _long(
        self, asked: Command, make: Callable[[], Mapping[str, Any] | list[dict[str, Any]] | None]
    ) -> Command:
        """Return an answer whose body is made in a thread; without a body if it is empty."""

        def body() -> bytes | None:
            found = make()
            return dumps_standard(found) if found else None

        return response_to(asked, 0, _SUCCESS, body=await self._of_broker().world.workers.run(body))


def _updated(user: User, wanted: UserChange, now_ms: int) -> User:
    """Return a user with the given members; its secret of before remains valid for as long as asked."""
    changed = attrs.evolve(user, type=wanted.type or user.type, status=wanted.status or user.status)
    if wanted.certificate is not None:
        changed = attrs.evolve(changed, certificate=wanted.certificate)
    if wanted.secret is None:
        return changed
    kept = wanted.keep_old_ms if wanted.secret != user.secret else 0
    return attrs.evolve(
        changed,
        secret=wanted.secret,
        old_secret=user.secret if kept else "",
        old_secret_until_ms=now_ms + kept if kept else 0,
    )


def _with_servers(authorizer: AclAuthorizer, before: AccessState, after: AccessState, name: str) -> AccessState:
    """Return *after*. Raises NoPermission if it lacks an enabled Super user, or the account of the broker."""

    def supers(state: AccessState) -> set[str]:
        return {user.name for user in state.users.values() if user.is_super and user.is_enabled}

    remaining = supers(after)
    lost = supers(before) - remaining
    if lost and not remaining:
        raise NoPermission(f"User:{name} is the last enabled Super user; create another one first")
    if authorizer.inner_name in lost:
        raise NoPermission(
            f"User:{name} is the account of this broker; set another one in its "
            "innerClientAuthenticationCredentials first"
        )
    return after


def _is_super(state: AccessState, caller: Principal) -> bool:
    """Return whether a caller is a Super user now; other changes may have been made since its request arrived."""
    user = state.users.get(caller.name)
    return user is not None and user.is_super


def _check_grant(state: AccessState, caller: Principal, before: Acl | None, after: Acl) -> None:
    entry = lacking(state.acl(caller.name), before, after)
    if entry is not None:
        raise NoPermission(
            f"User:{caller.name} is not a Super user and cannot grant what it lacks itself: {entry.resource} "
            f"{','.join(each.value for each in entry.actions)}"
        )


def _field(asked: Command, name: str) -> str:
    return (asked.ext or {}).get(name, "")


def _user_name(asked: Command) -> str:
    name = _field(asked, "username")
    if not name.strip():
        raise InvalidParameter("The username is blank")
    return name


def _body(asked: Command, most: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """Return the body, empty without one. Raises RequestRefused: code 1."""
    data = asked.payload
    if not data:
        return {}
    if len(data) > most:
        raise RequestRefused(1, f"the body has {len(data)} bytes, the longest allowed has {most}")
    try:
        found = read_json(bytes(data))
    except FormatError as error:
        raise RequestRefused(1, f"the body is not a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise RequestRefused(1, "the body is not a JSON object")
    return found


def _answer(asked: Command, body: Mapping[str, Any] | None = None) -> Command:
    return response_to(asked, 0, _SUCCESS, body=None if body is None else dumps_standard(body))


def _event(caller: Principal, what: str, subject: str, **more: Any) -> dict[str, Any]:
    return {
        "what": what,
        "subject": subject,
        **more,
        "user": caller.name,
        "source": caller.source,
        "listener": caller.listener if isinstance(caller, Caller) else "",
        "request": caller.request,
    }


def _policies(asked: Command) -> tuple[Policy, ...]:
    return policies_of(_body(asked))


def _texts(policies: Iterable[Policy]) -> list[str]:
    """Return entries for the audit log."""
    found = [f"{policy.type.value} {entry}" for policy in policies for entry in policy.entries]
    return found if len(found) <= AUDITED_ENTRIES else [*found[:AUDITED_ENTRIES], f"and {len(found)} in total"]
