"""Sets of brokers with an elected master, as `gantrymq_admin.elected` reports them."""

import attrs

from gantrymq.client.admin import ConnectedSlave, ElectionState, HaStatus, MasterConnection
from gantrymq_admin.elected import ElectedBroker, ElectedSet

STATE = ElectionState(
    engine="etcd",
    own_id=1,
    epoch=3,
    master=1,
    master_address="a:1",
    known_since_ms=1_800_000_000_000,
    in_sync=(1, 2),
    in_sync_epoch=5,
    confirmed=1000,
    problem="",
    apart="",
    unelectable="",
    fencing="strict",
    least_copies=1,
    lease_ms=9000,
    learner=False,
)


def connected(broker_id, lag=0, learner=False):
    return ConnectedSlave(
        address=f"h:{broker_id}",
        acked_offset=1000 - lag,
        lag_bytes=lag,
        in_sync=True,
        next_offset=1000 - lag,
        bytes_per_s=0,
        late_ms=1500 if lag else 0,
        broker_id=broker_id,
        learner=learner,
    )


def master(*slaves, **fields):
    """Broker id 1, the master."""
    ha = HaStatus(
        master=True,
        max_offset=1000,
        in_sync_slaves=1,
        slaves=slaves,
        lost_slaves=(),
        wanted_copies=None,
        connection=None,
    )
    return ElectedBroker(id=1, address="a:1", end=1000, election=attrs.evolve(STATE, **fields), ha=ha)


def slave(broker_id, problem="", tables="", **fields):
    connection = MasterConnection(
        master_address="a:9",
        max_offset=1000,
        bytes_per_s=0,
        read_at_ms=0,
        wrote_at_ms=0,
        local_address=None,
        problem=problem,
        tables_problem=tables,
    )
    ha = HaStatus(
        master=False,
        max_offset=0,
        in_sync_slaves=0,
        slaves=(),
        lost_slaves=(),
        wanted_copies=None,
        connection=connection,
    )
    own = attrs.evolve(STATE, own_id=broker_id, problem="this broker is a slave", **fields)
    return ElectedBroker(id=broker_id, address=f"a:{broker_id}", end=1000, election=own, ha=ha)


def of(*brokers, **fields):
    return ElectedSet(cluster="C", broker="broker-a", brokers=brokers, **fields)
