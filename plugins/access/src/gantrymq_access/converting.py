"""Users and policies from the accounts of plain_acl.yml.

    account      user; Super if it is an admin
    entry        Custom entry for the literal name: PUB becomes Pub, SUB becomes Sub and Get, DENY denies all
    default      Default entry for Topic:* or Group:*
    trace topic  Pub for every user, as every account may send to it

An entry of plain_acl.yml replaces the default, while a Custom entry decides only about its own actions. So a Default
entry for the name denies what the default allows and the entry does not. Get comes with Sub because RocketMQ 5 demands
it of consumers. With Pub it would open queries of messages (request 12), which plain_acl.yml allows with SUB only.

Source: apache/rocketmq auth/.../migration/v1/AuthMigrator.java, which adds neither Get nor these denials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from gantrymq.errors import GantryError
from gantrymq_access.records import (
    Acl,
    Entry,
    EntryAction,
    EntryResource,
    EntryType,
    Pattern,
    Policy,
    PolicyType,
    User,
    UserType,
    check_user,
)
from gantrymq_access_plain.accounts import TRACE_TOPIC, Account, Perm, Rules, shown_key

_ACTIONS: Final = {
    Perm.PUB: (EntryAction.PUB,),
    Perm.SUB: (EntryAction.SUB, EntryAction.GET),
    Perm.PUB | Perm.SUB: (EntryAction.PUB, EntryAction.SUB, EntryAction.GET),
}
_ALL: Final = (EntryAction.ALL,)


@attrs.frozen
class Conversion:
    """The result."""

    users: Mapping[str, User]
    acls: Mapping[str, Acl]
    warnings: Sequence[str]  # a sentence for each thing that is not carried over, or not in the same way


def converted(rules: Rules) -> Conversion:
    """Convert all accounts; those that cannot become users are left out, with a warning."""
    users: dict[str, User] = {}
    acls: dict[str, Acl] = {}
    warnings = list(rules.warnings)
    for file in rules.files:
        if file.white_patterns:
            addresses = ", ".join(each.text for each in file.white_patterns)
            warnings.append(
                f"{file.where}: globalWhiteRemoteAddresses is not carried over: clients at {addresses} need a user"
            )
    for account in rules.accounts.values():
        name = shown_key(account.access_key)
        user = User(account.access_key, account.secret_key, UserType.SUPER if account.is_admin else UserType.NORMAL)
        try:
            check_user(user)
            acl, unnamed = _acl_of(account)
        except GantryError as error:
            warnings.append(f"account {name} is not carried over: {error}")
            continue
        users[user.name] = user
        if account.white_address is not None:
            warnings.append(
                f"account {name}: whiteRemoteAddress is not carried over: clients at {account.white_address.text} must "
                "sign with its secret, and need the permissions"
            )
        if account.is_admin:
            if not account.may_all:
                count = len(account.topics) + len(account.groups)
                warnings.append(
                    f"account {name}: its entries ({count}) are not carried over: a Super user may do everything"
                )
            continue
        for each in unnamed:
            warnings.append(f"account {name}: the entry for {each} is not carried over: it is no literal name")
        acls[user.name] = acl
    if not any(each.is_super for each in users.values()):
        warnings.append(
            "no account is an admin, so that there is no Super user: set initAuthenticationUser of the broker to one"
        )
    if acls:
        warnings.append(
            f"every account could send to {TRACE_TOPIC}: each of the {len(acls)} Normal users got an entry for it, as "
            "clients that trace messages need it"
        )
    return Conversion(users, acls, warnings)


def _acl_of(account: Account) -> tuple[Acl, list[str]]:
    """Return the policies, and the names that cannot be converted."""
    custom: list[Entry] = []
    default: list[Entry] = []
    unnamed: list[str] = []
    of_trace = account.topics.get(TRACE_TOPIC, account.topic_default or Perm.DENY) | Perm.PUB
    of_types = (
        (EntryType.TOPIC, {**account.topics, TRACE_TOPIC: of_trace}, account.topic_default),
        (EntryType.GROUP, account.groups, account.group_default),
    )
    for kind, perms, by_default in of_types:
        for name, perm in perms.items():
            resource = _literal(kind, name)
            if resource is None:
                unnamed.append(f"{kind.value}:{name}")
                continue
            custom.append(_entry(resource, perm))
            excess = (by_default or Perm.DENY) & ~perm
            if perm and excess:
                default.append(Entry(resource, _ACTIONS[excess], is_allowed=False))
        if by_default is not None:
            default.append(_entry(EntryResource(kind, "", Pattern.ANY), by_default))
    policies = [Policy(PolicyType.CUSTOM, tuple(custom)), Policy(PolicyType.DEFAULT, tuple(default))]
    return Acl(account.access_key).merged([each for each in policies if each.entries]), unnamed


def _literal(kind: EntryType, name: str) -> EntryResource | None:
    """Return the resource of a name; None if a policy would read it in another way."""
    try:
        found = EntryResource.parse(f"{kind.value}:{name}")
    except GantryError:
        return None
    return found if found.pattern is Pattern.LITERAL else None


def _entry(resource: EntryResource, perm: Perm) -> Entry:
    if not perm:
        return Entry(resource, _ALL, is_allowed=False)
    return Entry(resource, _ACTIONS[perm], is_allowed=True)
