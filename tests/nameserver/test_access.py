"""Access control of a name server: registrations and changes need an account, routes only with routeAccess."""

import asyncio
import json
from pathlib import Path

import pytest
from accounts import INNER, Accounts, AccountsPlugin

from gantrymq.broker import BrokerServer
from gantrymq.broker.name_server_access import NameServerAccess
from gantrymq.client import Client, Credentials
from gantrymq.config import Settings
from gantrymq.errors import PluginError
from gantrymq.model.access import Decision
from gantrymq.plugins import load_plugins
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq.remoting.signatures import Signer
from gantrymq_nameserver.handlers import ROUTES
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

FOLDER = Path("/names")
GUARDED = {
    "authorizer": "accounts",
    "accessPath": "/store/config",
    "superAccount": "inner",
    "accounts": json.dumps({"inner": [INNER["secretKey"]], "guest": ["guest-secret"]}),
}
ACCOUNT = Credentials("inner", INNER["secretKey"])
GUEST = Credentials("guest", "guest-secret")


class Guarded:
    """A name server with the test authorizer."""

    def __init__(self, world, **values):
        plugins = load_plugins(extra=[("accounts", AccountsPlugin())], installed=False)
        values = {"listenPort": 0, "bindAddress": "127.0.0.1", **GUARDED, **values}
        settings = Settings([*name_server_settings(FOLDER), *plugins.config], values)
        self.world, self.access = world, NameServerAccess(world, settings, plugins)
        self.server = NameServer(world, settings, access=self.access)

    @property
    def codes(self):
        return set(self.server.service._handlers)

    async def start(self):
        self.address = "{}:{}".format(*await self.server.start())
        return self

    async def ask(self, code, ext=None, body=None, account=None):
        client = RemotingClient(self.world, sign=None if account is None else Signer(account).sign)
        try:
            return await client.call(self.address, request(code, ext, body))
        finally:
            await client.close()


def run(main, **values):
    async def guarded(world):
        world.files.make_dirs(FOLDER)
        names = Guarded(world, **values)
        try:
            return await main(await names.start())
        finally:
            await names.server.stop()
            await world.workers.close()

    return simulate(1, guarded)


@pytest.mark.parametrize(
    ("account", "said"), [(None, "username cannot be null"), (GUEST, "has no permission to access")]
)
def test_every_request_but_those_for_routes_is_refused_without_permission(account, said):
    async def main(names):
        for code in sorted(names.codes - ROUTES):
            answer = await names.ask(code, account=account)
            assert answer.code == 16 and said in answer.remark, code

    run(main)


@pytest.mark.parametrize("account", [None, GUEST, Credentials("nobody", "x")])
def test_routes_are_open(account):
    async def main(names):
        for code in ROUTES:
            assert (await names.ask(code, {"topic": "T"}, account=account)).code != 16, code

    run(main)


@pytest.mark.parametrize("account", [None, GUEST])
def test_with_route_access_routes_are_refused_without_permission(account):
    async def main(names):
        for code in names.codes:
            assert (await names.ask(code, {"topic": "T"}, account=account)).code == 16, code

    run(main, routeAccess=True)


def test_an_account_with_permission_is_served():
    async def main(names):
        for code in sorted(names.codes):
            assert (await names.ask(code, {"topic": "T"}, account=ACCOUNT)).code != 16, code

    run(main, routeAccess=True)


def test_permissions_are_those_of_the_named_cluster_and_topic(monkeypatch):
    asked = []

    def authorize(self, principal, actions, resource):
        asked.append((tuple(each.value for each in actions), str(resource)))
        return Decision(False)

    monkeypatch.setattr(Accounts, "authorize", authorize)

    async def main(names):
        await names.ask(RequestCode.REGISTER_BROKER, {"clusterName": "shop"}, account=ACCOUNT)
        await names.ask(RequestCode.UNREGISTER_BROKER, {"clusterName": "shop"}, account=ACCOUNT)
        await names.ask(RequestCode.PUT_KV_CONFIG, account=ACCOUNT)
        await names.ask(RequestCode.GET_NAMESRV_CONFIG, account=ACCOUNT)
        await names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, account=ACCOUNT)
        await names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "%RETRY%g"}, account=ACCOUNT)

    run(main, routeAccess=True, brokerClusterName="own")
    assert asked == [
        (("Update",), "Cluster:shop"),
        (("Update",), "Cluster:own"),
        (("Get",), "Cluster:own"),
        (("Pub", "Sub", "Get"), "Topic:T"),
        (("Pub", "Sub", "Get"), "Group:g"),
    ]  # the second decision about Cluster:shop is cached


def test_a_broker_name_of_another_cluster_is_not_taken_over(monkeypatch):
    """RocketMQ replaces the addresses of a broker name, whatever cluster registers it."""
    own = {"inner": "shop", "guest": "mine"}
    monkeypatch.setattr(
        Accounts, "authorize", lambda self, principal, actions, resource: Decision(resource.name == own[principal.name])
    )

    async def main(names):
        shop, mine = (RemotingClient(names.world, sign=Signer(account).sign) for account in (ACCOUNT, GUEST))

        async def register(client, cluster, port):
            broker = {"brokerName": "broker-a", "brokerAddr": f"127.0.0.1:{port}", "clusterName": cluster}
            fields = {**broker, "haServerAddr": "127.0.0.1:2", "brokerId": "0"}
            return (await client.call(names.address, request(RequestCode.REGISTER_BROKER, fields))).code

        assert await register(shop, "shop", 10911) == 0
        assert await register(mine, "mine", 666) == 16
        assert await register(shop, "shop", 10921) == 0
        found = dict(names.server.service.tables.brokers["broker-a"].addresses)
        await shop.close()
        await mine.close()
        return found

    assert run(main) == {0: "127.0.0.1:10921"}


def test_a_request_that_waits_for_its_user_holds_the_later_ones_of_its_connection(monkeypatch):
    order = []

    async def late(self, credentials, client):
        order.append(credentials.request)
        await asyncio.sleep(0)
        return plain(self, credentials, client)

    plain = Accounts.authenticate
    monkeypatch.setattr(Accounts, "authenticate", lambda *given: late(*given))

    async def main(names):
        client = RemotingClient(names.world, sign=Signer(ACCOUNT).sign)
        put = {"namespace": "N", "key": "k", "value": "v"}
        calls = [
            client.call(names.address, request(RequestCode.PUT_KV_CONFIG, put)),
            client.call(names.address, request(RequestCode.GET_NAMESRV_CONFIG)),
        ]
        codes = [answer.code for answer in await asyncio.gather(*calls)]
        await client.close()
        return codes

    assert run(main) == [0, 0] and order == [RequestCode.PUT_KV_CONFIG, RequestCode.GET_NAMESRV_CONFIG]


def test_a_changed_user_is_refused_at_once():
    async def main(names):
        client = RemotingClient(names.world, sign=Signer(ACCOUNT).sign)
        codes = [(await client.call(names.address, request(RequestCode.GET_NAMESRV_CONFIG))).code]
        names.access.access.authorizer.text = "{}"
        names.access.access.forget()
        codes.append((await client.call(names.address, request(RequestCode.GET_NAMESRV_CONFIG))).code)
        await client.close()
        return codes

    assert run(main) == [0, 16]


@pytest.mark.parametrize("signs", [True, False])
def test_a_broker_registers_with_the_inner_credentials_only(signs):
    pytest.importorskip("gantrymq_storage_memory")
    inner = {"innerClientAuthenticationCredentials": json.dumps(INNER)} if signs else {}

    async def main(names):
        cluster = Cluster(names.world, Path("/broker"), {"store": "memory", **inner})
        cluster.settings.set("namesrvAddr", names.address, "the test")
        server = BrokerServer(names.world, cluster.settings, cluster.plugins)
        starting = asyncio.ensure_future(server.start())
        await names.world.clock.sleep(2)
        known, problem = dict(names.server.service.tables.live), cluster.broker.registration.states()[names.address]
        assert signs or "it controls access: set innerClientAuthenticationCredentials of this server" in problem
        starting.cancel()
        await asyncio.wait([starting])
        await server.stop()
        return known, dict(names.server.service.tables.live)

    known, after = run(main)
    assert bool(known) is signs and not after


def test_clients_find_routes_without_an_account():
    pytest.importorskip("gantrymq_storage_memory")

    async def main(names):
        inner = {"innerClientAuthenticationCredentials": json.dumps(INNER)}
        cluster = Cluster(names.world, Path("/broker"), {"store": "memory", **inner})
        cluster.settings.set("namesrvAddr", names.address, "the test")
        server = BrokerServer(names.world, cluster.settings, cluster.plugins)
        await server.start()
        async with Client(names.address, world=names.world) as client:
            found = await client.admin.clusters()
        await server.stop()
        return list(found.masters("DefaultCluster"))

    assert len(run(main)) == 1


def test_an_authorizer_that_no_plugin_offers_stops_the_start():
    async def main(world):
        with pytest.raises(PluginError, match="authorizer=other: no installed plugin offers"):
            Guarded(world, authorizer="other")

    simulate(1, main)
