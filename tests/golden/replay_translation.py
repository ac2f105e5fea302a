"""Translation of a recorded request for our broker: places and times from Java's answers are replaced by ours.

| Received from the broker | Sent back by the client |
|---|---|
| place of a half message: answer to its send, check (39) | END_TRANSACTION: commitLogOffset, tranStateTableOffset |
| pop time, revive queue: answer to POP, CHANGE_MESSAGE_INVISIBLETIME | their extraInfo, and of ACK |
"""

from __future__ import annotations

from collections import defaultdict

from gantrymq.model.ids import parse_offset_id
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

Place = tuple[str, str]  # log offset, queue offset

POPPED = (RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
POP_TIME, REVIVE_QUEUE = 1, 3  # words of extraInfo


class Translation:
    """Learns from pairs of answers and of checks, Java's and ours."""

    def __init__(self) -> None:
        self._halves: dict[Place, Place] = {}
        self._checks: dict[str, list[Place]] = defaultdict(
            list
        )  # transaction id to our check, for which Java's has not been seen yet
        self._pops: dict[str, tuple[str, str]] = {}  # Java's pop time to our pop time and revive queue id

    def answered(self, java: Command, ours: Command) -> None:
        """Hear both answers to a request."""
        told, own = java.ext or {}, ours.ext or {}
        if {"msgId", "queueOffset"} <= told.keys() & own.keys() and "," not in told["msgId"]:
            self._halves[_sent_to(told)] = _sent_to(own)
        if "popTime" in told and "popTime" in own:
            self._pops[told["popTime"]] = own["popTime"], own["reviveQid"]

    def checked_by_ours(self, check: Command) -> None:
        """Handle a transaction check sent by our broker."""
        if check.code == RequestCode.CHECK_TRANSACTION_STATE:
            assert check.ext
            self._checks[check.ext["transactionId"]].append(_place(check.ext))

    def checked_by_java(self, check: Command) -> None:
        """Hear that Java's does; ours did before."""
        if check.code == RequestCode.CHECK_TRANSACTION_STATE:
            assert check.ext
            if own := self._checks[check.ext["transactionId"]]:
                self._halves[_place(check.ext)] = own.pop(0)

    def fields_of(self, request: Command) -> dict[str, str] | None:
        """The header fields for our broker; None if they are unchanged."""
        ext = request.ext or {}
        if request.code == RequestCode.END_TRANSACTION:
            place = self._halves.get(_place(ext), _place(ext))
            return {**ext, "commitLogOffset": place[0], "tranStateTableOffset": place[1]}
        if request.code in POPPED:
            words = ext["extraInfo"].split(" ")
            if (own := self._pops.get(words[POP_TIME])) is not None:
                words[POP_TIME], words[REVIVE_QUEUE] = own
                return {**ext, "extraInfo": " ".join(words)}
        return None


def _place(ext: dict[str, str]) -> Place:
    return ext["commitLogOffset"], ext["tranStateTableOffset"]


def _sent_to(ext: dict[str, str]) -> Place:
    return str(parse_offset_id(ext["msgId"])[2]), ext["queueOffset"]
