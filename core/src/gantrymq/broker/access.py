"""Access control: principals cached per connection, decisions cached per principal, action and resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, Final

import attrs

from gantrymq.broker.counted_plugins import CountFailure, counted, counted_later, name_of
from gantrymq.errors import GantryError, NoPermission, PluginError, RequestRefused
from gantrymq.interfaces import Authorizer, ClientChannel, ConnectedClient, Credentials, Heartbeat
from gantrymq.model import names
from gantrymq.model.access import (
    CLUSTER,
    Action,
    Decision,
    Principal,
    Requirement,
    Resource,
    ResourceType,
    group_resource,
    requirements,
    topic_resource,
)

__all__ = ["AccessControl", "denied"]

DENIED: Final = "has no permission to access"

MOST_DECISIONS: Final = 65_536  # cached; all are dropped when there are more
MOST_KEYS: Final = 16  # cached principals of one connection
_NOTE: Final = "access"  # key of a connection's `_Known` in its notes


def denied(who: str, what: object, reason: str, code: int = NoPermission.response_code) -> RequestRefused:
    """Return the refusal of access, with the words by which clients recognize it whatever the reason is.

    Source: apache/rocketmq auth/.../authorization/chain/AclAuthorizationHandler.java (throwException).
    """
    return RequestRefused(code, reason if DENIED in reason else f"{who} {DENIED} {what}: {reason}")


@attrs.define
class _Known:
    """The principals of one connection."""

    generation: int
    principals: dict[str, Principal] = attrs.field(factory=dict)  # by access key


class AccessControl:
    """Asks the authorizer; `gantrymq.interfaces.Access`."""

    def __init__(self, authorizer: Authorizer | None, cluster: str, failed: CountFailure) -> None:
        """*authorizer*: None allows everything; *failed* counts its exceptions."""
        self.active = authorizer is not None
        if authorizer is not None:
            self._failed = partial(failed, "authorizer", name_of(authorizer))
            self._authenticate: Callable[..., Any] = counted(authorizer.authenticate, self._failed)
            self._authorize: Callable[..., Any] = counted(authorizer.authorize, self._failed)
        self._each_request: bool = getattr(authorizer, "each_request", False)
        self._cluster = Resource(ResourceType.CLUSTER, cluster)
        self._decisions: dict[tuple[Principal, Action, Resource], Decision] = {}
        self._generation = 0
        self.has_group: Callable[[str], bool] = lambda group: False

    # --- decisions ----------------------------------------------------------------------------------------------------

    def check(self, principal: Principal | None, actions: Action | Sequence[Action], resource: Resource) -> None:
        """Return if *principal* may perform at least one of the actions; raise otherwise."""
        if principal is None or not self.active:
            return
        refused = None
        for action in (actions,) if isinstance(actions, Action) else actions:
            decision = self._decisions.get((principal, action, resource)) or self._decide(principal, action, resource)
            if decision.allowed:
                return
            refused = refused or decision
        assert refused is not None, "a requirement names at least one action"
        wanted = actions.value if isinstance(actions, Action) else " or ".join(each.value for each in actions)
        where = self._cluster if resource is CLUSTER else resource
        raise denied(f"User:{principal.name}", where, refused.reason or f"{wanted} is not allowed", refused.code)

    def check_all(self, principal: Principal | None, requirements: Sequence[Requirement]) -> None:
        """Check all requirements of a request. Raises like `check`."""
        for actions, resource in requirements:
            self.check(principal, actions, resource)

    def check_send(self, principal: Principal | None, topic: str) -> None:
        """Check that a producer may send to a topic; to a retry topic sends only a member of its group."""
        resource = topic_resource(topic)
        self.check(principal, Action.SUB if resource.type is ResourceType.GROUP else Action.PUB, resource)

    def check_consumer(self, principal: Principal | None, group: str, topic: str) -> None:
        """Check that a member of a group may read a topic; a retry topic of its pops counts as the topic itself."""
        if principal is None:
            return
        self.check(principal, Action.SUB, group_resource(group))
        own = f"{names.RETRY_PREFIX}{group}"
        if topic.startswith((f"{own}_", f"{own}+")):
            of_other = topic.removeprefix(names.RETRY_PREFIX)
            if self.has_group(of_other):  # then it may as well be the retry topic of that group
                self.check(principal, Action.SUB, group_resource(of_other))
            topic = topic[len(own) + 1 :]
        self.check(principal, Action.SUB, topic_resource(topic))

    def check_heartbeat(self, heartbeat: Heartbeat, client: ClientChannel) -> None:
        """Check that a client may subscribe to what its heartbeat says. Raises like `check`."""
        for consumer in heartbeat.consumers:
            subscribed = [each.topic for each in consumer.subscriptions or ()]
            self.check_all(heartbeat.principal, requirements(Action.SUB, topics=subscribed, groups=(consumer.group,)))

    def may_send(self, client: ClientChannel, access_key: str, resource: Resource) -> bool:
        """Return whether it is cached that a client may send to a topic."""
        principal = self.known(client, access_key)
        if principal is None:
            return False
        decision = self._decisions.get((principal, Action.PUB, resource))
        return decision is not None and decision.allowed

    def forget(self) -> None:
        """Drop all cached decisions and principals."""
        self._decisions.clear()
        self._generation += 1

    def _decide(self, principal: Principal, action: Action, resource: Resource) -> Decision:
        generation = self._generation
        decision: Any = self._authorize(principal, action, self._cluster if resource is CLUSTER else resource)
        if not isinstance(decision, Decision):
            self._failed()
            raise PluginError(f"an authorizer decided {decision!r}, which is no Decision")
        if generation == self._generation:
            if len(self._decisions) >= MOST_DECISIONS:
                self._decisions.clear()
            self._decisions[principal, action, resource] = decision
        return decision

    # --- principals ---------------------------------------------------------------------------------------------------

    def known(self, client: ConnectedClient, access_key: str) -> Principal | None:
        """Return the cached principal of a client, if there is one."""
        known: _Known | None = client.notes.get(_NOTE)
        if known is None or known.generation != self._generation:
            return None
        return known.principals.get(access_key)

    def identify(self, credentials: Credentials, client: ClientChannel) -> Principal | Awaitable[Principal] | None:
        """Return the principal of a request, from the cache if possible, or an awaitable of it."""
        if not self.active:
            return None
        found = self.known(client, credentials.access_key)
        if found is not None:
            return found
        generation = self._generation
        try:
            answer = self._authenticate(credentials, client)
        except GantryError as error:
            raise self._stranger(error, credentials.access_key, client) from error
        if isawaitable(answer):
            return self._identify_later(answer, credentials.access_key, client, generation)
        return self._accept(answer, credentials.access_key, client, generation)

    async def _identify_later(
        self, answer: Awaitable[Principal], access_key: str, client: ClientChannel, generation: int
    ) -> Principal:
        try:
            principal = await counted_later(answer, self._failed)
        except GantryError as error:
            raise self._stranger(error, access_key, client) from error
        return self._accept(principal, access_key, client, generation)

    def _stranger(self, error: GantryError, access_key: str, client: ConnectedClient) -> GantryError:
        """Return the refusal of a client that is not identified; other errors than NO_PERMISSION are kept."""
        if error.response_code != NoPermission.response_code:
            return error
        return denied(f"User:{access_key}" if access_key else f"Client:{client.address}", self._cluster, str(error))

    def _accept(self, principal: Any, access_key: str, client: ConnectedClient, generation: int) -> Principal:
        if not isinstance(principal, Principal):
            self._failed()
            raise PluginError(f"an authorizer returned {principal!r}, which is no Principal")
        if not self._each_request and generation == self._generation:
            known: _Known | None = client.notes.get(_NOTE)
            if known is None or known.generation != generation or len(known.principals) >= MOST_KEYS:
                known = client.notes[_NOTE] = _Known(generation)
            known.principals[access_key] = principal
        return principal
