"""How the commands of ``gantrymq message`` print messages and read times."""

from __future__ import annotations

import base64
import time
from typing import Any

import click

from gantrymq.commands.output import print_json
from gantrymq.model.message import ReceivedMessage

__all__ = ["as_json", "body_members", "body_text", "show"]


def show(found: ReceivedMessage, output: str) -> None:
    """Print one message on a line: for people, or with *output* "json" for scripts."""
    if output == "json":
        print_json(as_json(found))
        return
    stored = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.store_timestamp / 1000))
    marks = "".join(f" {name}={value}" for name, value in (("tags", found.tags), ("keys", found.keys)) if value)
    where = f"{found.broker_name}:{found.queue_id} @{found.queue_offset}"
    click.echo(f"{where} {stored}{marks} {body_text(found.body, found.body_problem)}")


def body_text(body: bytes, problem: str) -> str:
    """A body for people; where there is a *problem* with it, that."""
    return f"(no body can be shown: {problem})" if problem else body.decode("utf-8", "backslashreplace")


def body_members(body: bytes, problem: str) -> dict[str, str]:
    """A body for scripts: ``body`` as text, or ``body_base64`` where it is not UTF-8.

    One with a *problem* is given as it is stored, as ``body_base64``, beside ``body_problem``.
    """
    if problem:
        return {"body_problem": problem, "body_base64": base64.b64encode(body).decode()}
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def as_json(found: ReceivedMessage) -> dict[str, Any]:
    """One message for scripts."""
    return {
        "topic": found.topic,
        "broker": found.broker_name,
        "queue": found.queue_id,
        "queue_offset": found.queue_offset,
        "message_id": found.message_id,
        "offset_id": found.offset_id,
        "tags": found.tags,
        "keys": found.keys,
        "properties": found.properties,
        "flag": found.flag,
        "sys_flag": found.sys_flag,
        "born_ms": found.born_timestamp,
        "born_host": found.born_host,
        "stored_ms": found.store_timestamp,
        "store_host": found.store_host,
        "reconsume_times": found.reconsume_times,
        **body_members(found.body, found.body_problem),
    }
