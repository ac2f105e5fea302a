"""Write java_decisions.jsonl: 2,000 random requests, and what RocketMQ 5.3.3 and 5.5.0 decide about them.

    PYTHONPATH=tests/support python tests/access/freeze_java_decisions.py 5.3.3=FOLDER 5.5.0=FOLDER

FOLDER has the jars of `org.apache.rocketmq:rocketmq-broker` of that version with what it depends on, as the interop
tests download them. Needs Java 17.
"""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from random_policies import random_policies, random_request

HERE = Path(__file__).parent
CASES, REQUESTS = 200, 10


def decisions(jars: str, cases: list[str]) -> list[str]:
    """Return a text for each case, with one letter for each request."""
    with TemporaryDirectory() as classes:
        compiler = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", classes, str(HERE / "java" / "Decide.java")]
        subprocess.run(compiler, check=True)
        command = ["java", "-cp", f"{classes}:{jars}/*", "Decide"]
        done = subprocess.run(command, input="\n".join(cases), stdout=subprocess.PIPE, text=True, check=True)
    return [each for each in done.stdout.splitlines() if set(each) <= set("and")]


def main() -> None:
    random = Random(533)
    cases = []
    for _ in range(CASES):
        versions = random.choice(((4,), (6,), (4, 6)))
        policies = random_policies(random, versions)
        cases.append({"policies": policies, "requests": [random_request(random, versions) for _ in range(REQUESTS)]})
    lines = [json.dumps(each) for each in cases]
    for version, jars in (each.split("=", 1) for each in sys.argv[1:]):
        for case, letters in zip(cases, decisions(jars, lines), strict=True):
            case[version] = letters
    (HERE / "java_decisions.jsonl").write_text(
        "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in cases)
    )


if __name__ == "__main__":
    main()
