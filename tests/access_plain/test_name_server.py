"""A name server with plain_acl.yml: only admins change what it knows."""

import pytest
from plain_desk import ACCOUNTS, HOME, MAIN, SECRET

from gantrymq.broker.name_server_access import NameServerAccess
from gantrymq.client import Credentials
from gantrymq.config import Settings
from gantrymq.plugins import load_plugins
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq.remoting.signatures import Signer
from gantrymq_access_plain import plugin
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.simulated import simulate

VALUE = {"namespace": "N", "key": "k", "value": "v"}


@pytest.mark.parametrize("where", [{"aclHome": str(HOME), "accessPath": "/elsewhere"}, {"accessPath": str(HOME)}])
def test_only_an_admin_changes_a_name_server(where):
    async def main(world):
        world.files.make_dirs(MAIN.parent)
        world.files.make_dirs(HOME / "names")
        world.files.replace(MAIN, ACCOUNTS.encode(), 0o600)
        plugins = load_plugins(extra=[("access_plain", plugin)], installed=False)
        values = {"listenPort": 0, "bindAddress": "127.0.0.1", "aclEnable": True, **where}
        settings = Settings([*name_server_settings(HOME / "names"), *plugins.config], values)
        server = NameServer(world, settings, access=NameServerAccess(world, settings, plugins))
        address = "{}:{}".format(*await server.start())

        async def put(key):
            client = RemotingClient(world, sign=Signer(Credentials(key, SECRET)).sign if key else None)
            answer = await client.call(address, request(RequestCode.PUT_KV_CONFIG, dict(VALUE)))
            await client.close()
            return answer.code

        try:
            assert [await put(key) for key in ("operator", "orders1", "")] == [0, 1, 1]
            world.files.replace(MAIN, ACCOUNTS.replace("admin: true", "admin: false").encode(), 0o600)
            await world.clock.sleep(6)
            assert await put("operator") == 1
        finally:
            await server.stop()
            await world.workers.close()

    simulate(1, main)
