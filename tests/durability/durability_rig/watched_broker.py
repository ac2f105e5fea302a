"""Name server and broker in this process, their files recorded and their connections watched."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs

from durability_rig.ledger import Ledger
from durability_rig.load import TOPICS, Load, make_load_topics
from durability_rig.oracle import LogFiles, Verdict, judge
from durability_rig.watched_network import WatchedNetwork
from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.plugins import load_plugins
from gantrymq.world import Files, World
from gantrymq.world.real import real_world
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.recording import RecordingFiles
from gantrymq_testing.simulated import simulate

LOG_FILE_BYTES = 512 * 1024
PATIENCE_S = 60.0
SMALL = {"mappedFileSizeCommitLog": LOG_FILE_BYTES, "mappedFileSizeConsumeQueue": 2000, "store": "mmap"}


@attrs.define
class Watched:
    """A running broker and its recorded calls."""

    world: World  # the clients'
    record: RecordingFiles
    network: WatchedNetwork
    root: Path
    host: str
    namesrv: str = ""
    ledger: Ledger = attrs.field(factory=Ledger)

    def verdict(self) -> Verdict:
        """Check the recorded calls."""
        files, folder = self.world.files, self.root / "commitlog"
        log = LogFiles({folder / name: files.read(folder / name) for name in files.list(folder)})
        return judge(self.record.calls, self.network.answers, log)


Case = Callable[[Watched], Awaitable[None]]


def run_watched(
    case: Case,
    *,
    seed: int | None = None,
    folder: Path = Path("/"),
    wrap: Callable[[RecordingFiles], Any] = lambda record: record,
    **settings: Any,
) -> Watched:
    """Start the servers, run ``case(watched)``, stop them.

    Args:
        seed: of a simulated world; None for the real one, over loopback and files in *folder*.
        wrap: puts something between the broker and its recorded files.
        settings: of the broker.
    """
    if seed is not None:
        return simulate(seed, lambda world: _run(case, world, Path("/store"), "10.0.0.1", wrap, settings))

    async def real() -> Watched:
        world = real_world()
        try:
            return await asyncio.wait_for(_run(case, world, folder / "store", "127.0.0.1", wrap, settings), PATIENCE_S)
        finally:
            await world.workers.close()

    return asyncio.run(real())


async def _run(
    case: Case,
    world: World,
    root: Path,
    host: str,
    wrap: Callable[[RecordingFiles], Files],
    given: dict[str, Any],
) -> Watched:
    record = RecordingFiles(world.files)
    watched = Watched(world, record, WatchedNetwork(world.network, record), root, host)
    names = NameServer(world, _name_server_settings(root, host))
    watched.namesrv = "{}:{}".format(*await names.start())
    plugins = load_plugins("storage_mmap,filter_tag", reserved=SCHEMA)
    settings = Settings([*SCHEMA, *plugins.config])
    own = {"bindAddress": host, "listenPort": 0, "brokerName": "b", "storePathRootDir": str(root)}
    for key, value in {**own, "namesrvAddr": watched.namesrv, **SMALL, **given}.items():
        settings.set(key, value, "the test")
    server_world = attrs.evolve(world, files=wrap(record), network=watched.network)
    broker = BrokerServer(server_world, settings, plugins)
    await broker.start()
    try:
        await case(watched)
    finally:
        await broker.stop()
        await names.stop()
    return watched


def _name_server_settings(root: Path, host: str) -> Settings:
    settings = Settings(name_server_settings(root.parent))
    settings.set("bindAddress", host, "the test")
    settings.set("listenPort", 0, "the test")
    return settings


def load_case(seed: int, requests: int, unwaited: float = 0.0) -> Case:
    """Send over several connections until *requests* are acknowledged, while a consumer reads along."""

    async def case(watched: Watched) -> None:
        await make_load_topics(watched.namesrv, watched.ledger, watched.world)
        count = 0

        def acknowledged() -> None:
            nonlocal count
            count += 1
            if count == requests:
                load.stop()

        load = Load(
            watched.ledger,
            watched.namesrv,
            seed,
            world=watched.world,
            new_topics=("Auto",),
            unwaited=unwaited,
            on_acknowledged=acknowledged,
        )
        await asyncio.gather(load.run(), load.follow(random.Random(seed).choice(TOPICS)))
        assert not watched.ledger.refusals, watched.ledger.refusals

    return case
