"""Pack the name server's frames of recorded RocketMQ runs into data/frames.jsonl.gz.

Usage: python pack_frames.py GOLDEN/frames

One line a frame, in time order: scenario, connection number, whether it is a response, and all bytes of the frame as
latin-1 text (base64 would not compress).
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from pathlib import Path

SCENARIOS = ("normal", "mqadmin", "v497", "v550", "binary", "ha", "ipv6", "pop", "clientops")


def main(source: Path, target: Path) -> None:
    lines = []
    for scenario in SCENARIOS:
        for text in (source / f"{scenario}.jsonl").read_text().splitlines():
            seen = json.loads(text)
            if "ns" in seen["dir"].split("->"):
                lines.append(
                    {
                        "scenario": scenario,
                        "connection": seen["conn"],
                        "response": bool(seen["flag"] & 1),
                        "frame": base64.b64decode(seen["frame"]).decode("latin-1"),
                    }
                )
    data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
    target.write_bytes(gzip.compress(data, 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent / "data" / "frames.jsonl.gz")
