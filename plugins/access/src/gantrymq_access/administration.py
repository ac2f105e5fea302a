"""Users and policies at brokers, by requests 3001 to 3010: those of this plugin, and RocketMQ's from 5.3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from gantrymq.client import Admin
from gantrymq.client.admin import AnswerUnreadable
from gantrymq.errors import FormatError, GantryError
from gantrymq.plugin import loose_json
from gantrymq.plugin.headers import RequestHeader, header_of
from gantrymq.plugin.remoting import Command, RequestCode
from gantrymq_access.records import (
    Acl,
    EntryResource,
    Policy,
    PolicyType,
    User,
    UserChange,
    read_json,
)

_OWN_SETTING: Final = "authorizer"  # of our brokers only
_NO_SUBJECT: Final = "subject is not exist"  # RocketMQ's words, code 16; a missing permission has the same code

Record = TypeVar("Record")


@header_of(
    RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER, RequestCode.AUTH_GET_USER
)
class UserRequest(RequestHeader):
    """A request about one user."""

    username: str


@header_of(RequestCode.AUTH_LIST_USER)
class ListUserRequest(RequestHeader):
    """A request for users."""

    filter: str | None = None


@header_of(
    RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL, RequestCode.AUTH_DELETE_ACL, RequestCode.AUTH_GET_ACL
)
class AclRequest(RequestHeader):
    """A request about the policies of one user."""

    subject: str
    policy_type: str | None = None  # of the entry to delete
    resource: str | None = None  # of the entry to delete


@header_of(RequestCode.AUTH_LIST_ACL)
class ListAclRequest(RequestHeader):
    """A request for policies."""

    subject_filter: str | None = None
    resource_filter: str | None = None


# --- users ------------------------------------------------------------------------------------------------------------


async def user_of(admin: Admin, address: str, name: str) -> User | None:
    """Return a user of one broker, or None. Our brokers leave the secret out unless a Super user asks.

    Raises:
        AnswerUnreadable: the broker's answer is not a user.
        BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: no answer. All functions here raise these.
    """
    reply = await admin.request(address, RequestCode.AUTH_GET_USER, UserRequest(username=name))
    found = _records(reply, f"user {name} of {address}", User.from_json)
    return found[0] if found else None


async def users_of(admin: Admin, address: str, contains: str = "") -> tuple[User, ...]:
    """Return the users of one broker whose name contains a text, by name. Raises as `user_of`."""
    reply = await admin.request(address, RequestCode.AUTH_LIST_USER, ListUserRequest(filter=contains or None))
    return tuple(sorted(_records(reply, f"the users of {address}", User.from_json), key=lambda user: user.name))


async def create_user(admin: Admin, address: str, user: User) -> None:
    """Create a user at one broker. Raises BrokerRefused (16) if it exists."""
    change = UserChange(user.secret, user.type, user.status, user.certificate or None)
    await admin.request(address, RequestCode.AUTH_CREATE_USER, UserRequest(username=user.name), _body(change.to_json()))


async def update_user(admin: Admin, address: str, name: str, change: UserChange) -> None:
    """Change a user at one broker. Raises BrokerRefused (16) if it does not exist."""
    await admin.request(address, RequestCode.AUTH_UPDATE_USER, UserRequest(username=name), _body(change.to_json()))


async def delete_user(admin: Admin, address: str, name: str) -> None:
    """Delete a user and its policies at one broker; a user that does not exist is no error."""
    await admin.request(address, RequestCode.AUTH_DELETE_USER, UserRequest(username=name))


async def keeps_old_secrets(admin: Admin, address: str) -> bool:
    """Return whether a broker can accept an old secret beside the new one: ours can, RocketMQ's replaces it."""
    return _OWN_SETTING in await admin.broker_settings(address)


# --- policies ---------------------------------------------------------------------------------------------------------


async def acl_of(admin: Admin, address: str, user: str) -> Acl | None:
    """Return the policies of a user at one broker; None if there are none, or no such user. Raises as `user_of`."""
    try:
        reply = await admin.request(address, RequestCode.AUTH_GET_ACL, AclRequest(subject=subject_of(user)))
    except GantryError as refusal:
        if _NO_SUBJECT in str(refusal):
            return None
        raise
    found = _records(reply, f"policies of {user} at {address}", Acl.from_json)
    return found[0] if found else None


async def acls_of(admin: Admin, address: str, user: str = "", resource: str = "") -> tuple[Acl, ...]:
    """Return the policies of one broker, by user.

    Args:
        admin: for the request.
        address: ip:port of the broker.
        user: text that the name of the user contains.
        resource: text that the resource of an entry contains. RocketMQ ignores it if the subject contains it.
    """
    header = ListAclRequest(subject_filter=user or None, resource_filter=resource or None)
    reply = await admin.request(address, RequestCode.AUTH_LIST_ACL, header)
    found = (acl.only(resource) for acl in _records(reply, f"the policies of {address}", Acl.from_json))
    return tuple(sorted((acl for acl in found if acl.policies), key=lambda acl: acl.user))


async def put_policies(admin: Admin, address: str, user: str, policies: Sequence[Policy]) -> None:
    """Add entries at one broker. An entry replaces the one of the same policy type and resource; others stay.

    Raises BrokerRefused (16) if there is no such user.
    """
    acl = Acl(user, tuple(policies))
    await admin.request(address, RequestCode.AUTH_UPDATE_ACL, AclRequest(subject=acl.subject), _body(acl.to_json()))


async def delete_policies(
    admin: Admin, address: str, user: str, resource: EntryResource | None, kind: PolicyType = PolicyType.CUSTOM
) -> None:
    """Delete the entry of a resource, or all policies of a user, at one broker.

    Raises BrokerRefused (16) if there is none.
    """
    header = AclRequest(
        subject=subject_of(user), policy_type=kind.value, resource=None if resource is None else str(resource)
    )
    await admin.request(address, RequestCode.AUTH_DELETE_ACL, header)


def subject_of(user: str) -> str:
    """Return the subject of a user, as requests name it."""
    return Acl(user).subject


def _body(members: dict[str, Any]) -> bytes:
    return loose_json.dumps(members)


def _records(reply: Command, what: str, parse: Callable[[dict[str, Any]], Record]) -> list[Record]:
    """Return the objects in a response: none, one, or a list. Raises AnswerUnreadable."""
    if not reply.payload:
        return []
    try:
        found = read_json(bytes(reply.payload))
        return [parse(each) for each in (found if isinstance(found, list) else [found])]
    except (FormatError, GantryError, AttributeError) as problem:
        raise AnswerUnreadable(f"{what} cannot be read: {problem}") from problem
