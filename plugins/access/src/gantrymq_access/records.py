"""Users and policies: their values, their checks, and their JSON on the wire and in files.

    User   name, secret, Super or Normal, enabled or disabled
    Acl    of one user: at most one Policy of each type (Custom, Default), each with entries by resource
    Entry  resource, actions, source networks, Allow or Deny

Reading accepts the users of any RocketMQ 5 broker; `check_user` refuses those that this broker does not store. Records
are immutable: a change makes new ones.

Source: apache/rocketmq auth/.../authentication/model/User.java, authorization/model/{Acl,Policy,PolicyEntry}.java,
authorization/model/Resource.java, authorization/manager/AuthorizationMetadataManagerImpl.java (validate),
remoting/.../protocol/body/{UserInfo,AclInfo}.java.
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, TypeVar

import attrs

from gantrymq.errors import FormatError, InvalidParameter, NoPermission, RequestRefused

MAX_NAME: Final = 255  # characters of a user name
MIN_SECRET: Final = 6  # characters
MAX_SECRET: Final = 1024
MAX_RESOURCE: Final = 512  # characters; the longest topic or group has 255
MAX_ENTRIES: Final = 10_000  # of one user
MAX_SOURCES: Final = 1_000  # networks of one entry
MAX_USERS: Final = 100_000

Network = IPv4Network | IPv6Network
Named = TypeVar("Named", bound=enum.Enum)


class UserType(enum.Enum):
    """A Super user may do everything."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(enum.Enum):
    """Whether a user may log in."""

    ENABLE = "enable"
    DISABLE = "disable"


class PolicyType(enum.Enum):
    """Entries of the default policy count only if none of the custom policy applies."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class EntryAction(enum.Enum):
    """An action in an entry. ``Any`` is refused in entries; no request needs ``List``."""

    ALL = "All"
    ANY = "Any"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class EntryType(enum.Enum):
    """The type of the resources of an entry; ``Any`` means all of them, and is written ``*``."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(enum.Enum):
    """How an entry names resources of its type."""

    ANY = "any"
    LITERAL = "literal"
    PREFIX = "prefix"


def member_named(kind: type[Named], text: str) -> Named | None:
    """Return the member of *kind* with this name in any letter case, as RocketMQ reads names; None without one."""
    return _members(kind).get(text) or _members(kind).get(text.lower())


@cache
def _members(kind: type[Named]) -> dict[str, Named]:
    """Return the members by name, and by name in lower case."""
    return {name: each for each in kind for name in (each.value, each.value.lower())}


# --- users ------------------------------------------------------------------------------------------------------------


@attrs.frozen
class User:
    """An account. Secrets are not part of its repr."""

    name: str
    secret: str = attrs.field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE
    old_secret: str = attrs.field(default="", repr=False)  # valid until `old_secret_until_ms`; empty: none
    old_secret_until_ms: int = 0
    certificate: str = ""  # subject of the TLS certificate that is this user; empty: none

    @property
    def is_super(self) -> bool:
        """Whether policies do not apply to it."""
        return self.type is UserType.SUPER

    @property
    def is_enabled(self) -> bool:
        """Whether it may log in."""
        return self.status is UserStatus.ENABLE

    def to_json(self, *, secrets: bool = True) -> dict[str, Any]:
        """Return the body of 3004; the members that RocketMQ does not have only if they are set."""
        found: dict[str, Any] = {"certificate": self.certificate} if self.certificate else {}
        if self.old_secret:
            if secrets:
                found["oldPassword"] = self.old_secret
            found["oldPasswordUntil"] = self.old_secret_until_ms
        if secrets:
            found["password"] = self.secret
        return {**found, "userStatus": self.status.value, "userType": self.type.value, "username": self.name}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> User:
        """Read the body of 3004, of a broker or a file, without the checks of a new user.

        Raises:
            FormatError: a member has another type, or the type or status has an unknown name.
        """
        asked = UserChange.from_json(members)
        return cls(
            _text(members, "username"),
            asked.secret or "",
            asked.type or UserType.NORMAL,
            asked.status or UserStatus.ENABLE,
            _text(members, "oldPassword"),
            _milliseconds(members, "oldPasswordUntil"),
            asked.certificate or "",
        )


@attrs.frozen
class UserChange:
    """The body of 3001 and 3002; None leaves a value as it is.

    Members that RocketMQ does not have: ``certificate`` (empty removes it), and ``keepOldPassword``, for how many
    milliseconds the secret before remains valid.
    """

    secret: str | None = attrs.field(default=None, repr=False)
    type: UserType | None = None
    status: UserStatus | None = None
    certificate: str | None = None
    keep_old_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the body."""
        found = {
            "certificate": self.certificate,
            "keepOldPassword": self.keep_old_ms or None,
            "password": self.secret,
            "userStatus": self.status and self.status.value,
            "userType": self.type and self.type.value,
        }
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> UserChange:
        """Read the body. As in RocketMQ, blank members count as missing.

        Raises:
            FormatError: a member has another type, or the type or status has an unknown name.
        """
        return cls(
            _text(members, "password") if _text(members, "password").strip() else None,
            _member_in(members, "userType", UserType),
            _member_in(members, "userStatus", UserStatus),
            None if members.get("certificate") is None else _text(members, "certificate"),
            _milliseconds(members, "keepOldPassword"),
        )


def check_name(name: str) -> None:
    """Check the name of a new user.

    Raises:
        InvalidParameter: it is blank, too long, or not printable.
    """
    if not name.strip():
        raise InvalidParameter("The username is blank")
    if len(name) > MAX_NAME:
        raise InvalidParameter(f"the user name has {len(name)} characters, the longest allowed has {MAX_NAME}")
    if not name.isprintable():
        raise InvalidParameter(f"the user name {name!r} has a control character; use printable characters")


def check_secret(secret: str) -> None:
    """Check a new secret; the errors do not contain it.

    Raises:
        NoPermission: it is blank, as RocketMQ answers.
        InvalidParameter: it is too short, too long, or not printable.
    """
    if not secret.strip():
        raise NoPermission("password can not be blank")
    if not MIN_SECRET <= len(secret) <= MAX_SECRET:
        raise InvalidParameter(
            f"the password has {len(secret)} characters, it needs {MIN_SECRET} to {MAX_SECRET} of them"
        )
    if not secret.isprintable():
        raise InvalidParameter("the password has a control character; use printable characters")


def check_user(user: User) -> None:
    """Check a user before it is stored. Raises like `check_name` and `check_secret`."""
    check_name(user.name)
    check_secret(user.secret)
    if user.old_secret:
        check_secret(user.old_secret)
    if len(user.certificate) > MAX_SECRET or not user.certificate.isprintable():
        raise InvalidParameter(
            f"the certificate of user {user.name} is no subject such as CN=orders,O=Shop of at most {MAX_SECRET} "
            "printable characters"
        )


# --- policies ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class EntryResource:
    """What an entry is about; its text, such as ``Topic:Orders*``, identifies the entry in its policy."""

    type: EntryType
    name: str  # empty if all
    pattern: Pattern

    def __str__(self) -> str:
        if self.type is EntryType.ANY:
            return "*"
        return f"{self.type.value}:{self.name}{'' if self.pattern is Pattern.LITERAL else '*'}"

    @classmethod
    def parse(cls, text: str) -> EntryResource:
        """Parse ``*``, ``Type:name``, ``Type:prefix*`` or ``Type:*``; a prefix ends at the first asterisk.

        Raises:
            NoPermission: it is none of these, as RocketMQ answers.
        """
        if text == "*":
            return cls(EntryType.ANY, "", Pattern.ANY)
        kind, _, name = text.partition(":")
        type_ = member_named(EntryType, kind)
        if type_ is None or not name or len(text) > MAX_RESOURCE or not name.isprintable():
            raise NoPermission(
                f"The resource is null: {text[:60]!r} is not a resource such as Topic:Orders, Topic:Ord*, Group:* or *"
            )
        if type_ is EntryType.ANY:
            return cls(type_, "", Pattern.ANY)
        if name == "*":
            return cls(type_, "", Pattern.ANY)
        if name.endswith("*"):
            return cls(type_, name[: name.index("*")], Pattern.PREFIX)
        return cls(type_, name, Pattern.LITERAL)


@lru_cache(maxsize=4096)
def parse_network(text: str) -> Network:
    """Parse an address or a network of version 4 or 6.

    Raises:
        NoPermission: it is neither, as RocketMQ answers.
    """
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise NoPermission(
            f"The source ip is invalid: {text[:60]!r} is neither an address nor a network such as 10.0.0.0/8 or "
            "2001:db8::/32"
        ) from None


def source_network(address: str) -> Network | None:
    """Return the address of a client as a network of one address; a mapped IPv4 address as IPv4; None if unknown."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return ip_network(found)


@attrs.frozen
class Entry:
    """An entry of a policy."""

    resource: EntryResource
    actions: tuple[EntryAction, ...]
    is_allowed: bool
    sources: tuple[str, ...] = ()  # addresses and networks of clients; empty: all

    def __str__(self) -> str:
        verdict = "Allow" if self.is_allowed else "Deny"
        where = f" from {','.join(self.sources)}" if self.sources else ""
        return f"{verdict} {','.join(each.value for each in self.actions)} on {self.resource}{where}"

    def to_json(self) -> dict[str, Any]:
        """Return the entry as in 3009."""
        found: dict[str, Any] = {
            "actions": [each.value for each in self.actions],
            "decision": "Allow" if self.is_allowed else "Deny",
            "resource": str(self.resource),
        }
        return {**found, "sourceIps": list(self.sources)} if self.sources else found

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Entry:
        """Read an entry of 3006, with RocketMQ's checks and texts.

        Raises:
            NoPermission: RocketMQ refuses the entry, or it has an unknown action.
            FormatError: a member has another type.
        """
        resource = EntryResource.parse(_text(members, "resource"))
        actions: list[EntryAction] = []
        for text in _texts(members, "actions"):
            action = member_named(EntryAction, text)
            if action is None:
                known = ", ".join(each.value for each in EntryAction if each is not EntryAction.ANY)
                raise NoPermission(f"The actions of {resource} are illegal: {text[:60]!r} is none of {known}")
            if action is EntryAction.ANY:
                raise NoPermission("The actions can not be Any")
            if action not in actions:
                actions.append(action)
        if not actions:
            raise NoPermission("The actions is empty")
        sources = _texts(members, "sourceIps")
        if len(sources) > MAX_SOURCES:
            raise NoPermission(
                f"The source ip is invalid: {resource} has {len(sources)} networks, at most {MAX_SOURCES} are allowed"
            )
        for each in sources:
            parse_network(each)
        decision = _text(members, "decision").lower()
        if decision not in ("allow", "deny"):
            raise NoPermission("The decision is null or illegal: use Allow or Deny")
        return cls(resource, tuple(actions), decision == "allow", tuple(each.strip() for each in sources))


@attrs.frozen
class Policy:
    """The entries of one type."""

    type: PolicyType
    entries: tuple[Entry, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the policy as in 3009."""
        return {"entries": [each.to_json() for each in self.entries], "policyType": self.type.value}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Policy:
        """Read a policy of 3006. Raises like `Entry.from_json`, and NoPermission without entries."""
        kind = _member_in(members, "policyType", PolicyType) or PolicyType.CUSTOM
        entries = _objects(members, "entries")
        if not entries:
            raise NoPermission("The policy entries is empty")
        return cls(kind, tuple(Entry.from_json(each) for each in entries))


@attrs.frozen
class Acl:
    """The policies of a user, at most one of each type."""

    user: str
    policies: tuple[Policy, ...] = ()

    @property
    def subject(self) -> str:
        """The user as RocketMQ writes it."""
        return f"User:{self.user}"

    @property
    def size(self) -> int:
        """Number of entries."""
        return sum(len(each.entries) for each in self.policies)

    def entries(self, kind: PolicyType) -> tuple[Entry, ...]:
        """Return the entries of one type."""
        return next((each.entries for each in self.policies if each.type is kind), ())

    def merged(self, policies: Sequence[Policy]) -> Acl:
        """Return this ACL with *policies* added; an entry replaces the one of the same type and resource.

        Raises:
            InvalidParameter: the user would have more than `MAX_ENTRIES` entries.
        """
        of_type = {each.type: {str(entry.resource): entry for entry in each.entries} for each in self.policies}
        for policy in policies:
            of_type.setdefault(policy.type, {}).update({str(entry.resource): entry for entry in policy.entries})
        found = attrs.evolve(self, policies=tuple(Policy(kind, tuple(by.values())) for kind, by in of_type.items()))
        if found.size > MAX_ENTRIES:
            raise InvalidParameter(
                f"user {self.user} would have {found.size} policy entries, at most {MAX_ENTRIES} are allowed; use "
                "prefixes such as Topic:Orders*"
            )
        return found

    def without(self, resource: EntryResource, kind: PolicyType) -> Acl:
        """Return this ACL without one entry, and without a policy that then has none."""
        policies = []
        for each in self.policies:
            entries = each.entries
            if each.type is kind:
                entries = tuple(entry for entry in entries if entry.resource != resource)
            if entries:
                policies.append(attrs.evolve(each, entries=entries))
        return attrs.evolve(self, policies=tuple(policies))

    def only(self, resource_filter: str) -> Acl:
        """Return this ACL with the entries whose resource contains a text, as 3010 filters."""
        policies = (
            attrs.evolve(each, entries=tuple(entry for entry in each.entries if resource_filter in str(entry.resource)))
            for each in self.policies
        )
        return attrs.evolve(self, policies=tuple(each for each in policies if each.entries))

    def to_json(self) -> dict[str, Any]:
        """Return the body of 3009."""
        return {"policies": [each.to_json() for each in self.policies], "subject": self.subject}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Acl:
        """Read the body of 3009, or an ACL in a file.

        Raises:
            FormatError: two entries have the same type and resource; otherwise like `Entry.from_json`, `parse_subject`
                and `merged`.
        """
        user = parse_subject(_text(members, "subject"))
        policies = tuple(map(Policy.from_json, _objects(members, "policies")))
        seen: set[tuple[PolicyType, EntryResource]] = set()
        for policy in policies:
            for entry in policy.entries:
                if (policy.type, entry.resource) in seen:
                    raise FormatError(f"user {user} has two {policy.type.value} entries for {entry.resource}")
                seen.add((policy.type, entry.resource))
        return cls(user).merged(policies)


def policies_of(members: Mapping[str, Any]) -> tuple[Policy, ...]:
    """Read the policies in the body of 3006 and 3007.

    Raises:
        RequestRefused: code 1, there are none, as RocketMQ answers; otherwise like `Entry.from_json`.
    """
    found = tuple(map(Policy.from_json, _objects(members, "policies")))
    if not found:
        raise RequestRefused(1, "The body of acl is null: it has no policies")
    return found


def parse_subject(text: str) -> str:
    """Return the user of ``User:<name>``.

    Raises:
        RequestRefused: code 1, another type of subject, as RocketMQ answers.
    """
    kind, mark, name = text.partition(":")
    if kind.lower() != "user" or not mark or not name.strip():
        raise RequestRefused(1, f"the subject {text[:60]!r} is not a user such as User:alice")
    return name


# --- JSON -------------------------------------------------------------------------------------------------------------


def read_json(data: bytes) -> Any:
    """Parse JSON in which no name occurs twice in an object.

    Raises:
        FormatError: it is not such JSON; the sentence contains no text of it but a repeated name.
    """
    if not data.strip(b" \t\r\n\0"):
        raise FormatError("it holds nothing but zeros or blanks" if data else "it is empty")
    try:
        return json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise FormatError(f"it is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise FormatError(f"it is not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        what = "a number of too many digits" if isinstance(error, ValueError) else "too many levels"
        raise FormatError(f"it is JSON with {what}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(name for name, count in counts.items() if count > 1)
        raise FormatError(f"an object has the member {repeated[:40]!r} twice")
    return found


def _no_constant(word: str) -> Any:
    raise FormatError(f"{word} is not JSON")


def _text(members: Mapping[str, Any], name: str) -> str:
    """Return a text, empty if it is missing or null. Values are not quoted in errors, as they may be secrets."""
    found = members.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise FormatError(f"{name} is not a text")
    return found


def _texts(members: Mapping[str, Any], name: str) -> list[str]:
    found = members.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise FormatError(f"{name} is not a list of texts")
    return found


def _objects(members: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = members.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise FormatError(f"{name} is not a list of objects")
    return found


def _milliseconds(members: Mapping[str, Any], name: str) -> int:
    found = members.get(name)
    if found is None:
        return 0
    if type(found) is not int or not 0 <= found < 2**53:
        raise FormatError(f"{name} is not a number of milliseconds")
    return found


def _member_in(members: Mapping[str, Any], name: str, kind: type[Named]) -> Named | None:
    text = _text(members, name)
    if not text.strip():
        return None
    found = member_named(kind, text)
    if found is None:
        raise FormatError(f"{name} {text[:40]!r} is none of {', '.join(each.value for each in kind)}")
    return found
