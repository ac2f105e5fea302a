"""Access control: who a client is, and what it may do."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from gantrymq.interfaces.client_channel import ClientChannel
from gantrymq.model.access import Action, Decision, Principal, Resource

__all__ = ["Access", "Authorizer", "Credentials"]


class Credentials(Protocol):
    """What a request says about its sender; in remoting, header fields of RocketMQ's ACL hook."""

    access_key: str  # empty: none
    signature: str  # in base64; an HMAC-SHA1 of `signed_content` with the secret key
    security_token: str  # empty: none

    def signed_content(self) -> bytes:
        """Return the bytes that the signature covers."""


class Authorizer(Protocol):
    """Identifies clients and decides about their requests; ``authorizer=NAME`` selects one.

    An attribute is optional: ``each_request``, True to authenticate every request. Otherwise a principal is cached for
    its connection and access key, and the signatures of later requests are not checked.

    Two methods are optional together, ``async start(broker)`` and ``async stop()``. They are called once, whatever the
    broker's role is: `start` before services start, `stop` after services and requests in progress have ended.
    """

    def authenticate(self, credentials: Credentials, client: ClientChannel) -> Principal | Awaitable[Principal]:
        """Return the principal of a request, or an awaitable of it; later requests of the connection wait for it.

        Called without credentials for a client that sends none; ``client.certificate`` may identify it.

        Raises:
            GantryError: the request is refused with its code, such as NoPermission (16).
        """

    def authorize(self, principal: Principal, action: Action, resource: Resource) -> Decision:
        """Decide whether *principal* may perform *action*; called once, then cached until `Access.forget`.

        *resource* is a topic, a consumer group (for its retry topic, too), or the cluster, by name.
        """


class Access(Protocol):
    """Access decisions; `Broker.access`. Everything is allowed if no authorizer is selected."""

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

    def forget(self) -> None:
        """Drop all cached decisions and principals; call this after users or permissions have changed."""
