"""The differences between our answers and Java's, by name, with the reason and the number in the recordings.

Patterns are those of the shell. The first matching line counts a difference; the count must be met exactly.
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


# Requests that need unimplemented features, and the answers to them.
NOT_BUILT = (
    Named(
        1,
        "GET_BROKER_EPOCH_CACHE",
        "code",
        "the controller, which Java and gantrymq-replication refuse here too (1)",
        ours="3 *is served by *plugin*",
    ),
    Named(1, "AUTH_LIST_USER", "code", "users, which Java refuses here too (1)", ours="3 *is served by *plugin*"),
    Named(1, "AUTH_LIST_ACL", "code", "policies, which Java refuses here too (1)", ours="3 *is served by *plugin*"),
)

REPLICATION = "no slave copies the log in the replay"
SHIFTED = "records follow each other in the log, and one before has other properties, or decides a transaction (below)"

# Consequences of unimplemented features, or of a difference below.
FOLLOWS = (
    Named(1, "GET_BROKER_HA_STATUS", "json.*Slave*", REPLICATION, scenario="ha"),
    Named(1, "GET_BROKER_HA_STATUS", "json.haConnectionInfo", REPLICATION, scenario="ha"),
    Named(29, "SEND_MESSAGE_V2", "ext.msgId", SHIFTED, scenario="propcrc"),
    Named(20, "SEND_MESSAGE_V2", "ext.msgId", SHIFTED, scenario="transaction"),
    Named(110, "SEND_MESSAGE_V2", "ext.msgId", SHIFTED, scenario="v497"),
    Named(12, "SEND_BATCH_MESSAGE", "ext.msgId", SHIFTED, scenario="v497"),
    Named(29, "PULL_MESSAGE", "records.*.log_offset", SHIFTED, scenario="propcrc"),
    Named(50, "PULL_MESSAGE", "records.*.log_offset", SHIFTED, scenario="transaction"),
    Named(197, "PULL_MESSAGE", "records.*.log_offset", SHIFTED, scenario="v497"),
    Named(13, "PULL_MESSAGE", "records.*.prepared_offset", SHIFTED, about="GoldenTx"),
)

LAGS = "our tools read the lag that the broker computed; RocketMQ's ignore members that they do not know"
OLD = "4.9.7 sends less than 5.3.3, whose answers ours are"
OLD_RECORD = "4.9.7 stores fewer properties than 5.3.3, whose records ours are"
BY_MISTAKE = "Java leaves a text there by mistake"
DIRECT = "what decides half messages is stored at once here, in Java up to three seconds later, many in one record"
REVIVE = "what a pop says to the revive log goes there at once, in Java through the timer (docs/pop.md)"
GIVEN_BACK = (
    "what was not acknowledged in time comes back in time; Java took three seconds more, and the client went by that"
)
STAMPED = "the broker's clock when it stored the mark of a recall, which took Java some ms"
FIGURE = "a figure of a part that is not here: timers, schedules, direct memory"
LATE = "Java notices the end of a hold in a scan every 5 s, ours ends within a second and a message came in between"
SIDE_BY_SIDE = "what comes together is served side by side in Java, in the order in which it came here"
SOONER = "a message wakes a held pull when it is stored, in Java some ms later, with those that came meanwhile"

# Permanent differences.
DIFFERENT = (
    Named(65, "GET_CONSUME_STATS", "json.offsetTable.*.behind", LAGS),
    Named(65, "GET_CONSUME_STATS", "json.offsetTable.*.deletedUnread", LAGS),
    Named(8, "GET_BROKER_CONSUME_STATS", "json.consumeStatsList.*.behind", LAGS),
    Named(8, "GET_BROKER_CONSUME_STATS", "json.consumeStatsList.*.deletedUnread", LAGS),
    Named(6, "PULL_MESSAGE", "ext.nextBeginOffset", SOONER, scenario="sql"),
    Named(6, "PULL_MESSAGE", "ext.maxOffset", SOONER, scenario="sql"),
    Named(3, "PULL_MESSAGE", "records", SOONER, scenario="sql"),
    Named(2, "PULL_MESSAGE", "code", SOONER, scenario="sql", java="0 FOUND", ours="20 NO_MATCHED_MESSAGE"),
    Named(30, "PULL_MESSAGE", "*.__CRC32#", "a CRC of properties is not written", scenario="propcrc"),
    Named(6, "UPDATE_AND_CREATE_TOPIC", "remark", BY_MISTAKE, java="not set *"),
    Named(1, "QUERY_CONSUME_QUEUE", "remark", BY_MISTAKE, java="not set *"),
    Named(2, "RECALL_MESSAGE", "remark", BY_MISTAKE, java="not set *"),
    Named(4, "CHANGE_MESSAGE_INVISIBLETIME", "remark", BY_MISTAKE, java="not set *"),
    Named(6, "QUERY_TOPIC_CONSUME_BY_WHO", "json.groupList", "5.3.3 counts the topic's own name, which is no group"),
    Named(4, "GET_BROKER_RUNTIME_INFO", "*.msgGetTotalTodayNow", "pulls that ended late or were reset (see there)"),
    Named(5, "GET_BROKER_RUNTIME_INFO", "*.pullRequestsHeld", "a figure of ours", java="(absent)"),
    Named(5, "GET_BROKER_RUNTIME_INFO", "*.commitLogDiskRatio_store/*", "another folder", ours="(absent)"),
    Named(5, "GET_BROKER_RUNTIME_INFO", "*.commitLogDiskRatio_/store/*", "another folder", java="(absent)"),
    Named(1, "GET_BROKER_RUNTIME_INFO", "*.timerReadBehind", FIGURE, java="1", ours="0"),
    Named(3, "GET_BROKER_CONFIG", "ext.version", "times"),
    Named(3, "GET_BROKER_CONFIG", "body", "ours lists the settings it has, which are fewer"),
    Named(2, "VIEW_BROKER_STATS_DATA", "json.statsMinute.*", "windows of ten seconds that begin at other moments"),
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
    Named(1, "PULL_MESSAGE", "answer", LATE, scenario="pop", java="(absent)", ours="19 NO_MESSAGE_IN_QUEUE"),
    Named(
        7,
        "PULL_MESSAGE",
        "answer",
        "holds end together here, before the client left; Java had not answered by then",
        scenario="sql",
        java="(absent)",
        ours="19 OFFSET_OVERFLOW_ONE",
    ),
    Named(2, "PULL_MESSAGE", "records.*.born_timestamp", STAMPED, scenario="timer"),
    Named(2, "PULL_MESSAGE", "records.*.BORN_TIMESTAMP", STAMPED, scenario="timer"),
    Named(1, "GET_MAX_OFFSET", "ext.offset", DIRECT, about="RMQ_SYS_TRANS_OP_HALF_TOPIC"),
    Named(3, "PULL_MESSAGE", "*", DIRECT, about="RMQ_SYS_TRANS_OP_HALF_TOPIC"),
    Named(3, "GET_MAX_OFFSET", "ext.offset", REVIVE, about="rmq_sys_REVIVE_LOG_*"),
    Named(1, "GET_MAX_OFFSET", "ext.offset", REVIVE, scenario="pop", about="rmq_sys_wheel_timer"),
    Named(234, "PULL_MESSAGE", "*", REVIVE, about="rmq_sys_REVIVE_LOG_*"),
    Named(1, "PULL_MESSAGE", "*", REVIVE, scenario="pop", about="rmq_sys_wheel_timer"),
    Named(4, "POP_MESSAGE", "*", GIVEN_BACK),
    Named(1, "GET_MAX_OFFSET", "ext.offset", GIVEN_BACK, about="%RETRY%CG_pop_*"),
    Named(3, "PULL_MESSAGE", "*", GIVEN_BACK, about="%RETRY%CG_pop_*_GoldenPop_*"),
    Named(3, "PULL_MESSAGE", "records.*.log_offset", SIDE_BY_SIDE, scenario="retry"),
    Named(5, "SEND_MESSAGE_V2", "ext.msgId", SIDE_BY_SIDE, scenario="normal", about="GoldenC"),
    Named(7, "PULL_MESSAGE", "records.*.log_offset", SIDE_BY_SIDE, scenario="normal", about="GoldenC"),
    Named(2, "PULL_MESSAGE", "code", SIDE_BY_SIDE, scenario="v497", java="25 *", ours="0 FOUND"),
    Named(1, "PULL_MESSAGE", "code", SIDE_BY_SIDE, scenario="v497", java="0 FOUND", ours="25 *"),
    Named(1, "HEART_BEAT", "answer", "the client left before Java's answer", scenario="clientops", java="(absent)"),
    Named(40, "HEART_BEAT", "ext.IS_SU*", OLD, scenario="v497", java="(absent)"),
    Named(111, "SEND_MESSAGE_V2", "ext.transactionId", OLD, scenario="v497", java="(absent)"),
    Named(41, "PULL_MESSAGE", "ext.topicSysFlag", OLD, scenario="v497", java="(absent)"),
    Named(41, "PULL_MESSAGE", "ext.groupSysFlag", OLD, scenario="v497", java="(absent)"),
    Named(4, "PULL_MESSAGE", "*.properties.__transactionId__", OLD_RECORD, scenario="v497", java="(absent)"),
    Named(198, "PULL_MESSAGE", "*.properties.MSG_REGION", OLD_RECORD, scenario="v497", java="(absent)"),
    Named(198, "PULL_MESSAGE", "*.properties.TRACE_ON", OLD_RECORD, scenario="v497", java="(absent)"),
    Named(119, "PULL_MESSAGE", "*.properties.WAIT", OLD_RECORD, scenario="v497", java="(absent)"),
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
    ("v497", 21, 40): (2, 0, "4.9.7 tells members of broadcasting groups too"),
    ("v497", 23, 40): (2, 0, "4.9.7 tells members of broadcasting groups too"),
}
