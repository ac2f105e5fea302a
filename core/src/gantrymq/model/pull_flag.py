"""Bits of a pull's sysFlag: what the consumer asks for beside messages.

Source: apache/rocketmq common/.../sysflag/PullSysFlag.java.
"""

PULL_COMMIT_OFFSET = 0x1  # take its commitOffset over
PULL_SUSPEND = 0x2  # the pull may be held until there is something
PULL_SUBSCRIPTION = 0x4  # use the subscription of this request, not the group's
