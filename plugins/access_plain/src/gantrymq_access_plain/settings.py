"""The settings of accounts in plain_acl.yml."""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.settings import Setting

NAME: Final = "plain"
ENABLE: Final = "aclEnable"
HOME: Final = "aclHome"
FILE: Final = "rocketmq.acl.plain.file"

SETTINGS: Final = (
    Setting.flag(ENABLE, False, "Check clients by the accounts of plain_acl.yml.", selects=("authorizer", NAME)),
    Setting.text(HOME, "", "RocketMQ's home, with conf/plain_acl.yml and conf/acl; empty: $ROCKETMQ_HOME.", local=True),
    Setting.text(FILE, "conf/plain_acl.yml", "Path of plain_acl.yml, relative to aclHome.", local=True),
)
