"""Differences between the output of the admin tool for our broker and for Java's, by command, with the reason.

docs/start/compatibility.md shows the reasons: such a command ``differs``, or is ``refused`` if our broker does not
support it. ``-`` is a line that only Java's output has, ``+`` one that only ours has; patterns are shell patterns, and
each must match. Values that differ in every run (times, ids, addresses, rates) are removed before (mqadmin_shapes.py).
"""

from fnmatch import fnmatchcase
from typing import NamedTuple


class Named(NamedTuple):
    """One kind of difference of one command."""

    command: str
    reason: str
    lines: tuple[str, ...]
    refused: bool = False  # our broker does not support the command


FAQ = "+ For more information, please visit the url, https://rocketmq.apache.org/docs/bestPractice/06FAQ"
WORDS = "the sentence is ours, the code is Java's"
OWN_NAME = "5.3.3 takes the topic's own name for a group"
EARLIER = "the golden run asked before the group had met what came, and committed"
OWN_TRACK = (
    "- MessageTrack [[]consumerGroup=GoldenLive, *",
    "- See https://rocketmq.apache.org/docs/bestPractice/06FAQ *",
)

DIFFERENT = (
    Named("02-updateTopic", WORDS, ("- Caused by: *CODE: 29 DESC: The spec*", "+ Caused by: *CODE: 29 DESC: *")),
    Named("03-updateTopic", WORDS, ("- Caused by: *CODE: 29 DESC: The topic*", "+ Caused by: *CODE: 29 DESC: *")),
    Named("06-topicList", OWN_NAME, ("- DefaultCluster GoldenLive GoldenLive",)),
    Named("13-consumerProgress", EARLIER, ("+ %RETRY%CG_live broker-a 0 0 0 0 0 N/A",)),
    Named("21-queryMsgById", OWN_NAME, OWN_TRACK),
    Named("24-queryMsgByUniqueKey", OWN_NAME, (*OWN_TRACK, "+ MessageTrack [[]consumerGroup=CG_live*")),
    Named("25-queryMsgByOffset", OWN_NAME, OWN_TRACK),
    Named("32-clusterList", "the version is ours", ("- *V5_3_3*", "+ *GantryMQ*")),
    Named(
        "34-brokerStatus", "the version is ours", ("- brokerVersionDesc : V5_3_3", "+ brokerVersionDesc : GantryMQ *")
    ),
    Named("34-brokerStatus", "a figure of ours", ("+ pullRequestsHeld : *",)),
    Named("34-brokerStatus", "another folder", tuple(f"{sign} commitLogDiskRatio_*commitlog: RATE" for sign in "-+")),
    Named(
        "35-brokerConsumeStats",
        EARLIER,
        (
            "- Diff Total: 1",
            "- GoldenLive CG_live broker-a 2 7 6 1 TIME",
            "+ Diff Total: 0",
            "+ GoldenLive CG_live broker-a 2 7 7 0 TIME",
        ),
    ),
    Named("36-statsAll", OWN_NAME, ("- GoldenLive GoldenLive *",)),
    Named("37-statsAll", OWN_NAME, ("- GoldenLive GoldenLive *",)),
    Named("38-getBrokerConfig", "ours has fewer settings, and some of its own", ("- * =*", "+ * =*")),
    Named(
        "40-getNamesrvConfig",
        "other folders and ports, and settings of our own",
        (
            *(f"+ {key} =*" for key in ("listeners", "authorizer", "accessPath", "brokerClusterName", "routeAccess")),
            *(
                f"{sign} {key} =*"
                for key in ("configStorePath", "kvConfigPath", "listenPort", "rocketmqHome")
                for sign in "-+"
            ),
        ),
    ),
)


def patterns(command: str) -> list[str]:
    """Return the patterns of allowed differences in the output of one command."""
    return [pattern for named in DIFFERENT if named.command == command for pattern in named.lines]


def result_of(command: str) -> str:
    """Return the page's result for a command whose test passed."""
    found = [named for named in DIFFERENT if named.command == command]
    if not found:
        return "works"
    reasons = "; ".join(dict.fromkeys(named.reason for named in found))
    return f"{'refused' if any(named.refused for named in found) else 'differs'}: {reasons}"


def unnamed(command: str, lines: list[str]) -> list[str]:
    """The lines that no pattern covers."""
    allowed = patterns(command)
    return [line for line in lines if not any(fnmatchcase(line, pattern) for pattern in allowed)]


def unmet(command: str, lines: list[str]) -> list[str]:
    """The patterns that cover no line."""
    return [pattern for pattern in patterns(command) if not any(fnmatchcase(line, pattern) for line in lines)]
