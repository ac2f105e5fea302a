"""The settings of a name server with access control, alone and beside a broker."""

import asyncio
import json
from functools import partial

import pytest
from accounts import INNER, AccountsPlugin

from gantrymq.cli import server_settings
from gantrymq.cli.server_settings import ServerArguments, broker_settings, exposure_notes, name_server_settings
from gantrymq.cli.serving import Servers
from gantrymq.plugins import load_plugins
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq.world.real import real_world

ACCOUNTS = json.dumps({"inner": [INNER["secretKey"]]})
CONTROL = ("authorizer=accounts", f"accounts={ACCOUNTS}", "superAccount=inner")
SIGNS = f"innerClientAuthenticationCredentials={json.dumps(INNER)}"


@pytest.fixture(autouse=True)
def accounts(monkeypatch):
    """Install the plugin with the test authorizer."""
    with_accounts = partial(load_plugins, extra=[("accounts", AccountsPlugin())])
    monkeypatch.setattr(server_settings, "load_plugins", with_accounts)


def read(*pairs):
    return name_server_settings(real_world(), ServerArguments("gantrymq nameserver", pairs=pairs))


def beside(*pairs):
    world = real_world()
    broker = broker_settings(world, ServerArguments("gantrymq start", pairs=pairs))
    arguments = ServerArguments("gantrymq start", defaults={"accessPath": "/store/config"})
    return name_server_settings(world, arguments, beside=broker.settings)


def test_the_settings_of_the_authorizer_are_those_of_the_name_server():
    found = read(*CONTROL, "accessPath=/users")
    assert found.settings.text("accounts") == ACCOUNTS and "accounts" in found.plugins.authorizers and not found.notes


def test_other_plugins_add_no_settings():
    plain, controlled = read(), read(*CONTROL, "accessPath=/users")
    more = set(controlled.settings.schema) - set(plain.settings.schema)
    assert {"accounts", "superAccount"} <= more and "haSecretPath" not in more
    assert not plain.plugins.authorizers


def test_a_controlled_name_server_is_not_called_open():
    open_one, controlled = read("bindAddress=0.0.0.0"), read("bindAddress=0.0.0.0", *CONTROL, "accessPath=/users")
    assert "without access control" in exposure_notes([("name server", open_one.settings)])[0]
    assert exposure_notes([("name server", controlled.settings)]) == ()


def test_beside_a_broker_with_an_account_the_access_control_is_for_both():
    settings = beside(*CONTROL, SIGNS, "brokerClusterName=shop").settings
    assert [settings.text(key) for key in ("authorizer", "accounts", "brokerClusterName", "accessPath")] == [
        "accounts",
        ACCOUNTS,
        "shop",
        "/store/config",
    ]
    assert json.loads(settings.text("innerClientAuthenticationCredentials")) == INNER


def test_beside_a_broker_without_an_account_the_name_server_is_open():
    """The broker could not register otherwise."""
    assert beside(*CONTROL).settings.text("authorizer") == ""


def test_a_running_name_server_refuses_what_it_must(tmp_path):
    async def main():
        world = real_world()
        folder = f"kvConfigPath={tmp_path / 'kv.json'}"
        servers = Servers(world, read(*CONTROL, f"accessPath={tmp_path}", "listenPort=0", folder))
        await servers.start()
        client = RemotingClient(world)
        answer = await client.call(servers.name_server_address, request(RequestCode.GET_NAMESRV_CONFIG))
        await client.close()
        await servers.stop()
        return answer.code

    assert asyncio.run(main()) == 16
