"""Brokers without a log that are elected by etcd."""

from fake_broker import FakeBroker

from gantrymq_replication.election.etcd import EtcdEngine, EtcdEngineSettings
from gantrymq_replication.election.etcd_client import EtcdClient, EtcdClientSettings

LEASE_S = 3


async def etcd_broker(world, folder, endpoints, broker="broker-a", client=None, durable=True, **rules):
    """Start a broker with its identity in *folder*; *client* are more settings of the client."""
    folder.mkdir(exist_ok=True)

    def engine(fake):
        return EtcdEngine(
            world,
            EtcdClient(world.clock, EtcdClientSettings(endpoints=endpoints, **(client or {}))),
            EtcdEngineSettings(
                cluster="DefaultCluster",
                broker=broker,
                address=fake.address,
                ha_address=fake.address,
                identity=folder / "brokerIdentity",
                lease_s=LEASE_S,
                member_s=LEASE_S,
                durable=durable,
            ),
        )

    fake = FakeBroker(world, engine, **rules)
    await fake.start()
    return fake
