"""Pulls from slaves: which broker a group should pull from next, and what differs on a slave.

    slaveReadEnable   where     the messages found are          the group should pull from
    false             master    recent or old                   0, the master
    true              master    old                             whichBrokerWhenConsumeSlowly of the group, by default 1
    true              master    recent                          brokerId of the group, by default 0
    true              slave     old                             whichBrokerWhenConsumeSlowly
    true              slave     recent, or there are none       0
    false             slave     -                               pulls are refused

An acting master counts as a master here.

Old messages are further from the end of the log than accessMessageInMemoryMaxRatio of the memory. RocketMQ judges by
the last entry examined, the stores here by the last message found.

A slave may lack messages that the master has, so a result without messages is PULL_RETRY_IMMEDIATELY: the client asks
the master. If the master is down, clients of RocketMQ repeat such a pull at once, all the time. So a slave here holds
it for `HOLD_S` first, as any pull at the end of a queue.

Source: apache/rocketmq broker/.../processor/PullMessageProcessor.java (rejectRequest, processRequest),
DefaultPullMessageResultHandler.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.config import Settings
from gantrymq.errors import RequestRefused
from gantrymq.interfaces import GetResult
from gantrymq.model.group import GroupConfig

HOLD_S: Final = 1.0
MASTER_ID: Final = 0
_SYSTEM_BUSY: Final = 2
_REFUSED: Final = (
    "this broker is a slave, and slaveReadEnable=false keeps consumers from it; pull from the master of its group, or "
    "set slaveReadEnable=true on master and slaves"
)


class SlaveReads:
    """The rules of one broker."""

    def __init__(self, settings: Settings, serves_as_master: Callable[[], bool]) -> None:
        self._settings = settings
        self._serves_as_master = serves_as_master

    def check(self) -> None:
        """Check that this broker serves pulls.

        Raises:
            RequestRefused: it is a slave, and slaveReadEnable is not set; code 2, as a slave of RocketMQ 5.
        """
        if not self._serves_as_master() and not self._settings.flag("slaveReadEnable"):
            raise RequestRefused(_SYSTEM_BUSY, _REFUSED)

    def suggested(self, group: GroupConfig, found: GetResult) -> int:
        """Return the id of the broker that *group* should pull from next."""
        if not self._settings.flag("slaveReadEnable"):
            return MASTER_ID
        if found.distant:
            return group.which_broker_when_slow
        return group.broker_id if self._serves_as_master() else MASTER_ID
