"""An authorizer that checks signatures: accounts with their secrets, of which those that are not super may do nothing.

The accounts are the setting ``accounts`` of each server, a JSON object of secrets by name, until a change, or until a
replica takes those of its master.
"""

import base64
import hmac
import json

from gantrymq.errors import NoPermission
from gantrymq.model.access import Decision, Principal
from gantrymq.plugin import hookimpl
from gantrymq.plugin.settings import Setting

INNER = {"accessKey": "inner", "secretKey": "inner-secret"}
GUARDED = {
    "authorizer": "accounts",
    "accounts": json.dumps({"inner": ["inner-secret"], "guest": ["guest-secret"]}),
    "superAccount": "inner",
}
SIGNED = {**GUARDED, "innerClientAuthenticationCredentials": json.dumps(INNER)}


class Accounts:
    """The authorizer of one server."""

    def __init__(self, context):
        self.text = context.settings.text("accounts")
        self._super = context.settings.text("superAccount")
        self.refused, self.taken = [], 0  # request codes; states of a master

    async def start(self, server):
        self.server = server

    async def stop(self):
        pass

    def state_texts(self, reader):
        if reader is not None and reader.name != self._super:
            raise NoPermission(f"User:{reader.name} has no permission to access all secrets")
        return {"accounts.json": self.text}

    async def take_state(self, texts):
        self.text = texts["accounts.json"]
        self.taken += 1

    async def change(self, **accounts):
        """Replace accounts; None removes one."""
        found = {**json.loads(self.text), **accounts}
        self.text = json.dumps({name: secrets for name, secrets in found.items() if secrets})
        await self.server.access.changed()

    def authenticate(self, credentials, client):
        for secret in json.loads(self.text).get(credentials.access_key, ()):
            expected = base64.b64encode(hmac.digest(secret.encode(), credentials.signed_content(), "sha1")).decode()
            if expected == credentials.signature:
                return Principal(credentials.access_key, client.peer[0])
        self.refused.append(credentials.request)
        if not credentials.access_key:
            raise NoPermission("username cannot be null.")
        raise NoPermission("check signature failed.")

    def authorize(self, principal, actions, resource):
        return Decision(principal.name == self._super)


class AccountsPlugin:
    """The plugin; pass it to a `Cluster`."""

    @hookimpl
    def gantry_register_config(self, registry):
        registry.add(Setting.text("accounts", "{}", "Secrets by account."))
        registry.add(Setting.text("superAccount", "", "The account that may do everything."))

    @hookimpl
    def gantry_register_authorizers(self, registry):
        registry.add("accounts", Accounts)


def accounts_of(cluster):
    """The authorizer of a broker."""
    return cluster.broker.access.authorizer
