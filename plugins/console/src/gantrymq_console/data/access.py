"""Users and policies of the cluster's access control, and what they decide. Secrets are dropped at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from gantrymq.client import Admin
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_access.administration import acl_of, acls_of, user_of, users_of
from gantrymq_access.explaining import Explanation, Question, decide
from gantrymq_access.records import Acl, Entry, PolicyType, User, UserStatus
from gantrymq_admin.asking import Asking
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.table import ListPage, ListQuery

KINDS: Final = ("all", "super", "normal", "disabled")
_AGE_S: Final = 5.0


@attrs.frozen
class BrokerAccess:
    """Users and policies of one broker, by the names of users."""

    users: Mapping[str, User]
    acls: Mapping[str, Acl]

    def explained(self, name: str, question: Question) -> Explanation:
        """Return the decision about a user."""
        return decide(self.users.get(name), self.acls.get(name) or Acl(name), question)


@attrs.frozen
class FoundAccess:
    """What the brokers answered."""

    brokers: Mapping[str, BrokerAccess]  # by name
    uncontrolled: tuple[str, ...]  # brokers that manage no users
    partial: bool  # whether a broker did not answer


@attrs.frozen
class Holders:
    """The brokers that have something."""

    brokers: tuple[str, ...]
    everywhere: bool  # whether these are all that answered


@attrs.frozen
class UserRow:
    """A user; one that brokers have with different values has a row for each."""

    name: str
    type: str
    status: str
    certificate: str  # subject; empty: none
    old_secret_until_ms: int | None  # the secret before is valid until then
    held: Holders

    @property
    def enabled(self) -> bool:
        """Whether the user may log in."""
        return self.status == UserStatus.ENABLE.value


@attrs.frozen
class UserList(ListPage):
    """A page of the list."""

    kind: str
    users: tuple[UserRow, ...]
    uncontrolled: tuple[str, ...]


@attrs.frozen
class EntryRow:
    """An entry of a policy."""

    user: str
    policy: str
    resource: str
    allowed: bool
    actions: tuple[str, ...]
    sources: tuple[str, ...]
    held: Holders


@attrs.frozen
class EntryList(ListPage):
    """A page of the entries of all users."""

    kind: str
    entries: tuple[EntryRow, ...]
    uncontrolled: tuple[str, ...]


@attrs.frozen
class Verdict:
    """What some brokers decide about a user, and why."""

    user: str
    allowed: bool
    word: str  # of the reason, see `Explanation.word`
    entry: str  # the deciding one; empty: none
    held: Holders


async def found_access(cluster: Cluster, asking: Asking, name: str | None = None) -> FoundAccess:
    """Return users and policies of all masters, or those of one user. Raises ClientError: no name server answers."""
    masters = await asking.needed(cluster.masters())
    asked = {
        broker: cluster.shared(("access", address, name), _AGE_S, partial(_access_of, cluster.admin, address, name))
        for broker, address in masters.items()
    }
    found = {broker: each.value for broker, each in (await asking.all(asked)).items()}
    uncontrolled = [each.what for each in asking.missing if each.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED]
    asking.missing[:] = [each for each in asking.missing if each.what not in uncontrolled]
    return FoundAccess(found, tuple(uncontrolled), len(found) + len(uncontrolled) < len(masters))


async def _access_of(admin: Admin, address: str, name: str | None) -> BrokerAccess:
    if name is None:
        users, acls = await users_of(admin, address), await acls_of(admin, address)
    else:
        user, acl = await user_of(admin, address, name), await acl_of(admin, address, name)
        users, acls = (() if user is None else (user,)), (() if acl is None else (acl,))
    shown = (attrs.evolve(each, secret="", old_secret="") for each in users)
    return BrokerAccess({each.name: each for each in shown}, {each.user: each for each in acls})


def user_rows(found: FoundAccess) -> list[UserRow]:
    """Return the users of all brokers, by name."""
    holders: dict[User, list[str]] = {}
    for broker, each in found.brokers.items():
        for user in each.users.values():
            holders.setdefault(user, []).append(broker)
    rows = [
        UserRow(
            user.name,
            user.type.value,
            user.status.value,
            user.certificate,
            user.old_secret_until_ms or None,
            _holders(brokers, found.brokers),
        )
        for user, brokers in holders.items()
    ]
    return sorted(rows, key=lambda row: row.name)


def user_list(found: FoundAccess, query: ListQuery) -> UserList:
    """Return a page of the users whose name or certificate contains a text."""
    wanted, kind = query.contains.lower(), query.kind
    rows = [
        each
        for each in user_rows(found)
        if (wanted in each.name.lower() or wanted in each.certificate.lower())
        and (kind == "all" or (not each.enabled if kind == "disabled" else each.type.lower() == kind))
    ]
    rows.sort(key=lambda row: row.name, reverse=query.down)
    shown = tuple(rows[query.start : query.start + query.rows])
    return UserList.of(query, len(rows), 0, found.partial, kind=kind, users=shown, uncontrolled=found.uncontrolled)


def entry_rows(found: FoundAccess) -> list[EntryRow]:
    """Return the entries of all brokers, by user; those of the custom policy first."""
    holders: dict[tuple[str, PolicyType, Entry], list[str]] = {}
    for broker, each in found.brokers.items():
        for acl in each.acls.values():
            for policy in acl.policies:
                for entry in policy.entries:
                    holders.setdefault((acl.user, policy.type, entry), []).append(broker)
    rows = [
        EntryRow(
            user,
            policy.value,
            str(entry.resource),
            entry.is_allowed,
            tuple(each.value for each in entry.actions),
            entry.sources,
            _holders(brokers, found.brokers),
        )
        for (user, policy, entry), brokers in holders.items()
    ]
    return sorted(rows, key=lambda row: (row.user, row.policy, row.resource))


def entry_list(found: FoundAccess, query: ListQuery) -> EntryList:
    """Return a page of the entries whose user or resource contains a text."""
    wanted = query.contains.lower()
    rows = [
        each
        for each in entry_rows(found)
        if (wanted in each.user.lower() or wanted in each.resource.lower())
        and query.kind in ("all", "allow" if each.allowed else "deny")
    ]
    rows.sort(key=lambda row: row.resource if query.sort == "resource" else row.user, reverse=query.down)
    shown = tuple(rows[query.start : query.start + query.rows])
    return EntryList.of(
        query, len(rows), 0, found.partial, kind=query.kind, entries=shown, uncontrolled=found.uncontrolled
    )


def verdicts(found: FoundAccess, names: Collection[str], question: Question) -> list[Verdict]:
    """Return the decisions about users; one for all brokers that decide alike for the same reason."""
    rows = []
    for name in sorted(names):
        holders: dict[tuple[bool, str, str], list[str]] = {}
        for broker, each in found.brokers.items():
            explained = each.explained(name, question)
            entry = "" if explained.verdict.entry is None else str(explained.verdict.entry)
            holders.setdefault((explained.allowed, explained.word, entry), []).append(broker)
        rows += [Verdict(name, *key, _holders(brokers, found.brokers)) for key, brokers in holders.items()]
    return rows


def permitted(found: FoundAccess, question: Question) -> list[Verdict]:
    """Return the users who are allowed it, by name; takes long for many users."""
    names = {name for each in found.brokers.values() for name in each.users}
    return [each for each in verdicts(found, names, question) if each.allowed]


def _holders(brokers: Sequence[str], every: Collection[str]) -> Holders:
    return Holders(tuple(brokers), len(brokers) == len(every))
