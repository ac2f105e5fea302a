"""Hosts on one network, each a network namespace, between which a test loses packets silently, each way on its own.

the machine's own namespace     10.214.N.254, a bridge
each host                       10.214.N.1, .2, ... on the bridge

The receiver drops what comes from an address, by a rule that is looked at before the table of local addresses. The
machine's own namespace loses nothing: a test observes from there.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pytest

NEW_NETWORK = 0x40000000  # CLONE_NEWNET of linux/sched.h
LOST, LOCAL = "50", "100"  # preferences of rules; the usual one of local addresses is 0


class Host(NamedTuple):
    """One host; `under` runs a command there."""

    name: str
    address: str
    under: tuple[str, ...]

    def enter(self) -> None:
        """Let sockets that this thread makes from now on be this host's."""
        descriptor = os.open(Path("/run/netns", self.under[-1]), os.O_RDONLY)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(descriptor, NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(descriptor)


class Hosts:
    """Exist while the context lasts; skips the test where namespaces cannot be made."""

    def __init__(self, number: int) -> None:
        """*number*: of the subnet, 0 to 255; a test run needs one of its own."""
        self._number, self._own = number, f"{os.getpid() % 10_000}n{number}"
        self._bridge = f"gb{self._own}"
        self._hosts: list[Host] = []
        self._lost: set[tuple[Host, Host]] = set()

    def add(self, name: str) -> Host:
        """Return another host."""
        count = len(self._hosts) + 1
        space, near = f"gmq{self._own}h{count}", f"g{self._own}h{count}"
        host = Host(name, f"10.214.{self._number}.{count}", ("ip", "netns", "exec", space))
        _do("ip", "netns", "add", space)
        self._hosts.append(host)
        _do("ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", space)
        _do("ip", "link", "set", near, "master", self._bridge, "up")
        for words in (
            ("addr", "add", f"{host.address}/24", "dev", "eth0"),
            *(("link", "set", each, "up") for each in ("eth0", "lo")),
            ("rule", "add", "pref", LOCAL, "lookup", "local"),
            ("rule", "del", "pref", "0"),
        ):
            _do("ip", "-n", space, *words)
        return host

    def lose(self, senders: Iterable[Host], receivers: Iterable[Host]) -> None:
        """Lose from now on what *senders* send to *receivers*."""
        to = [*receivers]
        for sender in senders:
            for receiver in to:
                if sender != receiver and (sender, receiver) not in self._lost:
                    _do("ip", "-n", receiver.under[-1], *_rule("add", sender))
                    self._lost.add((sender, receiver))

    def cut(self, some: Iterable[Host], others: Iterable[Host]) -> None:
        """Lose from now on what *some* and *others* send to each other."""
        one, other = [*some], [*others]
        self.lose(one, other)
        self.lose(other, one)

    def join(self) -> None:
        """Lose nothing any more."""
        for sender, receiver in self._lost:
            _do("ip", "-n", receiver.under[-1], *_rule("del", sender))
        self._lost.clear()

    def others(self, *hosts: Host) -> list[Host]:
        """Return all but *hosts*."""
        return [each for each in self._hosts if each not in hosts]

    def __enter__(self) -> Self:
        try:
            _do("ip", "link", "add", self._bridge, "type", "bridge")
            _do("ip", "addr", "add", f"10.214.{self._number}.254/24", "dev", self._bridge)
            _do("ip", "link", "set", self._bridge, "up")
            self.add("probe")
        except (OSError, subprocess.CalledProcessError) as error:
            self._remove()
            pytest.skip(f"no network namespaces: {error}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for host in self._hosts:
            _do("ip", "netns", "del", host.under[-1])  # its end of the link goes with it, and so does the other one
        with suppress(OSError, subprocess.CalledProcessError):
            _do("ip", "link", "del", self._bridge)


def _rule(verb: str, sender: Host) -> tuple[str, ...]:
    return ("rule", verb, "pref", LOST, "from", sender.address, "blackhole")


def _do(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
