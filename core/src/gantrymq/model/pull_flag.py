"""Bits of the sysFlag of a pull request.

Source: apache/rocketmq common/.../sysflag/PullSysFlag.java.
"""

PULL_COMMIT_OFFSET = 0x1  # commit the offset in commitOffset
PULL_SUSPEND = 0x2  # the broker may hold the pull until messages arrive
PULL_SUBSCRIPTION = 0x4  # use the subscription in this request instead of the group's
