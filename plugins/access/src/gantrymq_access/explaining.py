"""Questions such as "may alice send to Orders?", and decisions about them with what they are based on."""

from __future__ import annotations

import attrs

from gantrymq.errors import GantryError, InvalidParameter
from gantrymq.plugin import names
from gantrymq_access.decisions import Decider, Verdict
from gantrymq_access.records import (
    Acl,
    Entry,
    EntryAction,
    EntryResource,
    EntryType,
    Pattern,
    PolicyType,
    User,
    member_named,
    parse_network,
)


@attrs.frozen
class Question:
    """What is asked about a user."""

    actions: tuple[EntryAction, ...]  # one of them is enough
    resource: EntryResource  # a literal name
    source: str  # address of the client; empty: unknown

    @property
    def wanted(self) -> str:
        """The actions, for sentences."""
        return " or ".join(each.value for each in self.actions)


@attrs.frozen
class Explanation:
    """The decision of one broker, and what it is based on."""

    user: User | None
    verdict: Verdict
    others: tuple[Entry, ...] = ()  # weaker entries that apply, too

    @property
    def allowed(self) -> bool:
        """Whether the user may do it."""
        return self.verdict.allowed

    @property
    def word(self) -> str:
        """Name of the reason: "no_user", "disabled", "super", "no_entry", "entry", "default_entry"."""
        if self.user is None:
            return "no_user"
        if not self.user.is_enabled:
            return "disabled"
        if self.user.is_super:
            return "super"
        if self.verdict.entry is None:
            return "no_entry"
        return "entry" if self.verdict.policy is PolicyType.CUSTOM else "default_entry"

    def sentence(self, question: Question) -> str:
        """Return the reason."""
        where = f" from {question.source}" if question.source else ""
        return {
            "no_user": "there is no such user",
            "disabled": "the user is disabled, and cannot log in",
            "super": "a Super user may do everything",
            "no_entry": f"no entry allows {question.wanted} on {question.resource}{where}",
            "entry": f"the entry {self.verdict.entry} decides",
            "default_entry": f"the entry {self.verdict.entry} (default policy) decides",
        }[self.word]


def explain_user(user: User | None, acl: Acl, question: Question) -> Explanation:
    """Return the decision about a user with these policies, by the rules of RocketMQ 5.4."""
    found = decide(user, acl, question)
    others = list[Entry]()
    rest, entry, policy = acl, found.verdict.entry, found.verdict.policy
    while entry is not None and policy is not None:
        rest = rest.without(entry.resource, policy)
        next_best = decide(user, rest, question).verdict
        entry = next_best.entry if next_best.policy is policy else None
        if entry is not None:
            others.append(entry)
    return attrs.evolve(found, others=tuple(others))


def decide(user: User | None, acl: Acl, question: Question) -> Explanation:
    """Return the decision like `explain_user`, without the weaker entries."""
    if user is None or not user.is_enabled or user.is_super:
        return Explanation(user, Verdict(user is not None and user.is_enabled))
    resource = question.resource
    return Explanation(user, Decider(acl).decide(question.actions, resource.type, resource.name, question.source))


def asked_resource(text: str) -> EntryResource:
    """Parse a literal resource; a retry topic is its group. Raises InvalidParameter."""
    kind, _, name = text.strip().partition(":")
    if member_named(EntryType, kind) is EntryType.TOPIC and name.startswith(names.RETRY_PREFIX):
        text = f"Group:{name.removeprefix(names.RETRY_PREFIX)}"
    try:
        found = EntryResource.parse(text.strip())
    except GantryError as problem:
        raise InvalidParameter(
            f"{text[:60]!r} is not a resource; expected Topic:NAME, Group:NAME or Cluster:NAME"
        ) from problem
    if found.pattern is not Pattern.LITERAL:
        raise InvalidParameter(f"{text[:60]!r} is not one resource; name a topic, a group or the cluster: Topic:Orders")
    return found


def asked_source(text: str) -> str:
    """Parse the address of a client. Raises NoPermission: no address; InvalidParameter: a network."""
    network = parse_network(text)
    if network.num_addresses != 1:
        raise InvalidParameter(f"{text!r} is a network; give the address of a client")
    return str(network.network_address)
