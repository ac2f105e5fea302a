"""Settings of replication, of fixed and of elected roles, under RocketMQ's keys where it has them.

Source: apache/rocketmq common/.../BrokerConfig.java, store/.../config/MessageStoreConfig.java. Differences are in the
plugin's README.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.model import parse_address, split_addresses
from gantrymq.plugin.settings import Setting, Settings
from gantrymq_replication.election.fencing import Fencing

if TYPE_CHECKING:
    from gantrymq_replication.election.sync_set import SyncSetSettings

SYNC_MASTER: Final = "SYNC_MASTER"
SLAVE: Final = "SLAVE"
_SHORTEST_HA_ADDRESS: Final = 6  # RocketMQ takes a longer haMasterAddress only
_CONTROLLER: Final = "controller"
ETCD: Final = "etcd"
_ETCD_KEYS: Final = ("etcdEndpoints", "etcdUser", "etcdCaPath", "etcdCertPath", "etcdKeyPath", "etcdLeaseSeconds")
FIRST_S: Final = 1.5  # for members to connect to a new master; ours do within 0.5 s
_DOUBT_S: Final = 30.0  # after which a request to a controller that was not answered has no effect any more

SCHEMA: tuple[Setting, ...] = (
    Setting.text(
        "brokerRole",
        "ASYNC_MASTER",
        "ASYNC_MASTER acknowledges without waiting for slaves, SYNC_MASTER waits for inSyncReplicas - 1 of them, SLAVE "
        "copies the log of its master.",
        choices=("ASYNC_MASTER", SYNC_MASTER, SLAVE),
    ),
    Setting.flag(
        "enableControllerMode",
        False,
        "Let electionEngine choose the master of this brokerName; brokerRole, brokerId and haMasterAddress then have "
        "no effect.",
    ),
    Setting.number(
        "brokerId", 0, "0 is the master of its brokerName; a slave needs another one, 1 or more.", at_least=-1
    ),
    Setting.number(
        "haListenPort",
        0,
        "Port on which a master serves slaves, at bindAddress; 0 means listenPort + 1, or a free one if listenPort=0.",
        at_least=0,
        at_most=65535,
    ),
    Setting.text("brokerIP2", "", "Host of the HA port in registrations; empty means brokerIP1."),
    Setting.text(
        "haMasterAddress", "", "HA address of a slave's master, host:port; empty means as name servers tell it."
    ),
    Setting.number(
        "haTransferBatchSize", 32768, "Most bytes of one transfer.", at_least=1024, at_most=4 * 1024 * 1024 - 12
    ),
    Setting.number(
        "haSendHeartbeatInterval", 5000, "Send a heartbeat or a report after this silence, ms.", at_least=100
    ),
    Setting.number("haHousekeepingInterval", 20000, "Close a connection after this silence, ms.", at_least=100),
    Setting.flag("haFlowControlEnable", False, "Limit the rate to each slave to maxHaTransferByteInSecond."),
    Setting.number("maxHaTransferByteInSecond", 104857600, "Most bytes per second to one slave.", at_least=1024),
    Setting.flag(
        "syncFromLastFile",
        False,
        "Begin the copy of an empty slave at the newest log file, as RocketMQ's classic replication always does, "
        "instead of the oldest.",
    ),
    Setting.number(
        "inSyncReplicas",
        1,
        "Copies, the master's included, that a SYNC_MASTER waits for; 1 waits for none, as in RocketMQ 5.",
        at_least=1,
    ),
    Setting.number(
        "minInSyncReplicas",
        1,
        "Refuse messages with code 1 while fewer copies, the master's included, are in sync.",
        at_least=1,
    ),
    Setting.flag("allAckInSyncStateSet", False, "Let a SYNC_MASTER wait for every slave that is in sync."),
    Setting.number("slaveTimeout", 3000, "Answer FLUSH_SLAVE_TIMEOUT if slaves take longer, ms.", at_least=1),
    Setting.number("haMaxGapNotInSync", 268435456, "A slave with a larger gap is not in sync, bytes.", at_least=1),
    Setting.number(
        "haMaxTimeSlaveNotCatchup",
        15000,
        "A slave that did not catch up for this long is not in sync, ms.",
        at_least=100,
    ),
    Setting.flag(
        "enableSlaveActingMaster",
        False,
        "Let the slave with the smallest id do the background work of a missing master; set it on all brokers of a "
        "group, and supportActingMaster on name servers.",
    ),
    Setting.flag(
        "enableRemoteEscape",
        False,
        "Let an acting master send what it cannot store, such as delayed messages that are due, to another brokerName.",
    ),
    Setting.flag(
        "skipPreOnline",
        False,
        "Let a master of a group with acting masters begin without the progress of its slaves.",
    ),
    Setting.flag(
        "enableAutoInSyncReplicas",
        False,
        "With enableSlaveActingMaster, wait for fewer copies than inSyncReplicas if there are fewer, but at least "
        "minInSyncReplicas.",
    ),
    Setting.number(
        "syncBrokerMemberGroupPeriod",
        1000,
        "Send a heartbeat to name servers, and ask them for the members of the group, each this often, ms; with "
        "enableSlaveActingMaster.",
        at_least=10,
    ),
    Setting.number(
        "brokerNotActiveTimeoutMillis",
        10000,
        "Let name servers remove this broker after this time without a heartbeat, ms; with enableSlaveActingMaster.",
        at_least=1000,
    ),
    Setting(
        "haTlsEnable",
        "flag",
        False,
        "Use TLS on HA connections, with the certificates of the tls.server and tls.client settings (GantryMQ's own).",
        local=True,
    ),
    Setting.text(
        "haSecretPath",
        "",
        "File with a secret that masters and slaves share: each proves to the other that it knows it, before anything "
        "is copied (GantryMQ's own).",
        local=True,
    ),
    Setting.number(
        "haSlaveFallbehindMax",
        268435456,
        "With fewer slaves than needed within this gap, answer SLAVE_NOT_AVAILABLE at once, bytes.",
        at_least=1,
    ),
    Setting.text(
        "electionEngine",
        _CONTROLLER,
        "What elects: RocketMQ's controllers at controllerAddr, or etcd at etcdEndpoints (GantryMQ's own).",
        choices=(_CONTROLLER, ETCD),
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
class HaSettings:
    """The settings of masters and slaves, durations in seconds."""

    role: str
    broker_id: int
    listen_port: int
    host: str
    master_address: str
    batch_bytes: int
    heartbeat_s: float
    silence_s: float
    bytes_per_second: int  # 0: no limit
    from_last_file: bool
    copies: int  # to wait for, the master's included
    least_copies: int
    all_in_sync: bool
    slave_timeout_s: float
    max_gap: int
    max_late_s: float
    fall_behind_max: int
    acting: bool  # slaves may act for their master
    escape: bool
    skip_pre_online: bool
    fewer_copies: bool  # wait for as many as there are
    group_period_s: float
    heartbeat_timeout_ms: int
    elected: bool = False  # roles are elected; brokerRole, brokerId and haMasterAddress have no effect

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Read them.

        Raises:
            ConfigError: they contradict each other.
        """
        number, text, flag = settings.number, settings.text, settings.flag
        role, broker_id, master = text("brokerRole"), number("brokerId"), text("haMasterAddress").strip()
        elected = flag("enableControllerMode")
        if role == SLAVE and broker_id <= 0 and not elected:
            what = "the id 0 is the master's" if not broker_id else "this is no id"
            raise ConfigError(
                f"brokerRole=SLAVE with brokerId={broker_id}: {what}; give this slave another one, such as 1"
            )
        if role != SLAVE and broker_id and not elected:
            raise ConfigError(
                f"brokerId={broker_id} with brokerRole={role}: a master has the id 0; set brokerRole=SLAVE"
            )
        if master and not elected and (role == SLAVE or len(master) > _SHORTEST_HA_ADDRESS):
            try:
                parse_address(master)
            except ValueError as problem:
                raise ConfigError(f"{settings.source('haMasterAddress')}: haMasterAddress: {problem}") from None
        return cls(
            role=role,
            broker_id=broker_id,
            listen_port=number("haListenPort"),
            host=text("brokerIP2"),
            master_address=master,
            batch_bytes=number("haTransferBatchSize"),
            heartbeat_s=number("haSendHeartbeatInterval") / 1000,
            silence_s=number("haHousekeepingInterval") / 1000,
            bytes_per_second=number("maxHaTransferByteInSecond") if flag("haFlowControlEnable") else 0,
            from_last_file=flag("syncFromLastFile"),
            copies=number("inSyncReplicas"),
            least_copies=number("minInSyncReplicas"),
            all_in_sync=flag("allAckInSyncStateSet"),
            slave_timeout_s=number("slaveTimeout") / 1000,
            max_gap=number("haMaxGapNotInSync"),
            max_late_s=number("haMaxTimeSlaveNotCatchup") / 1000,
            fall_behind_max=number("haSlaveFallbehindMax"),
            acting=flag("enableSlaveActingMaster"),
            escape=flag("enableRemoteEscape"),
            skip_pre_online=flag("skipPreOnline"),
            fewer_copies=flag("enableAutoInSyncReplicas"),
            group_period_s=number("syncBrokerMemberGroupPeriod") / 1000,
            heartbeat_timeout_ms=number("brokerNotActiveTimeoutMillis"),
            elected=elected,
        )


@attrs.frozen(kw_only=True)
class ElectionSettings:
    """The settings of a broker with an elected role, durations in seconds."""

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
            controllers=addresses if engine == _CONTROLLER else (),
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

    def set_rules(self, own_id: int) -> SyncSetSettings:
        """Return how this broker treats its in-sync set as the master."""
        from gantrymq_replication.election.sync_set import SyncSetSettings  # fixed roles have no set

        return SyncSetSettings(
            own_id=own_id,
            least_copies=self.least_copies,
            all_in_sync=self.all_in_sync,
            max_late_s=self.max_late_s,
            first_s=FIRST_S,
            doubt_s=_DOUBT_S if self.engine == _CONTROLLER else float("inf"),
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
    other = ["controllerAddr"] if text("electionEngine") == ETCD else [*_ETCD_KEYS]
    if given := _given(settings, *other):
        yield f"with electionEngine={text('electionEngine')} these settings have no effect: {given}"


def _given(settings: Settings, *keys: str) -> str:
    """Return the keys that have another value than their default."""
    values = settings.as_dict()
    return ", ".join(f"{each}={values[each]}" for each in keys if values[each] != settings.schema[each].default)


def epoch_path(settings: Settings, root: Path) -> Path:
    """Return the file with the epochs of the log."""
    return Path(settings.text("storePathEpochFile") or root / "epochFileCheckpoint")
