"""Access control: principals cached per connection, decisions cached per principal, action and resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, Final

import attrs

from gantrymq.broker.counted_plugins import CountFailure, counted, counted_later, name_of
from gantrymq.errors import AccessRefused, GantryError, NoPermission, PluginError
from gantrymq.interfaces import (
    AccessSummary,
    Authorizer,
    AuthorizerState,
    ClientChannel,
    ConnectedClient,
    Credentials,
    Heartbeat,
)
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
    is_signature,
    requirements,
    topic_resource,
)

__all__ = ["AccessControl", "denied"]

DENIED: Final = "has no permission to access"

MOST_DECISIONS: Final = 65_536  # cached; all are dropped when there are more
LONGEST: Final = 512  # characters of a name in a cached key; a client may send names of megabytes
MOST_PRINCIPALS: Final = 128  # cached for one connection: for each access key, one per request code
_PUB: Final = (Action.PUB,)
_NOTE: Final = "access"  # key of a connection's `_Known` in its notes


def denied(who: str, what: object, reason: str, code: int = NoPermission.response_code) -> AccessRefused:
    """Return the refusal of access, with the words by which clients recognize it whatever the reason is.

    Source: apache/rocketmq auth/.../authorization/chain/AclAuthorizationHandler.java (throwException).
    """
    return AccessRefused(code, reason if DENIED in reason else f"{who} {DENIED} {what}: {reason}")


@attrs.define
class _Known:
    """The principals of one connection."""

    generation: int
    principals: dict[tuple[str, int | str], Principal] = attrs.field(factory=dict)  # by access key and request


def _cached(client: ConnectedClient, access_key: str, request: int | str, generation: int) -> Principal | None:
    known: _Known | None = client.notes.get(_NOTE)
    if known is None or known.generation != generation:
        return None
    return known.principals.get((access_key, request))


class AccessControl:
    """Asks the authorizer; `gantrymq.interfaces.Access`."""

    def __init__(
        self,
        authorizer: Authorizer | None,
        cluster: str,
        failed: CountFailure,
        optional_listeners: frozenset[str] = frozenset(),
    ) -> None:
        """*authorizer*: None allows everything; *failed* counts its exceptions.

        *optional_listeners*: names of the listeners that serve requests without an account.
        """
        self._optional_listeners = optional_listeners
        self.active = authorizer is not None
        self.authorizer = authorizer
        if authorizer is not None:
            self._failed = partial(failed, "authorizer", name_of(authorizer))
            self._authenticate: Callable[..., Any] = counted(authorizer.authenticate, self._failed)
            self._authorize: Callable[..., Any] = counted(authorizer.authorize, self._failed)
        self._each_request: bool = getattr(authorizer, "each_request", False)
        self.summary = AccessSummary()
        self._secrets_of: Callable[..., Any] | None = getattr(authorizer, "secrets_of", None)
        if self._secrets_of is not None:
            self._secrets_of = counted(self._secrets_of, self._failed)
        self._cluster = Resource(ResourceType.CLUSTER, cluster)
        self._decisions: dict[tuple[Principal, tuple[Action, ...], Resource], Decision] = {}
        self._generation = 0
        state: object = authorizer
        self._state = state if isinstance(state, AuthorizerState) else None
        self._confirm: Callable[[], Awaitable[None]] | None = None
        self._refused: Callable[..., object] = getattr(authorizer, "on_refused", lambda *refused: None)
        self._is_valid: Callable[[Principal], bool] = getattr(authorizer, "is_valid", lambda principal: True)
        self.rechecks: dict[Callable[[], Awaitable[Any]], None] = {}
        self.on_forgotten: Callable[[], object] = lambda: None
        self.has_group: Callable[[str], bool] = lambda group: False

    # --- decisions ----------------------------------------------------------------------------------------------------

    def check(self, principal: Principal | None, actions: Action | Sequence[Action], resource: Resource) -> None:
        """Return if *principal* may perform at least one of the actions; raise otherwise."""
        if principal is None or not self.active:
            return
        wanted = (actions,) if isinstance(actions, Action) else tuple(actions)
        decision = self._decisions.get((principal, wanted, resource)) or self._decide(principal, wanted, resource)
        if decision.allowed:
            return
        where = self._cluster if resource is CLUSTER else resource
        self._refused(principal, wanted, where)
        if decision.reason and decision.code != NoPermission.response_code:
            raise AccessRefused(decision.code, decision.reason)  # RocketMQ before 5.3 has other words, with code 1
        reason = decision.reason or f"{' or '.join(each.value for each in wanted)} is not allowed"
        raise denied(f"User:{principal.name}", where, reason, decision.code)

    def check_all(self, principal: Principal | None, requirements: Sequence[Requirement]) -> None:
        """Check all requirements of a request. Raises like `check`."""
        for actions, resource in requirements:
            self.check(principal, actions, resource)

    def allows(self, principal: Principal | None, requirements: Sequence[Requirement]) -> bool:
        """Return whether all requirements are met."""
        try:
            self.check_all(principal, requirements)
        except GantryError:
            return False
        return True

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

    def may_consume(self, principal: Principal | None, group: str, topic: str) -> bool:
        """Return whether a member of a group may read a topic."""
        try:
            self.check_consumer(principal, group, topic)
        except GantryError:
            return False
        return True

    def check_heartbeat(self, heartbeat: Heartbeat, client: ClientChannel) -> None:
        """Check that a client may subscribe to what its heartbeat says.

        One refusal is enough to refuse the heartbeat: a client that joined with a part of its subscriptions would take
        queues of topics that it cannot read.

        Raises:
            AccessRefused: with all groups and topics that the client may not read.
        """
        refused: dict[Resource, AccessRefused] = {}
        for consumer in heartbeat.consumers:
            subscribed = [each.topic for each in consumer.subscriptions or ()]
            for actions, resource in requirements(Action.SUB, topics=subscribed, groups=(consumer.group,)):
                try:
                    self.check(heartbeat.principal, actions, resource)
                except AccessRefused as error:
                    refused[resource] = error
        first = next(iter(refused.values()), None)
        if first is None:
            return
        if len(refused) == 1:
            raise first
        if first.response_code != NoPermission.response_code:
            raise AccessRefused(first.response_code, "; ".join(map(str, refused.values())))
        assert heartbeat.principal is not None, "the broker itself is refused nothing"
        what = ", ".join(map(str, refused))
        raise denied(f"User:{heartbeat.principal.name}", what, "Sub is not allowed", first.response_code)

    def may_send(self, client: ClientChannel, access_key: str, request: int, resource: Resource) -> bool:
        """Return whether it is cached that a client may send to a topic; its signatures may need checks (`secrets`)."""
        principal = _cached(client, access_key, request, self._generation)
        if principal is None:
            return False
        decision = self._decisions.get((principal, _PUB, resource))
        return decision is not None and decision.allowed

    def forget(self) -> None:
        """Drop all cached decisions and principals."""
        self._decisions.clear()
        self._generation += 1
        self.on_forgotten()

    async def changed(self) -> None:
        """Drop all cached decisions and principals; wait until the replicas have the new state."""
        self.forget()
        if self._confirm is not None:
            await self._confirm()

    def confirm_changes(self, confirm: Callable[[], Awaitable[None]] | None) -> None:
        """Await *confirm* in `changed`; None: no more."""
        self._confirm = confirm

    def state_texts(self, reader: Principal | None) -> Mapping[str, str]:
        """Return the files of the authorizer that replicas take over."""
        return {} if self._state is None else self._state.state_texts(reader)

    async def take_state(self, texts: Mapping[str, str]) -> None:
        """Replace the state of the authorizer, if it differs. Raises like `AuthorizerState.take_state`."""
        if self._state is not None and dict(self._state.state_texts(None)) != dict(texts):
            await self._state.take_state(texts)
            self.forget()

    def on_recheck(self, recheck: Callable[[], Awaitable[Any]]) -> Callable[[], None]:
        """Await ``recheck()`` after `forget`."""
        self.rechecks[recheck] = None
        return lambda: self.rechecks.pop(recheck, None)

    def _decide(self, principal: Principal, actions: tuple[Action, ...], resource: Resource) -> Decision:
        generation = self._generation
        decision: Any = self._authorize(principal, actions, self._cluster if resource is CLUSTER else resource)
        if not isinstance(decision, Decision):
            self._failed()
            raise PluginError(f"an authorizer decided {decision!r}, which is no Decision")
        if generation == self._generation and max(len(resource.name), len(principal.name)) <= LONGEST:
            if len(self._decisions) >= MOST_DECISIONS:
                self._decisions.clear()
            self._decisions[principal, actions, resource] = decision
        return decision

    # --- principals ---------------------------------------------------------------------------------------------------

    def known(self, client: ConnectedClient, access_key: str, request: int | str) -> Principal | None:
        """Return the cached principal of a client for a request code, if the signature of a request needs no check."""
        if self._each_request and (access_key or self._secrets_of is None):
            return None
        return _cached(client, access_key, request, self._generation)

    def secrets(self, access_key: str) -> Sequence[bytes] | None:
        """Return the keys one of which must have signed a request with a cached principal; None if no check is needed.

        Raises:
            PluginError: the authorizer returned something else. Exceptions of the authorizer are raised, too.
        """
        if not self._each_request:
            return None
        if self._secrets_of is None:
            return ()
        if not access_key:
            return None
        found = self._secrets_of(access_key)
        if not isinstance(found, tuple | list) or not all(isinstance(each, bytes) and each for each in found):
            self._failed()
            raise PluginError("an authorizer returned secrets that are no list of bytes objects, or an empty one")
        return found

    def _is_proved(self, credentials: Credentials) -> bool:
        """Return whether a request is signed, if that must be checked."""
        secrets = self.secrets(credentials.access_key)
        if not secrets:
            return secrets is None
        return is_signature(credentials.signature, credentials.signed_content(), secrets)

    def lost_all_users(self, client: ClientChannel) -> bool:
        """Return whether the requests of a connection came from users, and none of these is valid any more."""
        known: _Known | None = client.notes.get(_NOTE)
        users = {*(() if known is None else known.principals.values()), client.principal} - {None}
        return bool(users) and not any(self._is_valid(each) for each in users)

    def identify(self, credentials: Credentials, client: ClientChannel) -> Principal | Awaitable[Principal] | None:
        """Return the principal of a request, from the cache if possible, or an awaitable of it."""
        if not self.active:
            return None
        found = _cached(client, credentials.access_key, credentials.request, self._generation)
        if found is not None and self._is_proved(credentials):
            return found
        if client.listener in self._optional_listeners and not credentials.access_key and not client.certificate:
            return None
        generation = self._generation
        try:
            answer = self._authenticate(credentials, client)
        except GantryError as error:
            raise self._stranger(error, credentials.access_key, client) from error
        if isawaitable(answer):
            return self._identify_later(answer, credentials, client, generation)
        return self._accept(answer, credentials, client, generation)

    async def _identify_later(
        self, answer: Awaitable[Principal], credentials: Credentials, client: ClientChannel, generation: int
    ) -> Principal:
        try:
            principal = await counted_later(answer, self._failed)
        except GantryError as error:
            raise self._stranger(error, credentials.access_key, client) from error
        return self._accept(principal, credentials, client, generation)

    def _stranger(self, error: GantryError, access_key: str, client: ConnectedClient) -> GantryError:
        """Return the refusal of a client that is not identified; other errors than NO_PERMISSION are kept."""
        if error.response_code != NoPermission.response_code:
            return error
        return denied(f"User:{access_key}" if access_key else f"Client:{client.address}", self._cluster, str(error))

    def _accept(self, principal: Any, credentials: Credentials, client: ConnectedClient, generation: int) -> Principal:
        if not isinstance(principal, Principal):
            self._failed()
            raise PluginError(f"an authorizer returned {principal!r}, which is no Principal")
        is_short = len(credentials.access_key) <= LONGEST
        if is_short and generation == self._generation and self._is_proved(credentials):
            known: _Known | None = client.notes.get(_NOTE)
            if known is None or known.generation != generation or len(known.principals) >= MOST_PRINCIPALS:
                known = client.notes[_NOTE] = _Known(generation)
            known.principals[credentials.access_key, credentials.request] = principal
        return principal
