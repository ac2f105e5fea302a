"""Remote query and update of settings at runtime (requests 318 and 319).

Source: apache/rocketmq namesrv/.../processor/DefaultRequestProcessor.java (updateConfig, getConfig,
validateBlackListConfigExist), common/.../Configuration.java.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from gantrymq.config import Settings, Value
from gantrymq.errors import NoPermission, RequestError
from gantrymq.settings_file import properties_text
from gantrymq.world import World
from gantrymq.world.folders import make_durable_dirs

log = logging.getLogger(__name__)

ALWAYS_BLACK_LISTED: Final = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})
TLS_PREFIX: Final = "tls."  # black-listed as well, including undeclared keys


def _kept(settings: Settings) -> dict[str, Value]:
    """Return the settings to save: all values, and the local ones that an operator set, passwords included."""
    given = {key: value for key, value in settings.as_dict(secrets=True).items() if settings.source(key) != "default"}
    return settings.shown() | {key: value for key, value in given.items() if settings.schema[key].local}


async def update(world: World, settings: Settings, properties: dict[str, str]) -> None:
    """Change *settings* and write all of them to configStorePath; the old content is saved as ``<file>.bak``.

    Unknown keys are ignored. All values are checked first: an invalid one changes nothing. A key that is read only at
    start is written too, and takes effect at the next start.

    Raises:
        NoPermission: a key is black-listed.
        ConfigError: a value is invalid for its key.
        RequestError: the file cannot be written; nothing has changed.
    """
    black = ALWAYS_BLACK_LISTED.union(settings.text("configBlackList").split(";"))
    black |= {key for key, setting in settings.schema.items() if setting.local}
    refused = sorted(key for key in properties if key in black or key.startswith(TLS_PREFIX))
    if refused:
        raise NoPermission(f"Can not update config in black list: {', '.join(refused)}")
    where = "request 318"
    known = {key: value for key, value in properties.items() if key in settings.schema}
    values = settings.as_dict(secrets=True)
    changed = Settings(
        settings.schema.values(), {key: value for key, value in values.items() if settings.source(key) != "default"}
    )
    for key, value in known.items():
        changed.set(key, value, where)
    path = Path(settings.text("configStorePath"))
    try:
        await world.workers.run(_save, world, path, properties_text(_kept(changed)).encode())
    except OSError as error:
        raise RequestError(f"the change was not made: {path} cannot be written: {error}") from error
    for key, value in known.items():
        settings.set(key, value, where)
        log.info("setting %s=%s%s", key, value, "" if settings.schema[key].runtime else " (acts at the next start)")


def _save(world: World, path: Path, data: bytes) -> None:
    files = world.files
    make_durable_dirs(files, path.parent)
    if files.stat(path) is not None:
        files.replace(path.with_name(path.name + ".bak"), files.read(path))
    files.replace(path, data)
