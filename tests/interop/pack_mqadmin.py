"""Make data/mqadmin.json.xz from a golden folder: `python pack_mqadmin.py GOLDEN`.

    {"commands": [{"name": "00-updateTopic", "command": ["updateTopic", ...], "output": "..."}, ...],
     "messages": [{"queue": 0, "tag": "TagA", "key": "live0", "body": base64}, ...]}

Commands for the controller (62) and access control (68, 69) are left out. The golden run was one process, in which the
tool adds its list of commands to itself with every command; of the output without arguments (72) each line is kept
once.
"""

import json
import lzma
import sys
from pathlib import Path

LEFT_OUT = {"62", "68", "69"}
TARGET = Path(__file__).parent / "data" / "mqadmin.json.xz"


def command_line(text: str) -> list[str]:
    """Return the words of ``$ mqadmin ...``; a topic name with a blank in it is one word."""
    return (
        text.removeprefix("$ mqadmin ")
        .replace("bad topic", "bad\0topic")
        .replace(" mqadmin -k", "\0mqadmin -k")
        .replace("sent by", "sent\0by")
        .split()
    )


def pack(golden: Path) -> None:
    commands = []
    for file in sorted((golden / "mqadmin").glob("*.txt")):
        if file.name[:2] not in LEFT_OUT:
            first, _, output = file.read_text().partition("\n")
            words = [word.replace("\0", " ") for word in command_line(first)]
            if file.name.startswith("72"):
                output = "\n".join(dict.fromkeys(output.splitlines()))
            commands.append({"name": file.stem, "command": words, "output": output})
    lines = (golden / "stores" / "mqadmin" / "messages.jsonl").read_text().splitlines()
    sent = [each for each in map(json.loads, lines) if each["kind"] == "sent"]
    messages = [
        {"queue": m["queueId"], "tag": m["properties"]["TAGS"], "key": m["properties"]["KEYS"], "body": m["body"]}
        for m in sent
    ]
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(lzma.compress(json.dumps({"commands": commands, "messages": messages}).encode()))


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
