"""Accounts and rules of plain_acl.yml: reading them, and deciding with them.

Source: apache/rocketmq acl/.../plain/PlainPermissionManager.java, PlainPermissionLoader.java, Permission.java,
PlainAccessValidator.java (4.9.7).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.model import Action, Resource, ResourceType
from gantrymq_access_plain.addresses import AddressPattern, AddressPatterns, parse_pattern
from gantrymq_access_plain.yaml_text import Node, YamlFault, read_yaml

MORE_THAN: Final = 6  # characters of access keys and secret keys
RETRY_PREFIX: Final = "%RETRY%"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
_TRACES: Final = Resource(ResourceType.TOPIC, TRACE_TOPIC)
ADMIN_CODES: Final = frozenset({17, 25, 200, 207, 215})  # topics, groups and settings: created, changed, deleted

WHITE_ADDRESSES: Final = "globalWhiteRemoteAddresses"
ACCOUNTS: Final = "accounts"
VERSION: Final = "dataVersion"
ACCESS_KEY: Final = "accessKey"
SECRET_KEY: Final = "secretKey"
WHITE_ADDRESS: Final = "whiteRemoteAddress"
ADMIN: Final = "admin"
TOPIC_DEFAULT: Final = "defaultTopicPerm"
GROUP_DEFAULT: Final = "defaultGroupPerm"
TOPIC_PERMS: Final = "topicPerms"
GROUP_PERMS: Final = "groupPerms"
_OF_ACCOUNT: Final = (
    ACCESS_KEY, SECRET_KEY, WHITE_ADDRESS, ADMIN, TOPIC_DEFAULT, GROUP_DEFAULT, TOPIC_PERMS, GROUP_PERMS,
)  # fmt: skip
_OF_FILE: Final = (WHITE_ADDRESSES, ACCOUNTS, VERSION)
_SHOWN: Final = 60  # characters of a text in errors


class Perm(enum.Flag):
    """What an account may do with a topic or group; DENY is the same as nothing."""

    DENY = 0
    PUB = 1
    SUB = 2


PERMS: Final[Mapping[str, Perm]] = {
    "DENY": Perm.DENY,
    "PUB": Perm.PUB,
    "SUB": Perm.SUB,
    "PUB|SUB": Perm.PUB | Perm.SUB,
    "SUB|PUB": Perm.PUB | Perm.SUB,
}
_TEXTS: Final = {perm: text for text, perm in reversed(list(PERMS.items()))}


_NONE: Final[Mapping[str, Perm]] = {}  # shared by accounts without entries


@attrs.frozen
class Account:
    """One account."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    white_address: AddressPattern | None = None  # from there, signature and permissions are not checked
    is_admin: bool = False
    topic_default: Perm | None = None  # None: the file does not say, which is DENY
    group_default: Perm | None = None
    topics: Mapping[str, Perm] = _NONE
    groups: Mapping[str, Perm] = _NONE

    @property
    def may_all(self) -> bool:
        """Whether it is an admin without entries."""
        return self.is_admin and not self.topics and not self.groups

    def may(self, resource: Resource) -> Perm:
        """Return what it may do with a topic or group."""
        if resource.type is ResourceType.TOPIC:
            return self.topics.get(resource.name, self.topic_default or Perm.DENY)
        return self.groups.get(resource.name, self.group_default or Perm.DENY)

    def to_json(self) -> dict[str, Any]:
        """Return the account as request 54 has it, with its secret and without what is not set."""
        found = {
            ACCESS_KEY: self.access_key,
            SECRET_KEY: self.secret_key,
            WHITE_ADDRESS: None if self.white_address is None else self.white_address.text,
            ADMIN: self.is_admin,
            TOPIC_DEFAULT: None if self.topic_default is None else _TEXTS[self.topic_default],
            GROUP_DEFAULT: None if self.group_default is None else _TEXTS[self.group_default],
            TOPIC_PERMS: [f"{name}={_TEXTS[perm]}" for name, perm in self.topics.items()] or None,
            GROUP_PERMS: [f"{name}={_TEXTS[perm]}" for name, perm in self.groups.items()] or None,
        }
        return {key: value for key, value in found.items() if value is not None}


@attrs.frozen
class RuleFile:
    """The content of one file."""

    where: str  # its path
    accounts: Mapping[str, Account] = attrs.field(factory=dict)  # by access key
    white_patterns: Sequence[AddressPattern] = ()
    counter: int = 0  # of its data version
    timestamp: int = 0
    warnings: Sequence[str] = ()  # sentences about what has no effect


@attrs.frozen
class Rules:
    """The rules of all files together; replaced as a whole."""

    files: Sequence[RuleFile] = ()
    accounts: Mapping[str, Account] = attrs.field(factory=dict)
    white_addresses: AddressPatterns = attrs.field(factory=lambda: AddressPatterns(()))
    warnings: Sequence[str] = ()

    @classmethod
    def of(cls, files: Sequence[RuleFile]) -> Rules:
        """Join files; of an access key in two files the first file is in force."""
        accounts: dict[str, Account] = {}
        holders: dict[str, str] = {}
        warnings = [sentence for each in files for sentence in each.warnings]
        for each in files:
            for key, account in each.accounts.items():
                if key in accounts:
                    warnings.append(f"{each.where}: account {shown_key(key)} has no effect, as {holders[key]} has it")
                else:
                    accounts[key], holders[key] = account, each.where
        patterns = AddressPatterns(pattern for each in files for pattern in each.white_patterns)
        return cls(files, accounts, patterns, warnings)

    def admits(self, address: str, access_key: str) -> bool:
        """Return whether an address is in one of the white lists that apply to an account."""
        if self.white_addresses.matches(address):
            return True
        account = self.accounts.get(access_key)
        return account is not None and account.white_address is not None and account.white_address.matches(address)


def shown_key(access_key: str) -> str:
    """Return an access key for a sentence."""
    return access_key if len(access_key) <= _SHOWN else f"{access_key[:_SHOWN]}..."


# --- decisions --------------------------------------------------------------------------------------------------------


def refusal(account: Account, actions: Sequence[Action], resource: Resource, code: int | str) -> str:
    """Return why an account may not perform any of the actions, in RocketMQ's words; empty if it may.

    What RocketMQ leaves to every account needs a permission too: reading a topic Pub or Sub, reading a group Sub, and
    everything else an admin.
    """
    if account.may_all:
        return ""
    wanted = _wanted(actions, resource, code)
    if wanted is None:
        if account.is_admin:
            return ""
        return f"Need admin permission for request code={code}, but accessKey={account.access_key} is not"
    if Action.PUB in actions and resource == _TRACES:
        return ""
    if wanted & account.may(resource):
        return ""
    return f"No default permission for {resource.type.value.lower()}:{resource.name}"


def _wanted(actions: Sequence[Action], resource: Resource, code: int | str) -> Perm | None:
    """Return the permissions of which one is needed; None for what only an admin may do."""
    if resource.type is ResourceType.CLUSTER or code in ADMIN_CODES:
        return None
    if Action.PUB in actions:
        return Perm.PUB
    if Action.SUB in actions:
        return Perm.SUB
    if Action.GET in actions:
        return Perm.SUB if resource.type is ResourceType.GROUP else Perm.PUB | Perm.SUB
    return None


# --- files ------------------------------------------------------------------------------------------------------------


def read_rule_file(data: bytes, where: str) -> RuleFile:
    """Parse a file of rules.

    Raises:
        FormatError: a fault, with file, line and account.
    """
    accounts: dict[str, Account] = {}
    warnings: list[str] = []

    def take(node: Node) -> None:
        account = _read_account(node, where, warnings)
        if account.access_key in accounts:
            raise YamlFault(node.line, f"account {shown_key(account.access_key)} is in this file twice")
        accounts[account.access_key] = account

    try:
        root = read_yaml(data, ACCOUNTS, take)
        return _rule_file(root, accounts, warnings, where)
    except YamlFault as fault:
        raise FormatError(f"{where} {fault}") from None


def _rule_file(root: Node, accounts: dict[str, Account], warnings: list[str], where: str) -> RuleFile:
    members = _members(root, "the file", "globalWhiteRemoteAddresses: and accounts:")
    warnings = [*(f"{where} {each}" for each in _unknown(members, _OF_FILE, "")), *warnings]
    for node in _nodes(members.get(ACCOUNTS), ACCOUNTS):  # those that are neither lists nor mappings
        _members(node, "an account", "accessKey: and secretKey:")
        raise YamlFault(node.line, "an account is empty")
    patterns = []
    for node in _nodes(members.get(WHITE_ADDRESSES), WHITE_ADDRESSES):
        pattern = _pattern(node, WHITE_ADDRESSES)
        if pattern is not None:
            patterns.append(pattern)
    versions = [_members(each, VERSION, "counter: and timestamp:") for each in _nodes(members.get(VERSION), VERSION)]
    version = versions[0] if versions else {}
    return RuleFile(
        where, accounts, patterns, _number(version.get("counter")), _number(version.get("timestamp")), warnings
    )


def _read_account(node: Node, where: str, warnings: list[str]) -> Account:
    members = _members(node, "an account", "accessKey: and secretKey:")
    access_key = _text(members.get(ACCESS_KEY), ACCESS_KEY) or ""
    if len(access_key) <= MORE_THAN:
        line = members[ACCESS_KEY].line if ACCESS_KEY in members else node.line
        what = f"accessKey {access_key!r} has {len(access_key)} characters"
        raise YamlFault(line, f"{what}; it needs more than {MORE_THAN}")
    name = f"account {shown_key(access_key)}"
    try:
        said: list[str] = []
        account = _account(access_key, members, node.line, said)
    except YamlFault as fault:
        raise YamlFault(fault.line, f"{name}: {fault.what}") from None
    said += _unknown(members, _OF_ACCOUNT, f"{name}: ")
    warnings += [f"{where} {each}" for each in said]
    return account


def _account(access_key: str, members: Mapping[str, Node], line: int, warnings: list[str]) -> Account:
    secret_key = _text(members.get(SECRET_KEY), SECRET_KEY) or ""
    if len(secret_key) <= MORE_THAN:
        line = members[SECRET_KEY].line if SECRET_KEY in members else line
        raise YamlFault(line, f"secretKey has {len(secret_key)} characters; it needs more than {MORE_THAN}")
    topics: dict[str, Perm] = {}
    groups: dict[str, Perm] = {}
    for key, held in ((TOPIC_PERMS, topics), (GROUP_PERMS, groups)):
        for node in _nodes(members.get(key), key):
            name, perm = _entry(node, key, access_key, warnings)
            if held is topics and name.startswith(RETRY_PREFIX):  # RocketMQ keeps groups under their retry topics
                groups[name.removeprefix(RETRY_PREFIX)] = perm
            else:
                held[name.removeprefix(RETRY_PREFIX)] = perm
    white = members.get(WHITE_ADDRESS)
    return Account(
        access_key,
        secret_key,
        None if white is None else _pattern(white, WHITE_ADDRESS),
        _flag(members.get(ADMIN)),
        _default(members.get(TOPIC_DEFAULT), TOPIC_DEFAULT, access_key, warnings),
        _default(members.get(GROUP_DEFAULT), GROUP_DEFAULT, access_key, warnings),
        topics or _NONE,
        groups or _NONE,
    )


def parse_entry(text: str) -> tuple[str, str]:
    """Split an entry such as ``TopicA=PUB|SUB``.

    Raises:
        FormatError: it is not of this form.
    """
    name, mark, perm = (part.strip() for part in text.partition("="))
    if not mark or not name or "=" in perm:
        raise FormatError(f"{text[:_SHOWN]!r} is not an entry such as TopicA=PUB|SUB")
    return name, perm


def _entry(node: Node, key: str, access_key: str, warnings: list[str]) -> tuple[str, Perm]:
    try:
        name, perm = parse_entry(_text(node, key) or "")
    except FormatError as error:
        raise YamlFault(node.line, f"{key}: {error}") from None
    return name, _perm(perm, node.line, f"{key}: {name}", access_key, warnings)


def _default(node: Node | None, key: str, access_key: str, warnings: list[str]) -> Perm | None:
    text = _text(node, key)
    if node is None or not text or not text.strip():
        return None
    return _perm(text.strip(), node.line, key, access_key, warnings)


def _perm(text: str, line: int, what: str, access_key: str, warnings: list[str]) -> Perm:
    found = PERMS.get(text)
    if found is None:
        said = f"line {line}: account {shown_key(access_key)}: {what}={text[:_SHOWN]}"
        warnings.append(f"{said} is none of {', '.join(PERMS)}, so that it is DENY")
        return Perm.DENY
    return found


def _pattern(node: Node, key: str) -> AddressPattern | None:
    try:
        return parse_pattern(_text(node, key) or "")
    except FormatError as error:
        raise YamlFault(node.line, f"{key}: {error}") from None


def _unknown(members: Mapping[str, Node], known: Iterable[str], prefix: str) -> list[str]:
    return [
        f"line {node.line}: {prefix}{key[:_SHOWN]} is not a key of such a file, and has no effect"
        for key, node in members.items()
        if key not in known
    ]


def _members(node: Node, what: str, example: str) -> Mapping[str, Node]:
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise YamlFault(node.line, f"{what} is not made of keys, such as {example}")
    return node.value


def _nodes(node: Node | None, key: str) -> list[Node]:
    if node is None or node.value is None:
        return []
    if not isinstance(node.value, list):
        raise YamlFault(node.line, f"{key} is not a list, whose items begin with -")
    return node.value


def _text(node: Node | None, key: str) -> str | None:
    if node is None or node.value is None:
        return None
    if not isinstance(node.value, str):
        raise YamlFault(node.line, f"{key} is not a text")
    return node.value


def _flag(node: Node | None) -> bool:
    text = (_text(node, ADMIN) or "false").strip().lower()
    if text not in ("true", "false"):
        assert node is not None
        raise YamlFault(node.line, f"admin={text[:_SHOWN]} is neither true nor false")
    return text == "true"


def _number(node: Node | None) -> int:
    text = (_text(node, VERSION) or "0").strip()
    if not text.isdecimal() or len(text) > 18:
        assert node is not None
        raise YamlFault(node.line, "dataVersion has a value that is not a number")
    return int(text)
