"""JSON dialect of fastjson 1.2: tolerant reader and exact writer.

Supported differences from strict JSON:

    {0:"10.0.0.1:10911"}                                    integer keys without quotes    -> int keys
    {{"brokerName":"b","queueId":0,"topic":"T"}:20}         objects in key position        -> `ObjectKey` keys
    {'a':1}  {code:3}  [1,,2]  12L                          single quotes, bare names, extra commas (read only)
    {"$ref":"$.path[0]"}                                    repeated Java object           -> a copy of its target

A quoted key stays a string, even if it contains a number or the text of an object; `int_keys` and `object_key` convert
it. `loads` tries strict JSON first, so strict text is parsed at the speed of orjson.

Sources: com.alibaba:fastjson 1.2.83 JSONLexerBase.java, SerializeWriter.java, IOUtils.java; RocketMQ's use of it in
remoting/.../protocol/RemotingSerializable.java.
"""

from gantrymq.loose_json.keys import MAX_DEPTH, MAX_LOOSE_VALUES, ObjectKey, int_keys
from gantrymq.loose_json.reader import ReadBudget, loads, loads_strict, object_key
from gantrymq.loose_json.writer import (
    Entries,
    Items,
    RawJson,
    dumps,
    dumps_ascii,
    dumps_in_slices,
    dumps_plain,
    dumps_standard,
)

__all__ = [
    "MAX_DEPTH",
    "MAX_LOOSE_VALUES",
    "Entries",
    "Items",
    "ObjectKey",
    "RawJson",
    "ReadBudget",
    "dumps",
    "dumps_ascii",
    "dumps_in_slices",
    "dumps_plain",
    "dumps_standard",
    "int_keys",
    "loads",
    "loads_strict",
    "object_key",
]
