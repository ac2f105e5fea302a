"""The body of a record for people and scripts: decompressed, or as stored with the reason."""

from __future__ import annotations

from typing import Any

from gantrymq.plugin.commands import body_members, body_text
from gantrymq.plugin.formats import RecordView, decompress_or_raw
from gantrymq_store_tools.extract import describe_record


def text_of(record: RecordView) -> str:
    """Return the body as text for people."""
    return body_text(*decompress_or_raw(record.body, record.sys_flag))


def with_body(record: RecordView) -> dict[str, Any]:
    """Return all fields of the record with its body, for scripts."""
    return {**describe_record(record), **body_members(*decompress_or_raw(record.body, record.sys_flag))}
