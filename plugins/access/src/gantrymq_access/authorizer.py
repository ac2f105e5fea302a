"""The authorizer ``acl``: who a client is by its signature or certificate, and what its policies allow.

Source: apache/rocketmq auth/.../authentication/chain/DefaultAuthenticationHandler.java,
authorization/chain/{UserAuthorizationHandler,AclAuthorizationHandler}.java.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import attrs

from gantrymq.errors import (
    ConfigError,
    GantryError,
    NoPermission,
    PluginError,
    RequestRefused,
    ServiceNotAvailable,
)
from gantrymq.plugin.interfaces import AuthorizerContext, Broker, ClientChannel, Credentials
from gantrymq.plugin.model import Action, Decision, Principal, Resource, ResourceType, Role, is_signature
from gantrymq.plugin.network import inner_credentials
from gantrymq_access.audit import Audit, names
from gantrymq_access.decisions import Decider
from gantrymq_access.files import AccessFiles, Found
from gantrymq_access.logins import FailedLogins
from gantrymq_access.records import MAX_NAME, Acl, EntryAction, EntryType, User, UserType
from gantrymq_access.report import Report
from gantrymq_access.service import CLOSE_CLIENTS
from gantrymq_access.settings import AccessOptions
from gantrymq_access.state import ACLS, USERS, AccessState, read_acls, read_users

log = logging.getLogger(__name__)

ADMINISTRATION: Final = frozenset({*range(3001, 3011), CLOSE_CLIENTS})  # requests about users, also their connections
PERIOD_S: Final = 1.0  # between looks at the files
CLOSING_S: Final = 3.0  # for which connections of a user are closed; a recheck takes up to a second
STATEFUL_S: Final = 60.0  # for which principals and decisions are cached
MAX_CALLERS: Final = 65_536  # cached
_ACTIONS: Final = {action: EntryAction(action.value) for action in Action}
_NO_POLICIES: Final = Decider(Acl(""))


class Problem(NamedTuple):
    """Why a client is refused."""

    word: str  # for the audit log and metrics
    text: str  # RocketMQ's


@attrs.frozen(cache_hash=True)
class Caller(Principal):
    """The sender of a request."""

    listener: str = ""
    problem: Problem | None = None  # why it is not known; None: it has proved that it is the user `name`


class AclAuthorizer:
    """The authorizer of one broker or name server."""

    def __init__(self, context: AuthorizerContext) -> None:
        """Parse the settings. Raises ConfigError."""
        self.options = AccessOptions.of(context.settings)
        self.each_request = self.options.each_request
        self.state = AccessState.of({}, {})
        self.audit = Audit(context.world, context.settings)
        self.report = Report(context.world.clock)
        self._world, self._settings = context.world, context.settings
        self._inner = inner_credentials(context.settings)
        self._logins = FailedLogins(context.world.clock)
        self._callers: dict[tuple[Any, ...], Caller] = {}
        self._changing = asyncio.Lock()
        self._broker: Broker | None = None
        self._writable = context.writable
        self._files = AccessFiles(context.world.files, context.folder)
        self._stamp: object = None
        self._mounted: str = ""  # a file that must not be written
        self._watching: asyncio.Task[None] | None = None
        self._beginning: asyncio.Task[None] | None = None  # creates the first users of an elected set
        self._unlisten: Callable[[], None] = lambda: None
        self._closing: dict[str, float] = {}  # users whose connections are closed, until this time

    # --- start and stop -----------------------------------------------------------------------------------------------

    async def start(self, broker: Broker) -> None:
        """Read users and policies. Raises PluginError, if the broker must not start with them."""
        self._broker = broker
        try:
            self._take(await self._world.workers.run(self._files.read))
            if self._writable:
                await self._add_first_users()
        except GantryError as error:
            raise PluginError(str(error)) from error
        if self._writable:
            self._warn_without_super()
        if self.options.reporting:
            log.warning("accessMode=report: access control refuses nothing but changes of users and policies")
        if self._writable:  # else a name server, which has neither a store nor metrics
            self.audit.start(broker.state_folder("access"))
            broker.metrics.register(self.audit.metric)
            if self._is_copy:
                self._unlisten = broker.role.on_changed(self._role_changed)
        self._watching = asyncio.create_task(self._watch(broker))

    def _warn_without_super(self) -> None:
        if not any(user.is_super and user.is_enabled for user in self.state.users.values()):
            log.warning(
                "access control is on and there is no enabled Super user in %s: only what other users may do is "
                "served, until the users come from a master, or initAuthenticationUser creates one",
                self._place(USERS),
            )

    async def stop(self) -> None:
        """Stop watching, and write what the audit log has."""
        self._unlisten()
        for task in filter(None, (self._watching, self._beginning)):
            task.cancel()
            await asyncio.wait([task])
        await self.audit.stop()

    def _role_changed(self, role: Role, epoch: int) -> None:
        if role is Role.MASTER and not self.state.users and self._beginning is None:
            self._beginning = asyncio.create_task(self._begin_set())

    async def _begin_set(self) -> None:
        """Create the users of the settings on the first master of an elected set, which has no users to copy."""
        try:
            async with self._changing:
                if not self.state.users:
                    await self._add_first_users(first=True)
            assert self._broker is not None
            await self._broker.access.changed()
        except GantryError as error:
            log.warning("the first users of this set: %s", error)
        except Exception:
            log.exception("the first users of this set could not be created")
        finally:
            self._beginning = None

    async def _add_first_users(self, *, first: bool = False) -> None:
        """Create the users of the settings that are missing; a copy gets them from its master, except the *first*."""
        wanted = [] if self.options.first_user is None else [self.options.first_user]
        if self._inner is not None:
            found = self.state.users.get(self._inner.access_key)
            if found is None:
                wanted.append(User(self._inner.access_key, self._inner.secret_key, UserType.SUPER))
            elif not self._is_secret(found, self._inner.secret_key):
                sentence = (
                    f"innerClientAuthenticationCredentials: the secret of {found.name} is another one in "
                    f"{self._place(USERS)}; correct one of the two"
                )
                if self._is_copy:
                    log.warning("%s", sentence)
                else:
                    raise ConfigError(sentence)
        state = self.state
        for user in wanted:
            if user.name not in state.users:
                state = state.with_user(user)
        if state is self.state or (self._is_copy and not first):
            return
        if self._mounted:
            missing = ", ".join(sorted(state.users.keys() - self.state.users.keys()))
            raise ConfigError(
                f"{self._mounted} is mounted and lacks user {missing}, whom a setting names; add it there"
            )
        await self._write(state)

    @property
    def _is_copy(self) -> bool:
        """Whether the users of this broker may be those of another one."""
        schema = self._settings.schema
        role = self._settings.text("brokerRole") if "brokerRole" in schema else ""
        elected = "enableControllerMode" in schema and self._settings.flag("enableControllerMode")
        return role == "SLAVE" or elected

    def _is_secret(self, user: User, secret: str) -> bool:
        """Return whether a secret of the settings is valid for a user now."""
        old = user.old_secret if self._world.clock.now_ms() < user.old_secret_until_ms else ""
        return secret in (user.secret, old)

    async def _watch(self, broker: Broker) -> None:
        """Read the files again when they change; end what is cached for too long."""
        warned, forgotten = "", self._world.clock.monotonic()
        warn_later = not self._writable  # the broker of the process writes the first users a moment later
        while True:
            await self._world.clock.sleep(PERIOD_S)
            try:
                async with self._changing:
                    changed = await self._read_again()
                if changed:
                    log.info("users and policies have changed in %s and are in force", self._files.folder)
                    broker.access.forget()
                    if self._writable:
                        await broker.access.changed()
                warned = ""
            except (GantryError, OSError) as error:
                if str(error) != warned:
                    warned = str(error)
                    log.warning("%s; the users and policies read before stay in force", error)
            except Exception:
                log.exception("looking for changes in %s failed; the users before stay in force", self._files.folder)
            if warn_later:
                warn_later = False
                self._warn_without_super()
            if not self.each_request and self._world.clock.monotonic() - forgotten >= STATEFUL_S:
                forgotten = self._world.clock.monotonic()
                broker.access.forget()

    async def _read_again(self) -> bool:
        """Read the files if they have changed, and return whether they had."""
        if await self._world.workers.run(self._files.stamp) == self._stamp:
            return False
        before = self.state.texts
        self._take(await self._world.workers.run(self._files.read))
        return self.state.texts != before

    def _take(self, found: Found) -> None:
        self.state, self._stamp = found.state, found.stamp
        self._mounted = "" if found.mounted is None else str(found.mounted)

    def _place(self, name: str) -> str:
        return str(self._files.folder / name)

    def close_clients(self, name: str) -> None:
        """Close the connections of a user within a second; new ones are closed for `CLOSING_S`, too."""
        assert self._broker is not None
        self._closing[name] = self._world.clock.monotonic() + CLOSING_S
        self._broker.access.forget()

    def _is_closing(self, name: str) -> bool:
        until = self._closing.get(name, 0.0)
        if until and until <= self._world.clock.monotonic():
            del self._closing[name]
            until = 0.0
        return bool(until)

    # --- changes ------------------------------------------------------------------------------------------------------

    async def change(
        self, make: Callable[[AccessState], AccessState], caller: Principal, event: Mapping[str, Any]
    ) -> None:
        """Put the state that *make* returns in force, and return when it is stored and replicas have it.

        Args:
            make: returns the new state; run in a thread.
            caller: who asks; checked again, because changes that were made first may have taken its rights away.
            event: members of the line in the audit log.

        Raises:
            NoPermission: the caller may not update the cluster any more.
            RequestRefused: code 1, the users and policies of this broker come from its master or from mounted files.
            StoreError: a file cannot be written. Other exceptions are those of *make*.
        """
        broker = self._broker
        if broker is None:
            raise ServiceNotAvailable("service not available now: this server is stopping")
        async with self._changing:
            _check_master(broker)
            if self._mounted:
                raise RequestRefused(
                    1, f"users and policies come from {self._mounted}, which is mounted; change them there"
                )
            await self._read_again()
            lacked = self.problem(caller, (Action.UPDATE,), Resource(ResourceType.CLUSTER, broker.registration.cluster))
            if lacked is not None:
                raise NoPermission(lacked.text)
            state = await self._world.workers.run(make, self.state)
            if state is self.state:
                return
            _check_master(broker)  # it may have another role since
            await self._write(state)
            broker.access.forget()  # the audit log may be on a slow disk
            await self.audit.changed(event)
        await broker.access.changed()

    async def _write(self, state: AccessState) -> None:
        # Policies first: an interrupted deletion leaves a user without policies, not policies for the next namesake.
        order = sorted(state.texts, key=lambda name: name == USERS)
        texts = {name: state.texts[name] for name in order if state.texts[name] != self.state.texts.get(name)}
        self._stamp = await self._world.workers.run(self._files.write, texts)
        self.state = state

    def state_texts(self, reader: Principal | None) -> Mapping[str, str]:
        """Return the files for a replica by name; none if they are mounted, as those of the replica are.

        Raises:
            NoPermission: *reader* is no Super user; None is the broker itself.
        """
        if reader is not None and not self.is_super(reader):
            raise NoPermission(f"User:{reader.name} is not a Super user, which copying users and policies needs")
        return {} if self._mounted else self.state.texts

    async def take_state(self, texts: Mapping[str, str]) -> None:
        """Replace users and policies by those of a master; does nothing if the files are mounted.

        Raises:
            FormatError: a text is malformed; nothing has changed.
            StoreError: a file cannot be written.
        """
        async with self._changing:
            if self._mounted:
                return
            await self._write(await self._world.workers.run(_parsed, dict(texts)))

    # --- who ----------------------------------------------------------------------------------------------------------

    def authenticate(self, credentials: Credentials, client: ClientChannel) -> Principal | Awaitable[Principal]:
        """Return the user of a request, by its signature, or by the certificate of a client without an access key."""
        source, listener, request = client.peer[0], client.listener, credentials.request
        try:
            name = self._user_of(credentials, client)
        except _Unknown as unknown:
            problem = unknown.problem
        else:
            return self._caller(name, source, request, listener, None)
        name = credentials.access_key
        options = self.options
        if request in options.open_logins:
            is_served = request in options.open_requests or not options.policies
            # A name that is not proved owns no locks and gets no replies.
            return self._caller("" if is_served else name, source, request, listener, problem)
        reporting = self.options.reporting and request not in ADMINISTRATION
        event = {"user": name, "source": source, "listener": listener, "request": request}
        self.audit.refused(problem.word, name if name in self.state.users else source, event, reporting=reporting)
        self.report.add(Principal(name[:MAX_NAME], source, request), (), "", problem.word)
        if reporting:
            return self._caller(name, source, request, listener, problem)
        refusal = NoPermission(problem.text)
        delay_s = 0.0 if problem.word == "no_account" else self._logins.failed(source)
        if delay_s:
            return self._refuse_later(refusal, delay_s)
        raise refusal

    async def _refuse_later(self, refusal: NoPermission, delay_s: float) -> Principal:
        await self._world.clock.sleep(delay_s)
        raise refusal

    def _user_of(self, credentials: Credentials, client: ClientChannel) -> str:
        """Return the name of the user who sent a request. Raises _Unknown."""
        name = credentials.access_key
        if not name:
            user = self.state.by_certificate.get(client.certificate) if client.certificate else None
            if user is None:
                raise _Unknown(Problem("no_account", "username cannot be null."))
        else:
            user = self.state.users.get(name)
        if user is None:
            raise _Unknown(Problem("unknown_user", f"User:{name[:MAX_NAME]} is not found."))
        if not user.is_enabled:
            raise _Unknown(Problem("disabled", f"User:{user.name} is disabled."))
        if name and not is_signature(credentials.signature, credentials.signed_content(), self.secrets_of(name)):
            raise _Unknown(Problem("wrong_signature", "check signature failed."))
        return user.name

    def secrets_of(self, access_key: str) -> Sequence[bytes]:
        """Return the secrets of a user that are valid now; the broker checks signatures of later requests with them."""
        user = self.state.users.get(access_key)
        if user is None or not user.is_enabled:
            return ()
        old = user.old_secret if self._world.clock.now_ms() < user.old_secret_until_ms else ""
        return [each.encode() for each in (user.secret, old) if each]

    def _caller(self, name: str, source: str, request: int | str, listener: str, problem: Problem | None) -> Caller:
        key = (name[:MAX_NAME], source, request, listener, problem)  # an unknown name may have megabytes
        found = self._callers.get(key)
        if found is None:
            if len(self._callers) >= MAX_CALLERS:
                self._callers.clear()
            found = self._callers[key] = Caller(*key)
        return found

    def is_valid(self, principal: Principal) -> bool:
        """Return whether the user of a principal still exists and is enabled."""
        if isinstance(principal, Caller) and principal.problem is not None:
            return True
        user = self.state.users.get(principal.name)
        return user is not None and user.is_enabled and not self._is_closing(principal.name)

    @property
    def inner_name(self) -> str:
        """The user with which this broker signs its own requests; empty if it has none."""
        return "" if self._inner is None else self._inner.access_key

    def is_super(self, principal: Principal | None) -> bool:
        """Return whether a request was sent by an enabled Super user."""
        if principal is None or (isinstance(principal, Caller) and principal.problem is not None):
            return False
        user = self.state.users.get(principal.name)
        return user is not None and user.is_enabled and user.is_super

    # --- what ---------------------------------------------------------------------------------------------------------

    def authorize(self, principal: Principal, actions: tuple[Action, ...], resource: Resource) -> Decision:
        """Decide by the user's policies whether it may perform one of *actions*."""
        problem = self.problem(principal, actions, resource)
        if problem is None:
            self.audit.allowed(_event(principal, actions, resource))
            return Decision(True)
        if self.options.reporting and principal.request not in ADMINISTRATION:
            if not (isinstance(principal, Caller) and principal.problem is not None):  # else recorded before
                self._record(problem.word, principal, actions, resource, reporting=True)
            return Decision(True)
        return Decision(False, problem.text)

    def on_refused(self, principal: Principal, actions: tuple[Action, ...], resource: Resource) -> None:
        """Record a refusal; called for each one, also if the decision was cached."""
        problem = self.problem(principal, actions, resource)
        word = "no_policy" if problem is None else problem.word
        self._record(word, principal, actions, resource, reporting=False)

    def _record(
        self, word: str, principal: Principal, actions: tuple[Action, ...], resource: Resource, *, reporting: bool
    ) -> None:
        self.audit.refused(word, principal.name, _event(principal, actions, resource), reporting=reporting)
        command = granting_command(principal.name, actions, resource) if word == "no_policy" else ""
        self.report.add(principal, names(actions), str(resource), word, command)

    def problem(self, principal: Principal, actions: tuple[Action, ...], resource: Resource) -> Problem | None:
        """Return why *principal* may not perform one of *actions* on *resource*; None if it may."""
        options, reserved = self.options, principal.request in ADMINISTRATION
        if principal.request in options.open_requests and not reserved:
            return None
        if isinstance(principal, Caller) and principal.problem is not None:
            if principal.request in options.open_logins and not options.policies and not reserved:
                return None
            return principal.problem
        user = self.state.users.get(principal.name)
        if user is None:
            return Problem("unknown_user", f"User:{principal.name} not found.")
        if not user.is_enabled:
            return Problem("disabled", f"User:{user.name} is disabled.")
        if user.is_super:
            return None
        if not options.policies:
            if reserved:
                return Problem("not_super", "without authorizationEnabled=true only a Super user manages users")
            return None
        verdict = self.state.deciders.get(user.name, _NO_POLICIES).decide(
            [_ACTIONS[each] for each in actions], EntryType(resource.type.value), resource.name, principal.source
        )
        if verdict.allowed:
            return None
        text = f"User:{user.name} has no permission to access {resource} from {principal.source}, {verdict.reason}."
        return Problem("no_policy" if verdict.entry is None else "denied", text)


class _Unknown(Exception):
    """A client is not known."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


def _check_master(broker: Broker) -> None:
    if broker.role.current is not Role.MASTER:
        raise RequestRefused(1, "users and policies of this broker come from its master; change them there")


def granting_command(name: str, actions: tuple[Action, ...], resource: Resource) -> str:
    """Return the command that grants a user the first of *actions*."""
    return f"gantrymq acl grant {shlex.quote(name)} -r {shlex.quote(str(resource))} -a {actions[0].value}"


def _event(principal: Principal, actions: tuple[Action, ...], resource: Resource) -> dict[str, Any]:
    return {
        "user": principal.name,
        "source": principal.source,
        "listener": principal.listener if isinstance(principal, Caller) else "",
        "request": principal.request,
        "actions": names(actions),
        "resource": str(resource),
    }


def _parsed(texts: Mapping[str, str]) -> AccessState:
    """Return the state that a master has sent. Raises FormatError."""
    users = read_users(texts.get(USERS, "").encode())
    acls = read_acls(texts.get(ACLS, "").encode())
    return AccessState.of(users, acls, texts)
