"""Records of the commit log, tags and delay levels, compression of bodies, folders of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.formats.batch_body import decode_batch as decode_batch
    from gantrymq.formats.compression import MAX_BODY_BYTES as MAX_BODY_BYTES
    from gantrymq.formats.compression import decompress as decompress
    from gantrymq.formats.compression import decompress_or_raw as decompress_or_raw
    from gantrymq.formats.compression import decompressed_parts as decompressed_parts
    from gantrymq.formats.dispatch_entry import MIN_UNIT_BYTES as MIN_UNIT_BYTES
    from gantrymq.formats.dispatch_entry import DispatchEntry as DispatchEntry
    from gantrymq.formats.dispatch_entry import ExtUnit as ExtUnit
    from gantrymq.formats.record import HEAD_FIELDS as HEAD_FIELDS
    from gantrymq.formats.record import HEAD_V4 as HEAD_V4
    from gantrymq.formats.record import HEADS as HEADS
    from gantrymq.formats.record import MAGIC_V1 as MAGIC_V1
    from gantrymq.formats.record import MAGIC_V2 as MAGIC_V2
    from gantrymq.formats.record import MAX_PROPERTIES_BYTES as MAX_PROPERTIES_BYTES
    from gantrymq.formats.record import MIN_RECORD_BYTES as MIN_RECORD_BYTES
    from gantrymq.formats.record import PROPERTIES_LENGTH as PROPERTIES_LENGTH
    from gantrymq.formats.record import RecordView as RecordView
    from gantrymq.formats.record import body_crc as body_crc
    from gantrymq.formats.record import encode_record as encode_record
    from gantrymq.formats.record import host_bits as host_bits
    from gantrymq.formats.record import iter_records as iter_records
    from gantrymq.formats.record import read_record as read_record
    from gantrymq.formats.record import topic_part as topic_part
    from gantrymq.formats.store_folders import BATCH_QUEUES as BATCH_QUEUES
    from gantrymq.formats.store_folders import COMMIT_LOG as COMMIT_LOG
    from gantrymq.formats.store_folders import EXT_QUEUES as EXT_QUEUES
    from gantrymq.formats.store_folders import INDEX as INDEX
    from gantrymq.formats.store_folders import QUEUES as QUEUES
    from gantrymq.formats.store_folders import can_be_folder as can_be_folder
    from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS as DEFAULT_DELAY_LEVELS
    from gantrymq.formats.tags_code import delay_levels_of as delay_levels_of
    from gantrymq.formats.tags_code import parse_delay_levels as parse_delay_levels
    from gantrymq.formats.tags_code import tags_code as tags_code
    from gantrymq.formats.tags_code import tags_code_of as tags_code_of
else:
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gantrymq.formats.batch_body": "decode_batch",
            "gantrymq.formats.compression": "MAX_BODY_BYTES decompress decompress_or_raw decompressed_parts",
            "gantrymq.formats.dispatch_entry": "DispatchEntry ExtUnit MIN_UNIT_BYTES",
            "gantrymq.formats.record": (
                "HEADS HEAD_FIELDS HEAD_V4 MAGIC_V1 MAGIC_V2 MAX_PROPERTIES_BYTES MIN_RECORD_BYTES "
                "PROPERTIES_LENGTH RecordView body_crc encode_record host_bits iter_records read_record "
                "topic_part"
            ),
            "gantrymq.formats.store_folders": "BATCH_QUEUES COMMIT_LOG EXT_QUEUES INDEX QUEUES can_be_folder",
            "gantrymq.formats.tags_code": (
                "DEFAULT_DELAY_LEVELS delay_levels_of parse_delay_levels tags_code tags_code_of"
            ),
        },
    )
