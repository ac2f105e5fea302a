"""Makes the plugin importable, and the requests of the broker's tests."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "core" / "broker"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

NEEDED = ("gantrymq_nameserver", "gantrymq_storage_memory", "gantrymq_filter_tag", "gantrymq_pop", "gantrymq_schedule")
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]


@pytest.fixture
def run():
    """``run(main)`` runs ``await main(cluster, client_of)`` with topics and groups."""

    from broker_desk import topic_ext
    from raw_clients import USERS, Raw, write

    from gantrymq_testing.cluster import Cluster
    from gantrymq_testing.simulated import simulate

    token_authorizer = pytest.importorskip("token_authorizer")

    def run(main, **more):
        settings = {"authorizer": "token_file", "tokenFile": "/tokens.json", "store": "memory", **more}

        async def with_clients(world):
            write(world, USERS)
            cluster = Cluster(world, Path("/gantrymq"), settings, [("token_authorizer", token_authorizer)])
            clients = []

            def client_of(user):
                clients.append(Raw(cluster, user))
                return clients[-1]

            try:
                await cluster.start()
                ops = client_of("ops")
                for topic in ("Secret", "Mine", "eu"):
                    assert (await ops.ask(17, topic_ext(topic, 1))).code == 0
                for group in ("mine", "readers", "billing", "billing_eu"):
                    assert (await ops.ask(200, {}, {"groupName": group, "consumeEnable": True})).code == 0
                await main(cluster, client_of)
            finally:
                for each in clients:
                    await each.client.close()
                await cluster.stop()
                await world.workers.close()

        simulate(1, with_clients)

    return run
