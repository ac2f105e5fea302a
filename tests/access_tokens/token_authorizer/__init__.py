"""A plugin: an authorizer whose users and rules are in a JSON file, which is read again when it changes.

    {"users": {
        "orders": {"secret": "s3cret", "allow": ["Pub Topic:Orders*"], "deny": ["Pub Topic:OrdersOld"]},
        "ops": {"certificate": "CN=ops,O=Shop", "allow": ["* Cluster:*", "* Topic:*"]},
        "anonymous": {"allow": ["Get Topic:Public from 127.0.0.1"]}}}

A rule is an action of RocketMQ (or ``*``), a resource whose name may end with ``*``, and perhaps the client's address.
A rule in ``deny`` wins. Clients without an access key are the user whose certificate they have, or ``anonymous``.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gantrymq.errors import NoPermission, PluginError
from gantrymq.plugin import hookimpl
from gantrymq.plugin.interfaces import (
    AuthorizerContext,
    AuthorizerRegistry,
    Broker,
    ClientChannel,
    ConfigRegistry,
    Credentials,
)
from gantrymq.plugin.model import Action, Decision, Principal, Resource, ResourceType
from gantrymq.plugin.settings import Setting

log = logging.getLogger(__name__)

ACTIONS = {each.value for each in Action}
TYPES = {each.value for each in ResourceType}
PERIOD_S = 1.0
FILE_ERRORS = (OSError, ValueError, RecursionError)  # of reading and parsing


class Rule(NamedTuple):
    """One line of ``allow`` or ``deny``."""

    action: str
    type: str
    name: str
    address: str  # empty: any

    def fits(self, principal: Principal, actions: tuple[Action, ...], resource: Resource) -> bool:
        """Return whether the rule is about this."""
        named = resource.name.startswith(self.name[:-1]) if self.name.endswith("*") else resource.name == self.name
        return (
            (self.action == "*" or any(self.action == each.value for each in actions))
            and self.type == resource.type.value
            and named
            and self.address in ("", principal.source)
        )


class User(NamedTuple):
    """One user."""

    secret: bytes
    certificate: str
    allow: tuple[Rule, ...]
    deny: tuple[Rule, ...]


def read_rule(text: Any, where: str) -> Rule:
    """Parse a rule. Raises ValueError."""
    words = text.split() if isinstance(text, str) else []
    kind, _, name = (words[1] if len(words) > 1 else "").partition(":")
    good = len(words) in (2, 4) and words[0] in {"*", *ACTIONS} and kind in TYPES and name
    if not good or (len(words) == 4 and words[2] != "from"):
        raise ValueError(f"{where}: {text!r} is not a rule such as 'Pub Topic:Orders*' or 'Sub Group:g from 10.0.0.1'")
    return Rule(words[0], kind, name, words[3] if len(words) == 4 else "")


def read_users(text: str) -> dict[str, User]:
    """Parse the file. Raises ValueError with a sentence."""
    data = json.loads(text)
    users = data.get("users") if isinstance(data, dict) else None
    if not isinstance(users, dict) or len(data) != 1:
        raise ValueError('expected {"users": {NAME: {...}}}')
    found = {}
    for name, given in users.items():
        if not isinstance(given, dict) or not given.keys() <= {"secret", "certificate", "allow", "deny"}:
            raise ValueError(f"user {name}: expected an object with secret, certificate, allow and deny")
        secret, certificate = given.get("secret", ""), given.get("certificate", "")
        if not isinstance(secret, str) or not isinstance(certificate, str):
            raise ValueError(f"user {name}: secret and certificate are texts")
        rules = {
            kind: tuple(read_rule(each, f"user {name}, {kind}") for each in lines(given.get(kind, []), name, kind))
            for kind in ("allow", "deny")
        }
        found[name] = User(secret.encode(), certificate, rules["allow"], rules["deny"])
    return found


def lines(given: Any, name: str, kind: str) -> list[Any]:
    """Check that *given* is a list. Raises ValueError."""
    if not isinstance(given, list):
        raise ValueError(f"user {name}: {kind} is not a list of rules")
    return given


class TokenAuthorizer:
    """The authorizer. It watches the file while the broker runs."""

    def __init__(self, context: AuthorizerContext) -> None:
        self.users: Mapping[str, User] = {}
        self._path = Path(context.settings.text("tokenFile"))
        self._world = context.world
        self._watching: asyncio.Task[None] | None = None

    async def start(self, broker: Broker) -> None:
        """Read the file for the first time."""
        try:
            content = await self._read()
            self.users = read_users(content.decode())
        except FILE_ERRORS as error:
            raise PluginError(f"tokenFile={self._path}: {error}") from error
        self._watching = asyncio.create_task(self._watch(broker, content))

    async def stop(self) -> None:
        """Stop watching."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def _read(self) -> bytes:
        return bytes(await self._world.workers.run(self._world.files.read, self._path))

    async def _watch(self, broker: Broker, seen: bytes) -> None:
        """Read the file again when its content changes; a broken file is reported once."""
        while True:
            await self._world.clock.sleep(PERIOD_S)
            try:
                content = await self._read()
                if content != seen:
                    seen = content
                    self.users = read_users(content.decode())
                    broker.access.forget()
                    log.info("%s has changed and was read again", self._path)
            except FILE_ERRORS as error:
                log.warning("%s: %s; the rules read before stay", self._path, error)

    def authenticate(self, credentials: Credentials, client: ClientChannel) -> Principal:
        """Return the user, with the address of the client."""
        name, source = credentials.access_key, client.peer[0]
        if not name:
            of_certificate = (each for each, user in self.users.items() if user.certificate)
            for each in of_certificate:
                if self.users[each].certificate == client.certificate:
                    return Principal(each, source)
            if "anonymous" not in self.users:
                raise NoPermission("username cannot be null: this broker requires an access key")
            return Principal("anonymous", source)
        user = self.users.get(name)
        if user is None or not user.secret:
            raise NoPermission(f"there is no user {name} with a secret key")
        expected = base64.b64encode(hmac.digest(user.secret, credentials.signed_content(), "sha1"))
        if not hmac.compare_digest(credentials.signature.encode(errors="replace"), expected):
            raise NoPermission(f"the signature of user {name} is wrong; check its secret key")
        return Principal(name, source)

    def is_valid(self, principal: Principal) -> bool:
        """Return whether the file still has the user."""
        return principal.name in self.users

    def authorize(self, principal: Principal, actions: tuple[Action, ...], resource: Resource) -> Decision:
        """Decide by the rules of the user."""
        user = self.users.get(principal.name)
        if user is None:
            return Decision(False, f"there is no user {principal.name} any more")
        if any(rule.fits(principal, actions, resource) for rule in user.deny):
            return Decision(False)
        return Decision(any(rule.fits(principal, actions, resource) for rule in user.allow))


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the setting."""
    registry.add(Setting.text("tokenFile", "tokens.json", "File with users and rules."))


@hookimpl
def gantry_register_authorizers(registry: AuthorizerRegistry) -> None:
    """Register the authorizer."""
    registry.add("token_file", TokenAuthorizer)
