"""Where our answers are not Java's: every difference by name, with its reason and how often the recordings show it.

Patterns are those of the shell. The first line that fits a difference counts it; the count must be met exactly.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from replay_compare import Difference

from gantrymq.remoting.codes import request_name


class Named(NamedTuple):
    """One kind of difference."""

    count: int
    request: str
    path: str
    reason: str
    scenario: str = "*"
    about: str = "*"  # topic or group
    java: str = "*"
    ours: str = "*"

    def covers(self, found: Difference) -> bool:
        """Whether *found* is of this kind."""
        return (
            fnmatchcase(request_name(found.code), self.request)
            and fnmatchcase(found.path, self.path)
            and fnmatchcase(found.scenario, self.scenario)
            and fnmatchcase(found.about, self.about)
            and fnmatchcase(str(found.java), self.java)
            and fnmatchcase(str(found.ours), self.ours)
        )


UNKNOWN = "3  request type * not supported"
POP = "3 *served by a plugin that is not installed*"
SCHEDULE = "13 *delayed messages need a schedule plugin and none is installed*"

# Requests that need what is not built, and what they are told.
NOT_BUILT = (
    Named(60, "SEND_MESSAGE_V2", "code", "delay levels and timers", ours=SCHEDULE),
    Named(42, "SEND_MESSAGE_V2", "code", "transactions", ours="16 *need a transaction plugin and none is installed*"),
    Named(8, "CONSUMER_SEND_MSG_BACK", "code", "delay levels", ours="13 delay level * needs a schedule plugin*"),
    Named(2, "RECALL_MESSAGE", "code", "recall", ours="3 *delayed messages and their recall are not built*"),
    Named(4, "POP_MESSAGE", "*", "pop", ours=POP),
    Named(16, "ACK_MESSAGE", "code", "pop", ours=POP),
    Named(4, "CHANGE_MESSAGE_INVISIBLETIME", "code", "pop", ours=POP),
    Named(4, "QUERY_ASSIGNMENT", "code", "a strategy, which no plugin of the replay offers", ours="1 *strategy AVG*"),
    Named(2, "SET_MESSAGE_REQUEST_MODE", "code", "pop", ours=POP),
    Named(10, "CHECK_CLIENT_CONFIG", "code", "SQL92", ours="1 *by SQL92; no plugin serves this type*"),
    Named(385, "PULL_MESSAGE", "*", "SQL92", scenario="sql", ours="1 *by SQL92; no plugin serves this type*"),
    Named(1, "GET_BROKER_EPOCH_CACHE", "code", "the controller, which Java refuses here too (1)", ours="3 *not built*"),
    Named(1, "AUTH_LIST_USER", "code", "users, which Java refuses here too (1)", ours="3 *not built*"),
    Named(1, "AUTH_LIST_ACL", "code", "access control, which Java refuses here too (1)", ours="3 *not built*"),
)

EMPTY = "19 NO_MESSAGE_IN_QUEUE"
NO_TOPIC = "17 topic * does not exist on this broker*"
NOT_DELIVERED = "the messages were refused above: delayed, half, retried or popped"
SHIFTED = "records follow each other in the log, and one before was refused, or has other properties (below)"

# What follows from the refusals above.
FOLLOWS = (
    Named(43, "GET_MAX_OFFSET", "ext.offset", NOT_DELIVERED),
    Named(36, "PULL_MESSAGE", "code", NOT_DELIVERED, java="0 FOUND", ours=EMPTY),
    Named(1, "PULL_MESSAGE", "code", NOT_DELIVERED, scenario="transaction", java="0 FOUND", ours="21 NO_MESSAGE_*"),
    Named(3, "PULL_MESSAGE", "code", NOT_DELIVERED, java="0 FOUND", ours=NO_TOPIC),
    Named(1, "PULL_MESSAGE", "answer", NOT_DELIVERED, scenario="pop", java="(absent)", ours=EMPTY),
    Named(4, "PULL_MESSAGE", "records", NOT_DELIVERED, about="Golden[DT]*"),
    Named(4, "PULL_MESSAGE", "ext.maxOffset", NOT_DELIVERED, about="Golden[DT]*"),
    Named(4, "PULL_MESSAGE", "ext.nextBeginOffset", NOT_DELIVERED, about="Golden[DT]*"),
    Named(7, "GET_ALL_DELAY_OFFSET", "json.offsetTable.*", "delay levels are not built", ours="(absent)"),
    Named(1, "GET_BROKER_HA_STATUS", "json.*Slave*", "replication is not built", scenario="ha"),
    Named(1, "GET_BROKER_HA_STATUS", "json.haConnectionInfo", "replication is not built", scenario="ha"),
    Named(
        1, "GET_BROKER_HA_STATUS", "json.masterCommitLogMaxOffset", "messages refused above are missing", scenario="ha"
    ),
    Named(185, "SEND_MESSAGE_V2", "ext.msgId", SHIFTED, scenario="[cdhlpv]*"),
    Named(1, "SEND_MESSAGE_V2", "ext.msgId", SHIFTED, scenario="retry"),
    Named(3, "PULL_MESSAGE", "records.*.log_offset", SHIFTED, scenario="retry"),
    Named(12, "SEND_BATCH_MESSAGE", "ext.msgId", SHIFTED, scenario="v497"),
    Named(211, "PULL_MESSAGE", "records.*.log_offset", SHIFTED, scenario="[cdhlpv]*"),
    Named(2, "GET_ALL_TOPIC_CONFIG", "*.rmq_sys_wheel_timer", "timers are not built, so their topic is not made"),
    Named(2, "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", "*.topicList", "timers are not built, so their topic is not made"),
    Named(
        6,
        "GET_BROKER_RUNTIME_INFO",
        "*",
        "messages refused above are not counted",
        scenario="ha",
        java="[0-9]*",
        ours="[0-9]*",
    ),
)

OLD = "4.9.7 sends less than 5.3.3, whose answers ours are"
OLD_RECORD = "4.9.7 stores fewer properties than 5.3.3, whose records ours are"
FIGURE = "a figure of a part that is not here: timers, schedules, direct memory"
LATE = "Java notices the end of a hold in a scan every 5 s, ours ends on time and a message came in between"
SIDE_BY_SIDE = "what comes together is served side by side in Java, in the order in which it came here"

# What stays different.
DIFFERENT = (
    Named(30, "PULL_MESSAGE", "*.__CRC32#", "a CRC of properties is not written", scenario="propcrc"),
    Named(6, "UPDATE_AND_CREATE_TOPIC", "remark", "Java leaves a text there by mistake", java="not set *"),
    Named(6, "QUERY_TOPIC_CONSUME_BY_WHO", "json.groupList", "5.3.3 counts the topic's own name, which is no group"),
    Named(4, "GET_BROKER_RUNTIME_INFO", "*.msgGetTotalTodayNow", "pulls that ended late or were reset (see there)"),
    Named(5, "GET_BROKER_RUNTIME_INFO", "*.pullRequestsHeld", "a figure of ours", java="(absent)"),
    Named(5, "GET_BROKER_RUNTIME_INFO", "*.commitLogDiskRatio_store/*", "another folder", ours="(absent)"),
    Named(5, "GET_BROKER_RUNTIME_INFO", "*.commitLogDiskRatio_/store/*", "another folder", java="(absent)"),
    Named(7, "GET_BROKER_RUNTIME_INFO", "*", FIGURE, ours="(absent)"),
    Named(1, "GET_BROKER_RUNTIME_INFO", "*.timerReadBehind", FIGURE, java="1", ours="0"),
    Named(3, "GET_BROKER_CONFIG", "ext.version", "times"),
    Named(3, "GET_BROKER_CONFIG", "body", "ours lists the settings it has, which are fewer"),
    Named(6, "VIEW_BROKER_STATS_DATA", "json.statsMinute.*", "windows of ten seconds that begin at other moments"),
    Named(1, "QUERY_CONSUME_QUEUE", "remark", "Java leaves a text there by mistake", java="not set *"),
    Named(
        1,
        "PULL_MESSAGE",
        "code",
        "the reset was told to the pull that stays to its end (see there)",
        java="21 OFFSET_RESET",
        ours="19 *",
    ),
    Named(4, "PULL_MESSAGE", "code", LATE, java="0 FOUND", ours="19 OFFSET_OVERFLOW_ONE"),
    Named(2, "PULL_MESSAGE", "code", LATE, java="20 NO_MATCHED_MESSAGE", ours="19 OFFSET_OVERFLOW_ONE"),
    Named(
        3,
        "PULL_MESSAGE",
        "answer",
        "that scan wakes a hold which only messages of other tags passed; ours stays to its end, and the client left",
        java="20 NO_MATCHED_MESSAGE",
        ours="(absent)",
    ),
    Named(5, "SEND_MESSAGE_V2", "ext.msgId", SIDE_BY_SIDE, scenario="normal", about="GoldenC"),
    Named(7, "PULL_MESSAGE", "records.*.log_offset", SIDE_BY_SIDE, scenario="normal", about="GoldenC"),
    Named(2, "PULL_MESSAGE", "code", SIDE_BY_SIDE, scenario="v497", java="25 *", ours="0 FOUND"),
    Named(1, "PULL_MESSAGE", "code", SIDE_BY_SIDE, scenario="v497", java="0 FOUND", ours="25 *"),
    Named(1, "HEART_BEAT", "answer", "the client left before Java's answer", scenario="clientops", java="(absent)"),
    Named(40, "HEART_BEAT", "ext.IS_SU*", OLD, scenario="v497", java="(absent)"),
    Named(77, "SEND_MESSAGE_V2", "ext.transactionId", OLD, scenario="v497", java="(absent)"),
    Named(32, "PULL_MESSAGE", "ext.topicSysFlag", OLD, scenario="v497", java="(absent)"),
    Named(32, "PULL_MESSAGE", "ext.groupSysFlag", OLD, scenario="v497", java="(absent)"),
    Named(173, "PULL_MESSAGE", "*.properties.MSG_REGION", OLD_RECORD, scenario="v497", java="(absent)"),
    Named(173, "PULL_MESSAGE", "*.properties.TRACE_ON", OLD_RECORD, scenario="v497", java="(absent)"),
    Named(118, "PULL_MESSAGE", "*.properties.WAIT", OLD_RECORD, scenario="v497", java="(absent)"),
    Named(
        1,
        "QUERY_CONSUMER_OFFSET",
        "code",
        "4.9.7 answers 0 for an empty queue, 5.3.3 that there is no offset (22)",
        scenario="v497",
        java="0",
        ours="22 *",
    ),
)

ALL = (*NOT_BUILT, *FOLLOWS, *DIFFERENT)

# Requests from the broker to clients: (scenario, connection, code) to how often Java sent it, ours, and the reason.
PUSHED = {
    ("clientops", 22, 40): (0, 1, "the client left 19 ms after joining, before Java told it"),
    ("transaction", 3, 39): (21, 0, "transactions are not built"),
    ("v497", 21, 40): (2, 0, "4.9.7 tells members of broadcasting groups too"),
    ("v497", 23, 40): (2, 0, "4.9.7 tells members of broadcasting groups too"),
}
