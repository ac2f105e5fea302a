"""Packs the requests to Java brokers with access control, with their answers: ``python pack_access.py FOLDER``.

*FOLDER* has ``<kind>-matrix.jsonl`` (every frame, in time order) and ``<kind>-answers.jsonl`` (what each request was,
and its answer) for the kinds acl49 (plain_acl.yml of 4.9.7) and acl2 (users of 5.3.3). Requests to the name server,
which checks nothing, are left out.
"""

import json
import lzma
import sys
from pathlib import Path

KINDS = ("acl49", "acl2")


def rows(folder: Path, kind: str) -> list[dict[str, object]]:
    """One row for each request: what it was, its connection, its frame, and the answer's code and remark."""
    frames = [json.loads(line) for line in (folder / f"{kind}-matrix.jsonl").read_text().splitlines()]
    asked = [frame for frame in frames if frame["dir"].startswith("client->")]
    answers = {(frame["conn"], frame["opaque"]): frame for frame in frames if frame["dir"].endswith("->client")}
    said = [json.loads(line) for line in (folder / f"{kind}-answers.jsonl").read_text().splitlines()]
    found = []
    for frame, words in zip(asked, said, strict=False):  # answers without a frame are at the end
        assert answers[frame["conn"], frame["opaque"]]["code"] == words["code"]
        if frame["dir"] == "client->broker":
            found.append({"conn": frame["conn"], "frame": frame["frame"], **words})
    return found


def main() -> None:
    """Write ``access_<kind>.jsonl.xz`` beside this script."""
    for kind in KINDS:
        lines = [json.dumps(row, sort_keys=True) for row in rows(Path(sys.argv[1]), kind)]
        packed = lzma.compress(("\n".join(lines) + "\n").encode(), preset=9 | lzma.PRESET_EXTREME)
        (Path(__file__).parent / f"access_{kind}.jsonl.xz").write_bytes(packed)


if __name__ == "__main__":
    main()
