"""Settings of replication, under RocketMQ's keys.

Source: apache/rocketmq common/.../BrokerConfig.java, store/.../config/MessageStoreConfig.java. Differences are in the
plugin's README.
"""

from __future__ import annotations

from typing import Final, Self

import attrs

from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError
from gantrymq.model.hosts import parse_address

__all__ = ["SCHEMA", "HaSettings"]

SYNC_MASTER: Final = "SYNC_MASTER"
SLAVE: Final = "SLAVE"
SHORTEST_HA_ADDRESS: Final = 6  # RocketMQ takes a longer haMasterAddress only

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
)


@attrs.frozen(kw_only=True)
class HaSettings:
    """The settings that masters and slaves use, durations in seconds."""

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
        if master and not elected and (role == SLAVE or len(master) > SHORTEST_HA_ADDRESS):
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
