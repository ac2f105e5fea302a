"""A simulated broker, and a second one on a copy of its store as a kill would leave it."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

from gantrymq_testing.cluster import Cluster

SETTINGS = {"store": "mmap", "messageDelayLevel": "1s 2s 3h", "maxHashSlotNum": 100, "maxIndexNum": 400}


def copied(files, source, target):
    for name in files.list(source):
        path = target / name
        if files.stat(source / name).is_dir:
            files.make_dirs(path)
            copied(files, source / name, path)
        elif name != "lock":
            files.replace(path, files.read(source / name))


@asynccontextmanager
async def after_a_kill(cluster, name, change=lambda store: None):
    """Start a broker on the store that a kill of *cluster* would leave now."""
    world, root = cluster.world, Path(f"/{name}")
    world.files.make_dirs(root / "store")
    copied(world.files, cluster.root / "store", root / "store")
    change(root / "store")
    kept = {name: cluster.settings.number(name) for name in ("mappedFileSizeTimerLog",)}
    kept["messageIndexEnable"] = cluster.settings.flag("messageIndexEnable")
    again = Cluster(world, root, {**SETTINGS, **kept})
    await again.start()
    try:
        yield again
    finally:
        await again.stop()


async def counts(cluster, topic="T"):
    return Counter(message.body for message in await cluster.pull(topic))
