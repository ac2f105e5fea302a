"""Brokers and copies of a cluster in all states that the console's picture of it knows."""

from __future__ import annotations

from typing import Any

from gantrymq_admin.elected import ElectedBroker, ElectedSet
from gantrymq_console.data.brokers import BrokerState, CopyRow
from gantrymq_console.data.cluster_picture import PicturedName, picture_of

HOSTILE_NAME = "</svg><script>alert(1)</script>\u202egnp e\u0301\u0301 שלום 😀" + "x" * 200


def broker(name: str, broker_id: int = 0, **more: Any) -> BrokerState:
    """A broker that is well, except for *more*."""
    given = {"cluster": "DefaultCluster", "name": name, "broker_id": broker_id, "registered": True, "answers": True}
    given |= {
        "address": f"10.0.{len(name)}.{broker_id + 1}:10911",
        "version": "V5_3_3",
        "active": True,
        "writable": True,
    }
    given |= {"in_per_s": 1234.5, "out_per_s": 2460.1, "disk_used": 0.41, "disk_free": "120 GB"}
    return BrokerState(**{**given, **more})


def copy_of(state: BrokerState, **more: Any) -> CopyRow:
    """The report on a broker: a master, or a slave that follows it."""
    is_master = state.broker_id == 0
    given: dict[str, Any] = dict.fromkeys(
        ("lag_s", "lag_bytes", "in_sync", "following", "in_sync_copies", "wanted_copies")
    )
    given |= {"role": "master" if is_master else "slave", "broker_id": state.broker_id, "address": state.address}
    given |= {"end": 10**10, "problem": "", "lacking": False, "epoch": None, "in_sync_set": None, "elected_id": None}
    if is_master:
        given |= {"in_sync_copies": 2, "wanted_copies": 2}
    else:
        given |= {"lag_bytes": 0, "lag_s": 0.0, "in_sync": True, "following": True}
    return CopyRow(**{**given, **more})


def all_states() -> tuple[list[BrokerState], dict[str, list[CopyRow]], dict[str, ElectedSet]]:
    """The arguments of `picture_of`."""
    states: list[BrokerState] = []
    copies: dict[str, list[CopyRow]] = {}
    engines: dict[str, ElectedSet] = {}

    def add(name: str, rows: list[CopyRow], *of_name: BrokerState) -> None:
        states.extend(of_name)
        copies[name] = rows

    one, two, three = (broker("elected", number) for number in range(3))
    add(
        "elected",
        [
            copy_of(one, epoch=7, elected_id=2, in_sync_set=(1, 2)),
            copy_of(two, epoch=7, elected_id=1),
            copy_of(
                three,
                epoch=7,
                elected_id=3,
                in_sync=False,
                lacking=True,
                lag_bytes=1_300_000,
                lag_s=3.2,
                problem="not in sync: it is behind",
            ),
            copy_of(
                broker("elected", 4, address="broker id 4"),
                broker_id=None,
                elected_id=4,
                following=False,
                in_sync=None,
                lag_bytes=None,
                lag_s=None,
                lacking=True,
                problem="not registered with the name servers",
            ),
        ],
        one,
        two,
        three,
    )
    members = tuple(ElectedBroker(id=number, address=each.address) for number, each in ((2, one), (1, two), (3, three)))
    engines["elected"] = ElectedSet(
        cluster="DefaultCluster",
        broker="elected",
        brokers=members,
        controllers=("10.0.9.1:9878",),
        leader="10.0.9.1:9878",
    )
    pair = broker("pair"), broker("pair", 1)
    add("pair", [copy_of(each) for each in pair], *pair)
    gone = broker("pair-without", 0, registered=False, answers=False), broker("pair-without", 1)
    no_master = copy_of(
        broker("pair-without"),
        address="",
        in_sync_copies=None,
        wanted_copies=None,
        lacking=True,
        problem="no master is registered with the name servers",
    )
    add(
        "pair-without",
        [
            no_master,
            copy_of(gone[1], role="acting", following=None, in_sync=None, lag_bytes=None, lag_s=None, lacking=True),
        ],
        *gone,
    )
    first = broker("rivals")
    second = copy_of(
        first,
        address="10.0.6.66:10911",
        in_sync_copies=None,
        wanted_copies=None,
        lacking=True,
        problem="two brokers are registered with id 0; stop one of them",
    )
    add("rivals", [copy_of(first), second], first)
    java = broker("java-4"), broker("java-4", 1)
    unknown = {"in_sync": None, "following": None, "lag_bytes": None, "lag_s": None}
    add("java-4", [copy_of(java[0], in_sync_copies=None, wanted_copies=None), copy_of(java[1], **unknown)], *java)
    silent = broker("silent", answers=False, problem="connection refused")
    add("silent", [], silent)
    del copies["silent"]
    add("alone", [], broker("alone"))
    add(HOSTILE_NAME, [], broker(HOSTILE_NAME, address="[2001:db8:0000:0000:0000:ff00:0042:8329]:10911"))
    return states, copies, engines


def all_names() -> tuple[PicturedName, ...]:
    """The picture of all states."""
    return picture_of(*all_states())
