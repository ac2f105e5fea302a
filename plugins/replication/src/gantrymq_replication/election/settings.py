"""Settings of elected roles, under RocketMQ's keys where it has them.

Source: apache/rocketmq common/.../BrokerConfig.java, store/.../config/MessageStoreConfig.java.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

import attrs

from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError
from gantrymq.model.hosts import parse_address
from gantrymq_replication.election.machine import Fencing
from gantrymq_replication.election.sync_set import SetRules

__all__ = ["CONTROLLER", "ETCD", "SCHEMA", "ElectionSettings"]

CONTROLLER: Final = "controller"
ETCD: Final = "etcd"
FIRST_S: Final = 1.5  # for members to connect to a new master; ours do within 0.5 s
DOUBT_S: Final = 30.0  # after which a request to a controller that was not answered has no effect any more

SCHEMA: tuple[Setting, ...] = (
    Setting.text(
        "electionEngine",
        CONTROLLER,
        "What elects: RocketMQ's controllers at controllerAddr, or etcd at etcdEndpoints (GantryMQ's own).",
        choices=(CONTROLLER, ETCD),
    ),
    Setting.text("controllerAddr", "", "Addresses of the controllers, host:port;host:port."),
    Setting.number(
        "controllerHeartBeatTimeoutMills",
        10000,
        "Let the controller replace this master after this time without a heartbeat, ms.",
        at_least=1000,
    ),
    Setting.number(
        "brokerElectionPriority", 0x7FFFFFFF, "Among equal logs the broker with the lowest one is elected.", at_least=0
    ),
    Setting.flag("asyncLearner", False, "Copy the log, but never be in the in-sync set nor the master."),
    Setting.text(
        "storePathEpochFile",
        "",
        "File with the epochs of the log; empty means epochFileCheckpoint in the store folder.",
    ),
    Setting.text(
        "storePathBrokerIdentity",
        "",
        "File with this broker's id in the set; empty means brokerIdentity in the store folder.",
    ),
    Setting.text(
        "fencing",
        Fencing.STRICT.value,
        "When a master that cannot reach the engine stops: before another one may be elected (strict), the same unless "
        "its whole in-sync set follows it (failsafe), or never, as in RocketMQ, whose master may then acknowledge what "
        "is lost (rocketmq); GantryMQ's own.",
        choices=tuple(each.value for each in Fencing),
    ),
    Setting.text("etcdEndpoints", "", "Addresses of etcd, host:port;host:port (GantryMQ's own)."),
    Setting.text("etcdUser", "", "User name for etcd; empty without authentication (GantryMQ's own)."),
    Setting("etcdPassword", "text", "", "Password of etcdUser (GantryMQ's own).", secret=True),
    Setting.number(
        "etcdLeaseSeconds",
        9,
        "Another master is elected this long after the last renewal (GantryMQ's own).",
        at_least=3,
    ),
)


@attrs.frozen(kw_only=True)
class ElectionSettings:
    """The settings of one broker, durations in seconds."""

    engine: str
    controllers: tuple[str, ...]
    endpoints: tuple[str, ...]
    user: str
    password: str = attrs.field(repr=False)
    lease_s: int
    heartbeat_s: float
    priority: int
    learner: bool
    epochs: Path
    identity: Path
    fencing: Fencing
    least_copies: int
    all_in_sync: bool
    max_late_s: float

    @classmethod
    def of(cls, settings: Settings, root: Path) -> Self:
        """Read them.

        Raises:
            ConfigError: they contradict each other.
        """
        number, text = settings.number, settings.text
        engine, fencing = text("electionEngine"), Fencing(text("fencing"))
        key = "etcdEndpoints" if engine == ETCD else "controllerAddr"
        addresses = tuple(each.strip() for each in text(key).split(";") if each.strip())
        if not addresses:
            raise ConfigError(
                f"enableControllerMode=true with electionEngine={engine} needs {key}, host:port;host:port"
            )
        try:
            for each in addresses:
                parse_address(each)
        except ValueError as problem:
            raise ConfigError(f"{settings.source(key)}: {key}: {problem}") from None
        if settings.flag("enableSlaveActingMaster"):
            raise ConfigError("enableSlaveActingMaster=true and enableControllerMode=true: choose one of them")
        return cls(
            engine=engine,
            controllers=addresses if engine == CONTROLLER else (),
            endpoints=addresses if engine == ETCD else (),
            user=text("etcdUser"),
            password=text("etcdPassword"),
            lease_s=number("etcdLeaseSeconds"),
            heartbeat_s=number("controllerHeartBeatTimeoutMills") / 1000,
            priority=number("brokerElectionPriority"),
            learner=settings.flag("asyncLearner"),
            epochs=Path(text("storePathEpochFile") or root / "epochFileCheckpoint"),
            identity=Path(text("storePathBrokerIdentity") or root / "brokerIdentity"),
            fencing=fencing,
            least_copies=number("minInSyncReplicas"),
            all_in_sync=fencing is not Fencing.ROCKETMQ or settings.flag("allAckInSyncStateSet"),
            max_late_s=number("haMaxTimeSlaveNotCatchup") / 1000,
        )

    def set_rules(self, own_id: int) -> SetRules:
        """Return how this broker treats its in-sync set as the master."""
        return SetRules(
            own_id=own_id,
            least_copies=self.least_copies,
            all_in_sync=self.all_in_sync,
            max_late_s=self.max_late_s,
            first_s=FIRST_S,
            doubt_s=DOUBT_S if self.engine == CONTROLLER else float("inf"),
        )
