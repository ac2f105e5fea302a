"""Settings of elected roles, under RocketMQ's keys where it has them.

Source: apache/rocketmq common/.../BrokerConfig.java, store/.../config/MessageStoreConfig.java.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import attrs

from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError
from gantrymq.model.hosts import parse_address, split_addresses
from gantrymq_replication.election.machine import Fencing
from gantrymq_replication.election.sync_set import SetRules

__all__ = ["CONTROLLER", "ETCD", "SCHEMA", "ElectionSettings", "epoch_path", "settings_without_effect"]

CONTROLLER: Final = "controller"
ETCD: Final = "etcd"
ETCD_KEYS: Final = ("etcdEndpoints", "etcdUser", "etcdCaPath", "etcdCertPath", "etcdKeyPath", "etcdLeaseSeconds")
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
    Setting("etcdPassword", "text", "", "Password of etcdUser (GantryMQ's own).", secret=True, local=True),
    Setting.text(
        "etcdPasswordPath",
        "",
        "File with the password of etcdUser, instead of etcdPassword (GantryMQ's own).",
        local=True,
    ),
    Setting.text(
        "etcdCaPath",
        "",
        "File of the authorities that sign etcd's certificates, PEM; with it etcd is reached by TLS (GantryMQ's own).",
        local=True,
    ),
    Setting.text(
        "etcdCertPath",
        "",
        "File of the certificate chain sent to etcd, PEM, which etcd's client-cert-auth asks for (GantryMQ's own).",
        local=True,
    ),
    Setting.text(
        "etcdKeyPath",
        "",
        "File of its private key, PEM; empty means the key is in etcdCertPath (GantryMQ's own).",
        local=True,
    ),
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
        addresses = tuple(split_addresses(text(key)))
        if not addresses:
            other = (
                "" if engine == ETCD or not text("etcdEndpoints") else "; set electionEngine=etcd to use etcdEndpoints"
            )
            raise ConfigError(
                f"enableControllerMode=true with electionEngine={engine} needs {key}, host:port;host:port{other}"
            )
        try:
            for each in addresses:
                parse_address(each)
        except ValueError as problem:
            raise ConfigError(f"{settings.source(key)}: {key}: {problem}") from None
        if settings.flag("enableSlaveActingMaster"):
            raise ConfigError("enableSlaveActingMaster=true and enableControllerMode=true: choose one of them")
        all_in_sync = fencing is not Fencing.ROCKETMQ or settings.flag("allAckInSyncStateSet")
        if (copies := number("inSyncReplicas")) > 1 and not all_in_sync:
            raise ConfigError(
                f"inSyncReplicas={copies} with fencing=rocketmq is not implemented: set allAckInSyncStateSet=true, so "
                "that an acknowledgement waits for the whole in-sync set"
            )
        return cls(
            engine=engine,
            controllers=addresses if engine == CONTROLLER else (),
            endpoints=addresses if engine == ETCD else (),
            lease_s=number("etcdLeaseSeconds"),
            heartbeat_s=number("controllerHeartBeatTimeoutMills") / 1000,
            priority=number("brokerElectionPriority"),
            learner=settings.flag("asyncLearner"),
            epochs=epoch_path(settings, root),
            identity=Path(text("storePathBrokerIdentity") or root / "brokerIdentity"),
            fencing=fencing,
            least_copies=number("minInSyncReplicas"),
            all_in_sync=all_in_sync,
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


def settings_without_effect(settings: Settings) -> Iterator[str]:
    """Return a sentence for each group of settings that say something else than elected roles do, or nothing."""
    number, text, flag = settings.number, settings.text, settings.flag
    if not flag("enableControllerMode"):
        if given := _given(settings, "electionEngine", "controllerAddr", "etcdEndpoints", "asyncLearner", "fencing"):
            yield f"without enableControllerMode=true these settings have no effect: {given}"
        return
    if given := _given(settings, "brokerRole", "brokerId", "haMasterAddress"):
        yield f"the role of this broker is elected, so these settings have no effect: {given}"
    if number("inSyncReplicas") > 1 or flag("enableAutoInSyncReplicas"):
        given = _given(settings, "inSyncReplicas", "enableAutoInSyncReplicas")
        yield (
            f"the role of this broker is elected, so an acknowledgement waits for its whole in-sync set, and "
            f"minInSyncReplicas={number('minInSyncReplicas')} says how many that must be; these settings have no "
            f"effect: {given}"
        )
    all_in_sync, fencing = "allAckInSyncStateSet", text("fencing")
    if fencing != Fencing.ROCKETMQ.value and not flag(all_in_sync) and settings.source(all_in_sync) != "default":
        yield (
            f"with fencing={fencing} an acknowledgement waits for the whole in-sync set, so this setting has no "
            f"effect: {all_in_sync}=false; fencing=rocketmq acknowledges what only the master has, which is lost with "
            "it"
        )
    other = ["controllerAddr"] if text("electionEngine") == ETCD else [*ETCD_KEYS]
    if given := _given(settings, *other):
        yield f"with electionEngine={text('electionEngine')} these settings have no effect: {given}"


def _given(settings: Settings, *keys: str) -> str:
    """Return the keys that have another value than their default."""
    values = settings.as_dict()
    return ", ".join(f"{each}={values[each]}" for each in keys if values[each] != settings.schema[each].default)


def epoch_path(settings: Settings, root: Path) -> Path:
    """Return the file with the epochs of the log."""
    return Path(settings.text("storePathEpochFile") or root / "epochFileCheckpoint")
