"""Packs what Java brokers and controllers 5.3.3 sent and wrote: `python pack_golden.py GOLDEN` writes golden.json.xz.

*GOLDEN* is the folder with the recordings `frames/ha-*.jsonl` and the stores `stores/ha`.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).resolve().with_name("golden.json.xz")
SCENARIOS = ("autoswitch", "controllers3", "jraft3", "partition")
CODES = {904, 1001, 1002, 1003, 1004, 1005, 1008, 1012, 1013}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def pack(golden: Path) -> dict[str, Any]:
    """Return streams and frames by scenario, and the small files of the stores."""
    frames, streams = golden / "frames", {}
    requests = {}
    for name in SCENARIOS:
        streams[name] = rows(frames / f"ha-{name}-stream.jsonl")
        requests[name] = [
            {key: row.get(key) for key in ("t_ms", "conn", "dir", "code", "requestCode", "opaque", "frame")}
            for row in rows(frames / f"ha-{name}.jsonl")
            if (row.get("requestCode") or row["code"]) in CODES
        ]
    files = {
        f"{store.name}/{each.name}": each.read_text()
        for store in sorted((golden / "stores" / "ha").glob("autoswitch-*"))
        for each in sorted((store / "store").iterdir())
        if each.name.startswith(("epochFile", "brokerIdentity"))
    }
    return {"streams": streams, "requests": requests, "files": files}


def load() -> dict[str, Any]:
    return json.loads(lzma.decompress(ARCHIVE.read_bytes()))


if __name__ == "__main__":
    ARCHIVE.write_bytes(lzma.compress(json.dumps(pack(Path(sys.argv[1]))).encode(), preset=9))
