"""Brokers of one name that an etcd in memory elects, in a simulated world."""

from ha_pairs import service, simulate_pair
from memory_etcd import MemoryEtcd

from gantrymq.interfaces import SendRequest
from gantrymq.loose_json import loads
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq_replication.election import elected_broker as service_module
from gantrymq_replication.election.service import ElectionService

LEASE_S = 3
ELECTED = {"enableControllerMode": True, "electionEngine": "etcd", "etcdEndpoints": "etcd:2379", "etcdLeaseSeconds": 3}


def memory_etcd(monkeypatch):
    """Let brokers that start from now on use an etcd in memory, each world its own."""
    shared = {}

    def client(clock, rules):
        return shared.setdefault(clock, MemoryEtcd(clock)).client()

    monkeypatch.setattr(service_module, "EtcdClient", client)


class Brokers:
    """The brokers of one name, each with a connection to etcd that can fail."""

    def __init__(self, pair, monkeypatch):
        self.pair, self.etcd, self.clients, self.all = pair, MemoryEtcd(pair.world.clock), {}, {}
        monkeypatch.setattr(service_module, "EtcdClient", lambda clock, rules: self._last())

    def _last(self):
        self._client = self.etcd.client()
        return self._client

    async def start(self, name, **settings):
        broker = await self.pair.start(name, **{**ELECTED, **settings})
        self.clients[name], self.all[name] = self._client, broker
        return broker

    async def until(self, condition, what, seconds=30):
        return await self.pair.until(condition, what, seconds)

    async def registered(self, cluster):
        """The ids of the brokers that a name server knows."""
        return [number for number, _ in await self.addresses(cluster)]

    async def addresses(self, cluster):
        """The ids and addresses of the brokers that a name server knows."""
        client = RemotingClient(self.pair.world)
        answer = await client.call(cluster.namesrv, request(RequestCode.GET_BROKER_CLUSTER_INFO))
        await client.close()
        table = loads(answer.payload)["brokerAddrTable"]
        return [entry for each in table.values() for entry in each["brokerAddrs"].items()]


def elected(cluster):
    found = service(cluster, ElectionService)
    return found.elected or found


def leads(cluster):
    machine = elected(cluster).machine
    return machine is not None and machine.may_accept(cluster.world.clock.monotonic())


def members(cluster):
    machine = elected(cluster).machine
    return set(machine.set.members) if machine is not None and machine.set is not None else set()


async def send(cluster):
    """The code of a send's answer, 0 if the message is acknowledged."""
    answer = await cluster.broker.messages.send(SendRequest("p", "Orders", b"body"))
    return answer.unconfirmed.response_code if answer.unconfirmed else 0


def clear(files, folder):
    """Remove what is in *folder*."""
    for name in files.list(folder):
        if files.stat(folder / name).is_dir:
            clear(files, folder / name)
        else:
            files.remove(folder / name)


async def two_in_sync(brokers, **settings):
    one = await brokers.start("one", **settings)
    await brokers.until(lambda: elected(one).leads, "master")
    two = await brokers.start("two", **settings)
    await brokers.until(lambda: members(one) == {1, 2}, "set of two")
    return one, two


def simulate_brokers(main, monkeypatch, seed=1):
    """Run ``main(brokers)``."""
    return simulate_pair(lambda pair: main(Brokers(pair, monkeypatch)), seed)
