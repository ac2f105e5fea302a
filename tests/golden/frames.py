"""Every frame of the recordings, packed: `pack` writes frames.bin.xz, `load` reads it. See FRAMES.md.

    python tests/golden/frames.py FOLDER [ARCHIVE]

The archive is one xz stream of entries: | size of the note u32 | note, JSON | the frame, with its own length prefix |
"""

from __future__ import annotations

import base64
import json
import lzma
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).resolve().with_name("frames.bin.xz")
SIZE = struct.Struct(">I")


def pack(folder: Path, archive: Path = ARCHIVE) -> None:
    """Write the frames of every recording in *folder*, in order of file name and time."""
    out = bytearray()
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            note = json.loads(line)
            if "frame" not in note:
                continue  # the replication stream has no frames
            frame = base64.b64decode(note.pop("frame"))
            text = json.dumps({"scenario": path.stem, **note}, ensure_ascii=False, separators=(",", ":")).encode()
            out += SIZE.pack(len(text)) + text + frame
    archive.write_bytes(lzma.compress(bytes(out), preset=9 | lzma.PRESET_EXTREME))


def load(archive: Path = ARCHIVE) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield (the recorder's note, the frame's bytes, length prefix included), in the order recorded."""
    data = lzma.decompress(archive.read_bytes())
    at = 0
    while at < len(data):
        end = at + 4 + SIZE.unpack_from(data, at)[0]
        note = json.loads(data[at + 4 : end])
        at = end + 4 + SIZE.unpack_from(data, end)[0]
        yield note, data[end:at]


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else ARCHIVE)
