"""Who sent a request, and whether its user may make it.

    authorization: MQv2-HMAC-SHA1 Credential=ACCESS_KEY, SignedHeaders=x-mq-date-time, Signature=HEX

The signature covers the text of ``x-mq-date-time`` only, so it says nothing about the request; its time cannot be
checked, because SDKs write local time. The header is not parsed if the broker has no access control: one SDK sends an
empty one then.

A request is refused in RocketMQ's order: signature, permission, client id, and then its contents.

Source: apache/rocketmq auth/.../authentication/builder/DefaultAuthenticationContextBuilder.java,
auth/.../authorization/builder/DefaultAuthorizationContextBuilder.java.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable
from typing import Any, Final

from gantrymq.errors import GantryError, NoPermission, RequestRefused
from gantrymq.plugin.interfaces import Access, LocalClient
from gantrymq.plugin.model import Action, Principal, group_resource, topic_resource
from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.definitions import ClientType, Code, Resource
from gantrymq_grpc.transport.call import Call

_PUB_OR_SUB: Final = (Action.PUB, Action.SUB)
_WITHOUT_GROUP: Final = (ClientType.CLIENT_TYPE_UNSPECIFIED, ClientType.PRODUCER)


class GrpcCredentials:
    """The credentials of a request (`gantrymq.interfaces.Credentials`)."""

    __slots__ = ("_date_time", "access_key", "request", "security_token", "signature")

    def __init__(self, call: Call, request: str) -> None:
        """*request*: full name of the message. Raises Refused if the metadata are malformed."""
        metadata = call.metadata
        self.request: int | str = request
        self.access_key = self.signature = ""
        self.security_token = metadata.get("x-mq-session-token", "")
        self._date_time = ""
        header = metadata.get("authorization", "")
        if not header:
            return
        self._date_time = metadata.get("x-mq-date-time", "")
        if not self._date_time:
            raise _unauthorized("datetime is null.")
        if not (header.isascii() and self._date_time.isascii()):  # bytes that no text of an answer can have
            raise _unauthorized("authentication header is incorrect.")
        _, space, rest = header.partition(" ")
        parts = [part.strip().partition("=") for part in rest.split(",")]
        if not space or not all(mark for _, mark, _ in parts):
            raise _unauthorized("authentication header is incorrect.")
        values = {name.strip(): value.strip() for name, _, value in parts}
        self.access_key = values.get("Credential", "").partition("/")[0]
        try:
            self.signature = base64.b64encode(binascii.unhexlify(values.get("Signature", ""))).decode()
        except ValueError:
            raise _unauthorized("create authentication context error.") from None

    def signed_content(self) -> bytes:
        """Return the text of ``x-mq-date-time``."""
        return self._date_time.encode()


class RequestAccess:
    """Authentication and authorization of the requests of one broker.

    Both check a request when it comes in. `Access` ends what goes on when users or permissions change: it closes the
    clients (`GrpcClient.close`) and refuses held receives.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._active = bool(access.summary.authorizer)
        self._needs: dict[str, Callable[[Any, Principal], object]] = {
            "QueryRoute": self._route,
            "SendMessage": lambda request, principal: self._publish(
                principal, [each.topic for each in request.messages[:1]] or [Resource()]
            ),
            "RecallMessage": lambda request, principal: self._publish(principal, [request.topic]),
            "EndTransaction": lambda request, principal: self._publish(principal, [request.topic]),
            "Heartbeat": self._heartbeat,
            "ReceiveMessage": lambda request, principal: self._consume(
                principal, request.group, [request.message_queue.topic]
            ),
            "AckMessage": self._consume_one,
            "ForwardMessageToDeadLetterQueue": self._consume_one,
            "QueryAssignment": self._consume_one,
            "SyncLiteSubscription": self._consume_one,
            "ChangeInvisibleDuration": lambda request, principal: self._consume(principal, request.group, ()),
            "NotifyClientTermination": self._termination,
        }

    def identify(self, call: Call, request: str) -> Principal | Awaitable[Principal] | None:
        """Return who sent a request; None without access control. *request*: name of the method's message.

        Raises:
            Refused: the client is not who it says, or its metadata are malformed; also raised by the awaitable.
            GantryError: the authorizer failed; also raised by the awaitable.
        """
        if not self._active:
            return None
        try:
            found = self._access.identify(GrpcCredentials(call, request), channel_of(call))
        except GantryError as error:
            raise _answered(error) from None
        return self._identified(found) if isawaitable(found) else found

    async def _identified(self, principal: Awaitable[Principal]) -> Principal:
        try:
            return await principal
        except GantryError as error:
            raise _answered(error) from None

    def check(self, method: str, request: Any, principal: Principal | None) -> None:
        """Check that *principal* may make a request. Raises Refused if it may not, or if it names no topic or group."""
        needs = self._needs.get(method)
        if principal is None or needs is None:
            return
        try:
            needs(request, principal)
        except GantryError as error:
            raise _answered(error) from None

    def check_settings(self, settings: Any, principal: Principal | None) -> None:
        """Check the settings of a client in the same way."""
        if principal is None:
            return
        try:
            match settings.WhichOneof("pub_sub"):
                case "publishing":
                    self._publish(principal, settings.publishing.topics)
                case "subscription":
                    subscription = settings.subscription
                    self._consume(principal, subscription.group, [each.topic for each in subscription.subscriptions])
        except GantryError as error:
            raise _answered(error) from None

    def _route(self, request: Any, principal: Principal) -> None:
        self._access.check(principal, _PUB_OR_SUB, topic_resource(_named(request.topic, "topic")))

    def _publish(self, principal: Principal, topics: Iterable[Resource]) -> None:
        for topic in topics:
            self._access.check_send(principal, _named(topic, "topic"))

    def _consume(self, principal: Principal, group: Resource, topics: Sequence[Resource]) -> None:
        name = _named(group, "group")
        self._access.check(principal, Action.SUB, group_resource(name))
        for topic in topics:
            self._access.check_consumer(principal, name, _named(topic, "topic"))

    def _consume_one(self, request: Any, principal: Principal) -> None:
        self._consume(principal, request.group, [request.topic])

    def _heartbeat(self, request: Any, principal: Principal) -> None:
        if request.client_type not in _WITHOUT_GROUP:
            self._consume(principal, request.group, ())

    def _termination(self, request: Any, principal: Principal) -> None:
        if request.group.name.strip():
            self._consume(principal, request.group, ())


def channel_of(call: Call) -> LocalClient:
    """Return the channel of a call's connection, which keeps its principals."""
    notes = call.connection.notes
    channel: LocalClient | None = notes.get("channel")
    if channel is None:
        channel = notes["channel"] = LocalClient(
            call.peer, listener=call.listener, certificate=call.certificate, encrypted=call.encrypted
        )
    return channel


def _answered(error: GantryError) -> GantryError:
    """Return what a client is answered with: UNAUTHORIZED and RocketMQ's text, unless the authorizer itself failed."""
    if not isinstance(error, NoPermission | RequestRefused):
        return error
    cause = error.__cause__  # for remoting clients, the broker adds words to the text of the authorizer
    return _unauthorized(str(cause if isinstance(cause, GantryError) else error))


def _unauthorized(text: str) -> Refused:
    return Refused(Code.UNAUTHORIZED, text)


def _named(resource: Resource, kind: str) -> str:
    if not resource.name.strip():
        raise _unauthorized(f"{kind} is null.")
    return resource.name
