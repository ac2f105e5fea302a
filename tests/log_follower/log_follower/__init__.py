"""Plugin that keeps the store of one broker equal to the store of another, by the raw log.

Each broker serves its log; one with ``logFollow`` becomes a replica and copies the log of another.
"""

from __future__ import annotations

from gantrymq.config import Setting
from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, ServiceRegistry
from log_follower.follower import LogFollower
from log_follower.source import LogSource


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Add the addresses."""
    registry.add(Setting("logSourcePort", "number", 0, "Port of the log, 0: a free one.", at_least=0, at_most=65535))
    registry.add(Setting("logFollow", "text", "", "HOST:PORT of the log to follow, or a file that contains it."))


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Add source and follower."""
    registry.add(LogSource())
    registry.add(LogFollower())
