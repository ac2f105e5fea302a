"""Name servers: who tells clients where topics are, as the command line runs one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gantrymq.config import Setting, Settings
from gantrymq.world import World


class NameServer(Protocol):
    """One name server of this process."""

    async def start(self, *, held: bool = False) -> tuple[str, int]:
        """Listen, and return host and port, the real one where port 0 was asked.

        With *held* clients can connect, and what they ask waits until `release`, when the broker of the same process
        serves.

        Raises:
            ConfigError: the address cannot be listened on.
        """

    def release(self) -> None:
        """Answer what clients ask."""

    async def stop(self) -> None:
        """Stop answering and close every connection; harmless without a start."""


class NameServerKind(Protocol):
    """What a plugin offers: the settings of its name server, and how one is built."""

    name: str

    def settings(self) -> Sequence[Setting]:
        """Every setting that it has.

        The commands set, and so it has to have: ``bindAddress`` and ``listenPort``; ``kvConfigPath`` and
        ``configStorePath``, the files for the key-value configuration and for settings that are changed while it runs;
        and those of `gantrymq.remoting.admission.ADMISSION_SETTINGS` (TLS, proxies), which ``gantrymq start`` gives to
        both servers.
        """

    def build(self, world: World, settings: Settings, *, beside_broker: bool) -> NameServer:
        """A name server that listens nowhere yet.

        Args:
            settings: with the schema of `settings`.
            beside_broker: a broker in this process wants most of its descriptors.

        Raises:
            ConfigError: the settings name files that cannot be used.
        """
