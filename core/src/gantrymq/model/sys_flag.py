"""Bits of the sysFlag of a message, and of that of a pull request (``PULL_*``).

Source: apache/rocketmq common/.../sysflag/MessageSysFlag.java, common/.../compression/CompressionType.java,
common/.../sysflag/PullSysFlag.java.
"""

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_MASK = 0xC
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_MASK = 0x700
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300


PULL_COMMIT_OFFSET = 0x1  # commit the offset in commitOffset
PULL_SUSPEND = 0x2  # the broker may hold the pull until messages arrive
PULL_SUBSCRIPTION = 0x4  # use the subscription in this request instead of the group's
