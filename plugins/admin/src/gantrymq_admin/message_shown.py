"""Output of messages for ``gantrymq message`` and ``gantrymq group dlq``."""

from __future__ import annotations

from typing import Any

import click

from gantrymq.client import ReceivedMessage
from gantrymq.plugin.commands import body_members, body_text, local_time, print_json


def show(found: ReceivedMessage, output: str) -> None:
    """Print one message on a line, or with *output* "json" as JSON."""
    if output == "json":
        print_json(as_json(found))
        return
    stored = local_time(found.store_timestamp)
    marks = "".join(f" {name}={value}" for name, value in (("tags", found.tags), ("keys", found.keys)) if value)
    where = f"{found.broker_name}:{found.queue_id} @{found.queue_offset}"
    click.echo(f"{where} {stored}{marks} {body_text(found.body, found.body_problem)}")


def as_json(found: ReceivedMessage) -> dict[str, Any]:
    """Return one message as JSON members."""
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
