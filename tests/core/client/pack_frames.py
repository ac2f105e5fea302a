"""Pack a few frames of recorded RocketMQ runs into data/frames.json.

Usage: python pack_frames.py GOLDEN/frames

Frame name to base64 of all its bytes, length prefix included. The table below lists the frame and recording of each;
clients, broker and name server were Java's, 5.3.3 unless the recording is v497 (broker 4.9.7, client 4.9.8).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FRAMES = {  # name: (recording, line from 0)
    "route": ("mqadmin", 13),
    "route 4.9.7": ("v497", 3),
    "no route": ("mqadmin", 9),
    "clusters": ("mqadmin", 177),
    "topics": ("mqadmin", 197),
    "topic stats": ("mqadmin", 319),
    "topic config": ("mqadmin", 321),
    "runtime info": ("mqadmin", 751),
    "heartbeat": ("mqadmin", 16),
    "producer heartbeat": ("clientops", 9),
    "send": ("clientops", 8),
    "send reply": ("clientops", 13),
    "send reply 4.9.7": ("v497", 12),
    "batch": ("batch", 14),
    "batch reply": ("batch", 15),
    "compressed send": ("normal", 62),
    "pull": ("clientops", 140),
    "pull found": ("clientops", 144),
    "pull found compressed": ("normal", 666),
    "pull inner batch": ("innerbatch", 58),
    "pull no new": ("clientops", 150),
    "pull no match": ("clientops", 152),
    "pull moved": ("clientops", 148),
    "pull refused": ("v497", 532),
    "max offset": ("clientops", 35),
}


def main(source: Path, target: Path) -> None:
    packed = {}
    for name, (recording, line) in FRAMES.items():
        text = (source / f"{recording}.jsonl").read_text().splitlines()[line]
        packed[name] = json.loads(text)["frame"]
    target.write_text(json.dumps(packed, indent=0) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent / "data" / "frames.json")
