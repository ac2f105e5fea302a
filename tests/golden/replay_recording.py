"""The recorded conversations of clients and a Java broker, scenario by scenario, in the recorder's order."""

from __future__ import annotations

import runpy
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from one_frame import split_frame

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, decode

Key = tuple[int, int]  # connection, opaque

SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


class Heard(NamedTuple):
    """One frame between a client and the broker."""

    time_ms: int  # since the recorder started
    connection: int
    from_client: bool
    command: Command
    data: bytes  # the frame's bytes

    @property
    def key(self) -> Key:
        """The key that pairs a request with its answer."""
        return self.connection, self.command.opaque


class Recording(NamedTuple):
    """One scenario."""

    name: str
    frames: list[Heard]
    started_ms: int  # after that: when the broker first registered with its name server
    began_ms: int  # wall time at which the recorder started, by the clients' own clocks


def recordings() -> dict[str, Recording]:
    """Every scenario in which a client spoke to a broker."""
    load = runpy.run_path(str(Path(__file__).with_name("frames.py")))["load"]
    found: dict[str, list[Heard]] = defaultdict(list)
    started: dict[str, int] = {}
    for note, data in load():
        if note["dir"] in ("client->broker", "broker->client"):
            from_client = note["dir"] == "client->broker"
            heard = Heard(note["t_ms"], note["conn"], from_client, decode(split_frame(data)), data)
            found[note["scenario"]].append(heard)
        elif note["dir"] == "broker->ns" and note["code"] == RequestCode.REGISTER_BROKER:
            started.setdefault(note["scenario"], note["t_ms"])
    return {name: Recording(name, frames, started[name], began_ms(frames)) for name, frames in found.items()}


def began_ms(frames: list[Heard]) -> int:
    """A message is born shortly before its frame passes: the smallest gap sets the recorder's clock."""
    return max(
        int(frame.command.ext["g"]) - frame.time_ms
        for frame in frames
        if frame.from_client and frame.command.code in SENDS and frame.command.ext
    )
