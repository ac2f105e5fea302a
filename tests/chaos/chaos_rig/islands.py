"""A network namespace with one link to the others, which a test cuts: packets are lost silently, connections stay.

the machine's own namespace      10.213.N.1 -- veth --  10.213.N.2   the island
"""

from __future__ import annotations

import os
import subprocess
from types import TracebackType
from typing import Self

import pytest


class Island:
    """Exists while the context lasts; skips the test where namespaces cannot be made.

    Attributes:
        under: runs a command on the island.
        here, there: the addresses of both ends.
    """

    def __init__(self, number: int) -> None:
        """*number*: of the subnet, 0 to 255; a test run needs one of its own."""
        self._name = f"gmq{os.getpid()}n{number}"
        self.under = ("ip", "netns", "exec", self._name)
        self.here, self.there = f"10.213.{number}.1", f"10.213.{number}.2"
        self._near, self._far = f"gq{number}a{os.getpid() % 10_000}", f"gq{number}b{os.getpid() % 10_000}"

    def cut(self) -> None:
        """Take the link down."""
        _do(*self.under, "ip", "link", "set", self._far, "down")

    def join(self) -> None:
        """Bring the link up again."""
        _do(*self.under, "ip", "link", "set", self._far, "up")

    def __enter__(self) -> Self:
        try:
            _do("ip", "netns", "add", self._name)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces: {error}")
        try:
            _do("ip", "link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self._name)
            _do("ip", "addr", "add", f"{self.here}/24", "dev", self._near)
            _do("ip", "link", "set", self._near, "up")
            _do(*self.under, "ip", "addr", "add", f"{self.there}/24", "dev", self._far)
            _do(*self.under, "ip", "link", "set", "lo", "up")
            self.join()
        except (OSError, subprocess.CalledProcessError) as error:
            self._remove()
            pytest.skip(f"no links between network namespaces: {error}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        _do("ip", "netns", "del", self._name)  # its end of the link goes with it, and so does the other one


def _do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
