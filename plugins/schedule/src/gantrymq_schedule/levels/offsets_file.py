"""delayOffset.json: ``offsetTable`` {level -> queue offset of the next message to deliver}.

    4.9.7   offsetTable alone
    5.3.3   + dataVersion

Source: apache/rocketmq remoting/.../protocol/DelayOffsetSerializeWrapper.java, broker/.../schedule/
ScheduleMessageService.java (encode, decode).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gantrymq.plugin.config_files import as_number, data_version, in_order, pretty, table, unknown
from gantrymq.plugin.model import DataVersion

DELAY_OFFSETS = "delayOffset.json"
_MEMBERS = frozenset(("dataVersion", "offsetTable"))


@attrs.define
class DelayOffsetsFile:
    """Contents of the file."""

    offsets: dict[int, int] = attrs.field(factory=dict)  # by level
    version: DataVersion = attrs.field(factory=DataVersion)
    kept: dict[str, Any] = attrs.field(factory=dict)  # unknown members, written back unchanged

    @classmethod
    def from_json(cls, members: Mapping[Any, Any]) -> DelayOffsetsFile:
        """Parse the result of `manager_file.load`.

        Raises:
            FormatError: a member has the wrong type; the message names it.
        """
        where = f"{DELAY_OFFSETS}: offsetTable"
        offsets = {
            as_number(level, where): as_number(offset, f"{where}, level {level}")
            for level, offset in table(members, "offsetTable", DELAY_OFFSETS).items()
        }
        return cls(offsets, data_version(members, DELAY_OFFSETS), unknown(members, _MEMBERS))

    def to_text(self) -> str:
        """Return the text of the file in the layout of 5.3.3."""
        offsets = {level: self.offsets[level] for level in sorted(self.offsets)}
        return pretty(in_order({"dataVersion": self.version.to_json(), "offsetTable": offsets}, self.kept))
