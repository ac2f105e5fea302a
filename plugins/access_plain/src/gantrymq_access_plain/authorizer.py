"""The authorizer ``plain``: who signs a request, from where, and what the account may do.

The rules are replaced as a whole when a file changes. Files are looked at every 5 s, as in RocketMQ; a broken one is
reported once, and the rules before stay.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import FormatError, PluginError, RequestRefused, StoreError
from gantrymq.plugin.interfaces import AuthorizerContext, Broker, ClientChannel, Credentials
from gantrymq.plugin.model import Action, Decision, Principal, Resource, ResourceType, is_signature
from gantrymq_access_plain.accounts import Rules, refusal, shown_key
from gantrymq_access_plain.rule_files import Contents, RuleFiles, rules_of
from gantrymq_access_plain.settings import ENABLE, FILE, HOME

log = logging.getLogger(__name__)

RELOAD_S: Final = 5.0
ACL_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "  # clients recognize access control by it
_HOME_VARIABLE: Final = "ROCKETMQ_HOME"
_ALLOWED: Final = Decision(True)
_CLUSTER: Final = Resource(ResourceType.CLUSTER, "")


class AclRefused(RequestRefused):
    """A request is refused with code 1, as by RocketMQ before 5.3."""

    def __init__(self, reason: str) -> None:
        super().__init__(1, ACL_EXCEPTION + reason)


class PlainAuthorizer:
    """The authorizer of one broker."""

    each_request = True  # every signature is checked, as in RocketMQ

    def __init__(self, context: AuthorizerContext) -> None:
        """Prepare reading the files.

        Raises:
            PluginError: the folder of the files is not set.
        """
        self._world = context.world
        home = context.settings.text(HOME) or context.world.environ.get(_HOME_VARIABLE, "")
        if not home and not context.writable:
            home = str(context.folder)  # accessPath of a name server
        if not home:
            raise PluginError(
                f"{ENABLE}=true needs the folder with conf/plain_acl.yml: set {HOME}=, or the environment variable "
                f"{_HOME_VARIABLE}"
            )
        self.files = RuleFiles(context.world.files, Path(home, context.settings.text(FILE)), Path(home, "conf", "acl"))
        self.rules = Rules()
        self.loaded_ms = 0  # when the rules were last read
        self._digests: Mapping[Path, bytes] = {}  # of the files that were looked at last
        self._fault = ""  # the last reported one
        self._broker: Broker | None = None
        self._watching: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()

    # --- the files ----------------------------------------------------------------------------------------------------

    async def start(self, broker: Broker) -> None:
        """Read the files, then look at them again every 5 s.

        Raises:
            PluginError: there is none, or one has a fault; with file, line and account.
        """
        self._broker = broker
        try:
            contents = await self._world.workers.run(self.files.read)
            self._use(*await self._world.workers.run(_load, contents))
        except (FormatError, StoreError) as error:
            raise PluginError(f"{ENABLE}=true: {error}") from error
        for sentence in await self._world.workers.run(self.files.exposed, list(contents)):
            log.warning("%s", sentence)
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop looking at the files."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def change(self, path: Path, edit: Callable[[dict[str, Any]], None], caller: Principal) -> None:
        """Change one file, and use it for the next request.

        *caller* is checked again, because changes that were made first may have taken its rights away.

        Raises:
            RequestRefused: code 1, the caller is no admin any more. Errors of `RuleFiles.change` are raised, too.
        """
        async with self._changing:
            decision = self.authorize(caller, (Action.UPDATE,), _CLUSTER)
            if not decision.allowed:
                raise RequestRefused(decision.code, decision.reason)
            now_ms = self._world.clock.now_ms()
            contents = await self._world.workers.run(self.files.change, path, edit, now_ms)
            self._use(*await self._world.workers.run(_load, contents))

    async def _watch(self) -> None:
        while True:
            await self._world.clock.sleep(RELOAD_S)
            async with self._changing:
                try:
                    await self._look()
                except Exception:
                    log.exception("looking for changes of %s failed; the rules before stay", self.files.main)

    async def _look(self) -> None:
        try:
            contents = await self._world.workers.run(self.files.read)
            digests = await self._world.workers.run(_digests, contents)
            if digests == self._digests:
                self._fault = ""  # of a file that could not be read for a while
                return
            self._digests = digests
            self._use(*await self._world.workers.run(_load, contents))
        except (FormatError, StoreError) as error:
            if str(error) != self._fault:
                log.warning("%s; the rules read before stay", error)
            self._fault = str(error)
            return
        log.info("read %s again: %d accounts", ", ".join(map(str, contents)), len(self.rules.accounts))

    def _use(self, rules: Rules, digests: Mapping[Path, bytes]) -> None:
        self.rules, self._digests, self._fault = rules, digests, ""
        self.loaded_ms = self._world.clock.now_ms()
        for sentence in rules.warnings:
            log.warning("%s", sentence)
        if self._broker is not None:
            self._broker.access.forget()

    # --- requests -----------------------------------------------------------------------------------------------------

    def authenticate(self, credentials: Credentials, client: ClientChannel) -> Principal:
        """Return the account. A principal has an address only if a white list admits it.

        Raises:
            AclRefused: there is no such account, or its signature is wrong.
        """
        rules, name, address = self.rules, credentials.access_key, client.peer[0]
        if rules.admits(address, name):
            return Principal(name, address, credentials.request)
        if not name:
            raise AclRefused("No accessKey is configured")
        account = rules.accounts.get(name)
        if account is None:
            raise AclRefused(_unknown(name))
        if not is_signature(credentials.signature, credentials.signed_content(), self.secrets_of(name)):
            raise AclRefused(f"Check signature failed for accessKey={name}")
        return Principal(name, "", credentials.request)

    def authorize(self, principal: Principal, actions: tuple[Action, ...], resource: Resource) -> Decision:
        """Decide by the white lists, then by the permissions of the account."""
        rules = self.rules
        if principal.source and rules.admits(principal.source, principal.name):
            return _ALLOWED
        account = rules.accounts.get(principal.name)
        if account is None:
            return _refused(_unknown(principal.name))
        reason = refusal(account, actions, resource, principal.request)
        return _refused(reason) if reason else _ALLOWED

    def secrets_of(self, access_key: str) -> Sequence[bytes]:
        """Return the secret key of an account, with which the broker checks signatures itself."""
        account = self.rules.accounts.get(access_key)
        return () if account is None else (account.secret_key.encode(),)

    def is_valid(self, principal: Principal) -> bool:
        """Return whether an account still exists, or its address is in a white list."""
        if principal.name in self.rules.accounts:
            return True
        return bool(principal.source) and self.rules.admits(principal.source, principal.name)


def _unknown(access_key: str) -> str:
    return f"No acl config for {shown_key(access_key)}"


def _refused(reason: str) -> Decision:
    return Decision(False, ACL_EXCEPTION + reason, 1)


def _load(contents: Contents) -> tuple[Rules, Mapping[Path, bytes]]:
    """Parse all files. Raises FormatError."""
    return rules_of(contents), _digests(contents)


def _digests(contents: Contents) -> dict[Path, bytes]:
    return {path: hashlib.sha256(data).digest() for path, data in contents.items()}
