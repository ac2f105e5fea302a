"""Figures in the runtime info of a broker, of any version of RocketMQ; None: it does not report them."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["rate", "rates", "today", "whole"]


def rates(info: Mapping[str, str]) -> tuple[float | None, float | None]:
    """Return the messages in and out per second, over the last ten seconds."""
    return rate(info.get("putTps")), rate(info.get("getTransferredTps") or info.get("getTransferedTps"))  # 4.9


def today(info: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the messages in and out since midnight."""
    return _since_morning(info, "msgPutTotal"), _since_morning(info, "msgGetTotal")


def rate(text: str | None) -> float | None:
    """Return the first of several numbers: a rate over the last ten seconds, or a ratio."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


def whole(text: str | None) -> int | None:
    """Return a whole number, None for anything else."""
    try:
        return int(text or "")
    except ValueError:
        return None


def _since_morning(info: Mapping[str, str], name: str) -> int | None:
    now, morning = whole(info.get(f"{name}TodayNow")), whole(info.get(f"{name}TodayMorning"))
    return None if now is None or morning is None else now - morning
