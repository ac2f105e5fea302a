"""Pack the stores written by real RocketMQ brokers into stores.tar.xz.

    python tests/golden/pack.py FOLDER [ARCHIVE]

FOLDER holds one folder per scenario (see README.md). The same input gives the same bytes: names are sorted, owners,
modes and times are fixed. File times are therefore not those of the machine that made the stores.
"""

from __future__ import annotations

import io
import lzma
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ARCHIVE = HERE / "stores.tar.xz"
MODIFIED_S = 1795219200  # 2026-11-21 00:00 UTC, the day they were made


def pack(folder: Path, archive: Path) -> None:
    """Write every file below *folder* to *archive*."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            member.size = path.stat().st_size
            member.mtime = MODIFIED_S
            member.mode = 0o644
            with path.open("rb") as content:
                tar.addfile(member, content)
    archive.write_bytes(lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else ARCHIVE)
