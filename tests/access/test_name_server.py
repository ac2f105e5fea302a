"""A name server with `authorizer=acl`: it reads the users of a broker."""

import asyncio
import json

import pytest
from access_rig import FIRST, ROOT, SECRETS
from polling import until

from gantrymq.cli.server_settings import ServerArguments, broker_settings, name_server_settings
from gantrymq.cli.serving import Servers
from gantrymq.client import Credentials
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq.remoting.signatures import Signer
from gantrymq.world.real import real_world

pytest.importorskip("gantrymq_storage_memory")  # the store of these brokers
pytest.importorskip("gantrymq_nameserver")

INNER = json.dumps({"accessKey": "inner", "secretKey": "inner-secret"})
GUARDED = ("authenticationEnabled=true", "authorizationEnabled=true", f"initAuthenticationUser={FIRST}")
READ_SETTINGS, SETTINGS_OF_BROKER = 319, 26


def together(world, folder):
    """A broker and a name server in one process, as ``gantrymq start`` runs them."""
    pairs = (*GUARDED, f"innerClientAuthenticationCredentials={INNER}", "store=memory", "listenPort=0")
    more = (f"storePathRootDir={folder / 'store'}", "fastPortEnable=false", "metricsExporterType=DISABLE")
    broker = broker_settings(world, ServerArguments("gantrymq start", pairs=(*pairs, *more)))
    defaults = {"kvConfigPath": str(folder / "kv.json"), "accessPath": str(folder / "store" / "config")}
    arguments = ServerArguments("gantrymq start", pairs=("listenPort=0",), defaults=defaults)
    return Servers(world, name_server_settings(world, arguments, beside=broker.settings), broker)


async def code(world, address, number, user="", secret="", ext=None, body=None):
    client = RemotingClient(world, sign=Signer(Credentials(user, secret)).sign if user else None)
    try:
        return (await client.call(address, request(number, ext, body), 10)).code
    finally:
        await client.close()


@pytest.mark.parametrize("secret", ["", "wrong-secret"])
def test_a_broker_registers_at_the_name_server_of_its_process_and_strangers_do_not(tmp_path, secret):
    async def main():
        world = real_world()
        servers = together(world, tmp_path)
        async with asyncio.timeout(30):
            await servers.start()  # returns when the broker is registered
        address = servers.name_server_address
        try:
            assert await code(world, address, READ_SETTINGS, ROOT, SECRETS[ROOT]) == 0
            assert await code(world, address, READ_SETTINGS, ROOT if secret else "", secret) == 16
            assert await code(world, address, 105, ext={"topic": "TBW102"}) == 0  # the route of the broker
        finally:
            await servers.stop()

    asyncio.run(main())


def test_a_user_who_is_deleted_at_the_broker_is_refused_by_the_name_server(tmp_path):
    async def main():
        world = real_world()
        servers = together(world, tmp_path)
        await servers.start()
        names, broker = servers.name_server_address, servers.broker_address
        try:
            assert await code(world, names, READ_SETTINGS, ROOT, SECRETS[ROOT]) == 0
            assert await code(world, broker, 3003, "inner", "inner-secret", {"username": ROOT}) == 0

            async def refused():
                return await code(world, names, READ_SETTINGS, ROOT, SECRETS[ROOT]) == 16

            await until(refused, "the refusal")
            assert await code(world, names, READ_SETTINGS, "inner", "inner-secret") == 0
        finally:
            await servers.stop()

    asyncio.run(main())


def test_a_route_at_the_port_of_a_broker_is_code_3_for_every_user(tmp_path):
    """Also for one without permissions, unlike RocketMQ's 16: the remark says where to ask."""

    async def main():
        world = real_world()
        servers = together(world, tmp_path)
        await servers.start()
        try:
            body = json.dumps({"password": "nobody-secret"}).encode()
            broker = servers.broker_address
            assert await code(world, broker, 3001, ROOT, SECRETS[ROOT], {"username": "nobody"}, body) == 0
            assert await code(world, broker, SETTINGS_OF_BROKER, "nobody", "nobody-secret") == 16
            assert await code(world, broker, 105, "nobody", "nobody-secret", {"topic": "T"}) == 3
        finally:
            await servers.stop()

    asyncio.run(main())
