"""The few calls of etcd's API v3 that the election needs, on the messages of the package aetcd.

aetcd's own client has one address and no TLS, so its stubs are used on channels made here: one for each endpoint, the
next one when a call fails. A failed transaction is not made again, because it may have had an effect. The
sockets are gRPC's, not the world's.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.world import Clock
from gantrymq_replication.election.engine import EngineRefused, EngineUnreachable

log = logging.getLogger("gantrymq.replication")

_OPTIONS: Final = (("grpc.enable_http_proxy", 0), ("grpc.max_reconnect_backoff_ms", 1000))
_NEEDS_LEADER: Final = (("hasleader", "true"),)  # a member without a majority answers with an error at once
_WATCH_AGAIN_S: Final = 0.5
_CONNECTING: Final = re.compile(r"^failed to connect to all addresses; last error: \w+: (?:ipv[46]:\S+: )?")
_MEANINGS: Final[tuple[tuple[str, str], ...]] = (
    ("Connection refused", "nothing listens there"),
    ("DNS resolution failed", "its name is not known"),
    ("Deadline Exceeded", "it did not answer in time"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not signed by an authority in etcdCaPath"),
    ("Hostname Verification", "its certificate is for other names than the one in etcdEndpoints"),
    ("etcdserver: no leader", "it knows no leader: more than half of etcd's members must be alive"),
    ("etcdserver: request timed out", "it has no majority: more than half of etcd's members must be alive"),
    ("etcdserver: authentication failed", "its name or password is wrong; see etcdUser and etcdPasswordPath"),
    ("etcdserver: user name is empty", "it asks for a user: set etcdUser and etcdPasswordPath"),
    ("etcdserver: authentication is not enabled", "it has no users: remove etcdUser, or run 'etcdctl auth enable'"),
)
_WITH_TLS: Final[tuple[tuple[str, str], ...]] = (
    ("Unwrap failed", "it refuses this broker's certificate: see etcdCertPath"),
    ("Handshake read failed", "it closed the connection during the TLS handshake; if it has no TLS, remove etcdCaPath"),
    ("WRONG_VERSION_NUMBER", "it has no TLS: remove etcdCaPath"),
)
_WITHOUT_TLS: Final[tuple[tuple[str, str], ...]] = (
    ("Socket closed", "it closed the connection; if it has TLS, set etcdCaPath"),
)


class KeyValue(NamedTuple):
    """A key of etcd."""

    value: bytes
    revision: int  # of its last change
    lease: int  # 0: none


@attrs.frozen(kw_only=True)
class Txn:
    """A transaction: writes, if all comparisons hold."""

    absent: tuple[str, ...] = ()
    revisions: Mapping[str, int] = attrs.field(factory=dict)  # of the last change, by key
    leases: Mapping[str, int] = attrs.field(factory=dict)  # by key
    puts: Mapping[str, tuple[bytes, int]] = attrs.field(factory=dict)  # value and lease by key
    deletes: tuple[str, ...] = ()


class Etcd(Protocol):
    """The calls of etcd that the engine makes. They raise `EngineUnreachable`, or `EngineRefused` without rights."""

    async def version(self) -> str:
        """Return the version of the member that answers, such as 3.4.23."""

    async def read(self, prefixes: Sequence[str]) -> dict[str, KeyValue]:
        """Return all keys with one of *prefixes*, at one moment, as a majority of etcd has them."""

    async def commit(self, txn: Txn) -> int:
        """Commit; return the revision of the writes, or 0 if a comparison failed and nothing was written."""

    async def grant(self, ttl_s: int) -> int:
        """Return a new lease that lives for *ttl_s* seconds after its last renewal."""

    async def keep_alive(self, lease: int) -> bool:
        """Renew a lease; return False if it does not exist any more."""

    async def revoke(self, lease: int) -> None:
        """End a lease and delete its keys."""

    async def watch(self, keys: Sequence[str], changed: Callable[[], Awaitable[None]]) -> None:
        """Call *changed* after changes of *keys*, and whenever some may have been missed. Runs until cancelled."""

    async def close(self) -> None:
        """Close the connections."""


@attrs.frozen(kw_only=True)
class EtcdClientSettings:
    """How to reach etcd."""

    endpoints: tuple[str, ...]  # HOST:PORT each
    user: str = ""
    password: str = attrs.field(default="", repr=False)
    tls: bool = False
    ca: bytes | None = None  # PEM; None: the system's
    certificate: bytes | None = None  # PEM, of this client
    key: bytes | None = attrs.field(default=None, repr=False)
    call_s: float = 1.5


class EtcdClient:
    """`Etcd` over gRPC. Create it in a running event loop."""

    def __init__(self, clock: Clock, rules: EtcdClientSettings) -> None:
        """Read no file and open no connection.

        Raises:
            ConfigError: the package aetcd is missing.
        """
        try:
            os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it would log each failed connection on stderr
            import grpc
            from aetcd import rpc
        except ImportError as error:
            raise ConfigError(
                f"electionEngine=etcd needs the package aetcd ({error}); install it with: pip install 'aetcd>=1.0,<2'"
            ) from error
        self._rpc: ModuleType = rpc
        self._clock, self._rules = clock, rules
        secure = None
        if rules.tls:
            secure = grpc.ssl_channel_credentials(rules.ca, rules.key, rules.certificate)
        self._channels = [
            rpc.insecure_channel(each, _OPTIONS) if secure is None else rpc.secure_channel(each, secure, _OPTIONS)
            for each in rules.endpoints
        ]
        self._at = 0  # the endpoint in use
        self._token = ""

    @property
    def endpoint(self) -> str:
        """The endpoint in use."""
        return self._rules.endpoints[self._at]

    async def close(self) -> None:
        """Close the connections."""
        for each in self._channels:
            await each.close()

    async def version(self) -> str:
        """See `Etcd.version`."""
        rpc = self._rpc
        answer = await self._call(lambda channel: rpc.MaintenanceStub(channel).Status, rpc.StatusRequest(), again=True)
        return str(answer.version)

    # --- keys --------------------------------------------------------------------------------------------------------

    async def read(self, prefixes: Sequence[str]) -> dict[str, KeyValue]:
        """See `Etcd.read`."""
        rpc = self._rpc
        gets = [
            rpc.RequestOp(request_range=rpc.RangeRequest(key=each.encode(), range_end=_after(each)))
            for each in prefixes
        ]
        answer = await self._call(lambda channel: rpc.KVStub(channel).Txn, rpc.TxnRequest(success=gets), again=True)
        found = {}
        for response in answer.responses:
            for each in response.response_range.kvs:
                found[each.key.decode()] = KeyValue(each.value, each.mod_revision, each.lease)
        return found

    async def commit(self, txn: Txn) -> int:
        """See `Etcd.commit`."""
        rpc, compare = self._rpc, self._rpc.Compare
        comparisons = [
            *(
                compare(key=each.encode(), target=compare.VERSION, result=compare.EQUAL, version=0)
                for each in txn.absent
            ),
            *(
                compare(key=each.encode(), target=compare.MOD, result=compare.EQUAL, mod_revision=revision)
                for each, revision in txn.revisions.items()
            ),
            *(
                compare(key=each.encode(), target=compare.LEASE, result=compare.EQUAL, lease=lease)
                for each, lease in txn.leases.items()
            ),
        ]
        writes = [
            *(
                rpc.RequestOp(request_put=rpc.PutRequest(key=each.encode(), value=value, lease=lease))
                for each, (value, lease) in txn.puts.items()
            ),
            *(rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=each.encode())) for each in txn.deletes),
        ]
        asked = rpc.TxnRequest(compare=comparisons, success=writes)
        answer = await self._call(lambda channel: rpc.KVStub(channel).Txn, asked, again=False)
        return int(answer.header.revision) if answer.succeeded else 0

    # --- leases ------------------------------------------------------------------------------------------------------

    async def grant(self, ttl_s: int) -> int:
        """See `Etcd.grant`."""
        rpc = self._rpc
        asked = rpc.LeaseGrantRequest(TTL=ttl_s)
        return int((await self._call(lambda channel: rpc.LeaseStub(channel).LeaseGrant, asked, again=True)).ID)

    async def keep_alive(self, lease: int) -> bool:
        """See `Etcd.keep_alive`."""
        rpc = self._rpc

        def one(channel: Any) -> Callable[..., Awaitable[Any]]:
            async def call(asked: Any, **more: Any) -> Any:
                stream = rpc.LeaseStub(channel).LeaseKeepAlive(iter([asked]), **more)
                async for answer in stream:
                    return answer
                raise EngineUnreachable(f"etcd at {self.endpoint} does not renew a lease")

            return call

        return int((await self._call(one, rpc.LeaseKeepAliveRequest(ID=lease), again=True)).TTL) > 0

    async def revoke(self, lease: int) -> None:
        """See `Etcd.revoke`."""
        rpc = self._rpc
        with suppress(_NotFound):
            await self._call(
                lambda channel: rpc.LeaseStub(channel).LeaseRevoke, rpc.LeaseRevokeRequest(ID=lease), again=True
            )

    # --- changes -----------------------------------------------------------------------------------------------------

    async def watch(self, keys: Sequence[str], changed: Callable[[], Awaitable[None]]) -> None:
        """See `Etcd.watch`. A watch begins at the present, so that it never asks for compacted revisions."""
        rpc = self._rpc
        while True:
            try:
                if self._rules.user and not self._token:
                    await self._authenticate()
                stream = rpc.WatchStub(self._channels[self._at]).Watch(metadata=self._metadata())
                for each in keys:
                    await stream.write(rpc.WatchRequest(create_request=rpc.WatchCreateRequest(key=each.encode())))
                created = 0
                async for answer in stream:
                    if answer.canceled:
                        break
                    created += answer.created
                    if answer.events or (answer.created and created == len(keys)):
                        await changed()
                stream.cancel()
            except rpc.AioRpcError as error:
                self._token = ""  # the token itself may be refused
                with suppress(EngineRefused):
                    self._failed(error)
            except Exception as error:  # grpc has errors of its own for streams that end while they are written
                if not isinstance(error, (EngineUnreachable, EngineRefused)):
                    log.warning("the watch of etcd at %s ended: %r", self.endpoint, error)
                self._next()
            await self._clock.sleep(_WATCH_AGAIN_S)

    # --- endpoints ---------------------------------------------------------------------------------------------------

    async def _call(self, method: Callable[[Any], Any], asked: Any, *, again: bool) -> Any:
        """Call *method* of a channel; with *again*, of each endpoint until one answers.

        Raises:
            EngineUnreachable: there is no answer.
            EngineRefused: etcd refuses, because of missing rights or a wrong password.
        """
        problems = []
        tokens = 1
        attempts = len(self._channels) if again else 1
        while attempts:
            try:
                if self._rules.user and not self._token:
                    await self._authenticate()
                channel = self._channels[self._at]
                return await method(channel)(asked, timeout=self._rules.call_s, metadata=self._metadata())
            except self._rpc.AioRpcError as error:
                if self._token_ended(error) and tokens:  # the request was not executed
                    tokens -= 1
                    self._token = ""
                    continue
                problems.append(self._failed(error))
            attempts -= 1
        raise EngineUnreachable(f"etcd does not answer: {'; '.join(sorted(problems))}")

    def _metadata(self) -> Iterable[tuple[str, str]]:
        return (*_NEEDS_LEADER, ("token", self._token)) if self._token else _NEEDS_LEADER

    async def _authenticate(self) -> None:
        rpc, rules = self._rpc, self._rules
        asked = rpc.AuthenticateRequest(name=rules.user, password=rules.password)
        try:
            answer = await rpc.AuthStub(self._channels[self._at]).Authenticate(asked, timeout=rules.call_s)
        except rpc.AioRpcError as error:
            if error.code() == rpc.StatusCode.INVALID_ARGUMENT:
                why = explain(str(error.details()), tls=rules.tls)
                raise EngineRefused(f"etcd at {self.endpoint} refuses user {rules.user!r}: {why}") from error
            raise
        self._token = str(answer.token)

    def _token_ended(self, error: Any) -> bool:
        return bool(self._token) and "invalid auth token" in str(error.details())

    def _failed(self, error: Any) -> str:
        """Use the next endpoint; return the outcome.

        Raises:
            EngineRefused: another endpoint would say the same.
        """
        code, status = error.code(), self._rpc.StatusCode
        text = f"{self.endpoint}: {explain(error.details() or code.name, tls=self._rules.tls)}"
        if code == status.NOT_FOUND:
            raise _NotFound(text)
        if code == status.PERMISSION_DENIED:
            raise EngineRefused(f"etcd at {text}; user {self._rules.user!r} needs the right to read and write the keys")
        if code in (status.INVALID_ARGUMENT, status.UNAUTHENTICATED, status.FAILED_PRECONDITION):
            raise EngineRefused(f"etcd at {text}")
        self._next()
        return text

    def _next(self) -> None:
        self._at = (self._at + 1) % len(self._channels)
        self._token = ""  # tokens are valid at every member, but a restarted one may have forgotten them


class _NotFound(EngineRefused):
    """A lease does not exist."""


def _after(prefix: str) -> bytes:
    """Return the first key after those with *prefix*."""
    last = prefix.encode()
    return last[:-1] + bytes([last[-1] + 1])


def explain(details: str, *, tls: bool) -> str:
    """Return the meaning of gRPC's *details*; unknown ones without their common first words."""
    for text, meaning in (*_MEANINGS, *(_WITH_TLS if tls else _WITHOUT_TLS)):
        if text in details:
            return meaning
    return _CONNECTING.sub("", details)
