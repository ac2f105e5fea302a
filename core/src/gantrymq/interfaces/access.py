"""Access control: who a client is, and what it may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gantrymq.interfaces.client_channel import ClientChannel
from gantrymq.model.access import Action, Decision, Principal, Resource

__all__ = ["Access", "AccessSummary", "Authorizer", "AuthorizerState", "Credentials"]


class Credentials(Protocol):
    """What a request says about its sender; in remoting, header fields of RocketMQ's ACL hook."""

    access_key: str  # empty: none
    signature: str  # in base64; an HMAC-SHA1 of `signed_content` with the secret key
    security_token: str  # empty: none
    request: int | str  # code of the remoting request, or full name of the message of another protocol

    def signed_content(self) -> bytes:
        """Return the bytes that the signature covers."""


class Authorizer(Protocol):
    """Identifies clients and decides about their requests; ``authorizer=NAME`` selects one.

    An attribute is optional: ``each_request``, True to check the signature of every request. Otherwise a principal is
    cached for its connection, access key and request code, and the signatures of later requests are not checked.

    A method is optional, for authorizers with ``each_request``: ``secrets_of(access_key)`` returns a list or tuple of
    the secret keys of a user as bytes, such as the current one and an old one that is still valid; none for an unknown
    user. With it, `authenticate` is called for the first request and for those that are not signed with one of them;
    the other signatures are checked without it, in sends much faster. Requests without an access key have nothing to
    check, so their principal is cached. The method is called for every request, so it must be quick; an authorizer that
    identifies users by anything else in a request, such as ``security_token``, must not have it.

    A method is optional: ``is_valid(principal)`` returns whether the user of a principal still exists and is enabled.
    After `Access.forget` connections without a valid principal are closed.

    A method is optional: ``on_refused(principal, actions, resource)`` is called for each refusal by a decision, also
    by a cached one, to record it.

    Two methods are optional together, ``async start(broker)`` and ``async stop()``. They are called once, whatever the
    broker's role is: `start` before services start, `stop` after services and requests in progress have ended.
    """

    def authenticate(self, credentials: Credentials, client: ClientChannel) -> Principal | Awaitable[Principal]:
        """Return the principal of a request, or an awaitable of it; later requests of the connection wait for it.

        Called without credentials for a client that sends none; ``client.certificate`` may identify it.

        Raises:
            GantryError: the request is refused with its code, such as NoPermission (16).
        """

    def authorize(self, principal: Principal, actions: tuple[Action, ...], resource: Resource) -> Decision:
        """Decide whether *principal* may perform at least one of *actions*; called once, then cached until `forget`.

        *resource* is a topic, a consumer group (for its retry topic, too), or the cluster, by name.
        """


@runtime_checkable
class AuthorizerState(Protocol):
    """An authorizer whose users and permissions replicas take over from their master; optional, both methods together.

    On a broker that is no master, requests that change them must be refused.
    """

    def state_texts(self, reader: Principal | None) -> Mapping[str, str]:
        """Return the files in force by name, such as ``users.json``: the same texts until something changes.

        *reader* is the replica's account, None the broker itself. Without files nothing is copied, for example because
        they are mounted.

        Raises:
            NoPermission: *reader* may not know all secrets.
        """

    async def take_state(self, texts: Mapping[str, str]) -> None:
        """Replace the state of a replica and save it. Afterwards `state_texts` returns *texts*.

        Raises:
            FormatError: a text cannot be read; nothing has changed.
            StoreError: it could not be saved.
        """


class AccessSummary(NamedTuple):
    """How a broker controls access."""

    authorizer: str = ""  # its name; empty: everything is allowed
    strategy: str = ""  # stateless: each signature is checked; stateful: the first ones of a connection
    exposures: Sequence[str] = ()  # sentences about addresses that other machines can reach without access control


class Access(Protocol):
    """Access decisions; `Broker.access`. Everything is allowed if no authorizer is selected."""

    @property
    def summary(self) -> AccessSummary:
        """Which requests are controlled, and how."""

    @property
    def authorizer(self) -> Authorizer | None:
        """The selected authorizer, for the request handlers of its plugin; None: everything is allowed."""

    def check(self, principal: Principal | None, actions: Action | Sequence[Action], resource: Resource) -> None:
        """Return if *principal* may perform at least one of the actions; None is the broker itself.

        Raises:
            RequestRefused: it may not; with the code of the decision, 16 (NO_PERMISSION) by default.
        """

    def check_send(self, principal: Principal | None, topic: str) -> None:
        """Check that a producer may send to a topic: Pub, or Sub on the group of a retry topic. Raises like `check`."""

    def check_consumer(self, principal: Principal | None, group: str, topic: str) -> None:
        """Check that a member of a group may read a topic: Sub on both. Raises like `check`."""

    def identify(self, credentials: Credentials, client: ClientChannel) -> Principal | Awaitable[Principal] | None:
        """Return the principal of a request, from the cache if possible; None without access control.

        For plugins that serve another protocol; they pass the principal on in the requests of operations. An awaitable
        must be awaited before later requests of the client are served.

        Raises:
            GantryError: the client is not who it says; also raised by the awaitable.
        """

    def may_consume(self, principal: Principal | None, group: str, topic: str) -> bool:
        """Return whether `check_consumer` passes, for requests that wait."""

    def forget(self) -> None:
        """Drop all cached decisions and principals; call this after users or permissions have changed.

        Within a second, connections of users that are not valid any more are closed, and consumers without permission
        leave their groups.
        """

    async def changed(self) -> None:
        """Call `forget`, and wait until the replicas of this master have the changed state (`AuthorizerState`).

        For the answer to a request that changes users or permissions.

        Raises:
            ServiceNotAvailable: a replica did not take it in time; the change is in force on this broker.
        """

    def confirm_changes(self, confirm: Callable[[], Awaitable[None]] | None) -> None:
        """Await *confirm* in `changed`; None: no more. For the plugin that copies the state to replicas."""

    def state_texts(self, reader: Principal | None) -> Mapping[str, str]:
        """Return the state of the authorizer, as `AuthorizerState`; no files if it has none."""

    def on_recheck(self, recheck: Callable[[], Awaitable[Any]]) -> Callable[[], None]:
        """Await ``recheck()`` within a second after `forget`, to check again what waits. Exceptions are logged.

        Return a function that removes it.
        """
