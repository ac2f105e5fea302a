"""Write docs/start/compatibility.md from the report of an interop run.

    python -m pytest -m interop tests/interop --junit-xml=report.xml
    python tests/interop/compatibility.py report.xml

A section is a test file, a row a test, a column a client or server. Sections whose file is not in the report stay
unchanged, so a new file needs no full run.
"""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parent))

import deviations
from not_built import TABLE

HERE = Path(__file__).resolve().parent
NOT_BUILT = "test_not_built.py"  # has its own table at the end of the page
LEFT_OUT = (NOT_BUILT, "test_control_java_to_java.py")  # the second tries our drivers, without GantryMQ
PAGE = HERE.parents[1] / "docs/start/compatibility.md"
WORST_FIRST = ("fails", "skipped", "refused", "differs", "works")  # refused and differs are followed by a reason
VERSION = re.compile(r"(^|-)\d+\.\d+\.\d+(?=-|$)")
HEADING = re.compile(r"^## `(test_\w+\.py)`$")
SECTION = re.compile(r"(?m)^(?=## )")

INTRO = """# Compatibility

Which official clients, tools and servers were seen working with GantryMQ, and at what. The page is written by
`tests/interop/compatibility.py` from the report of a run of `pytest -m interop tests/interop`, in which each of them is
a process of its own; a test compares its rows with the tests that exist. `works` means that the test passed, `differs`
that what comes out is not what a Java broker gives, apart from times, ids and addresses, and the test holds it to the
difference named; `refused` that ours does not do it and says so. An empty cell: it has nothing to do with that peer.
Where a test takes several versions, each has its column.
"""


class Tried(NamedTuple):
    """One test of the report."""

    file: str
    title: str
    peers: tuple[str, ...]
    result: str


def title_of(name: str) -> str:
    """Convert ``test_a_thing_works[5.3.3-sync]`` to "a thing works (sync)"; versions become columns."""
    function, _, rest = name.partition("[")
    words = function.removeprefix("test_").replace("_", " ")
    others = VERSION.sub("", rest.removesuffix("]")).strip("-")
    return f"{words} ({others})" if others else words


def read_report(path: Path) -> list[Tried]:
    """The interop tests of a report of pytest's."""
    found = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        words = (case.get("classname") or "").split(".")
        if words[:2] != ["tests", "interop"] or f"{words[2]}.py" in LEFT_OUT:
            continue
        bad = case.find("failure") is not None or case.find("error") is not None
        properties = [(each.get("name"), each.get("value") or "") for each in case.iter("property")]
        passed = dict(properties).get("result", "works")
        result = "fails" if bad else "skipped" if case.find("skipped") is not None else passed
        peers = tuple(value for name, value in properties if name == "peer")
        found.append(Tried(f"{words[2]}.py", title_of(case.get("name") or ""), peers or ("GantryMQ alone",), result))
    return found


def rows_of(page: str) -> dict[tuple[str, str], set[str]]:
    """File and title of every row of the page's sections, and the results in it."""
    found = {}
    for section in SECTION.split(page):
        heading = HEADING.match(section.partition("\n")[0])
        if heading is not None:
            lines = [line for line in section.splitlines() if line.startswith("| ")]
            for title, *results in (line.strip("|").split("|") for line in lines[1:]):
                found[heading[1], title.strip()] = {each.strip() for each in results} - {""}
    return found


def _rank(result: str) -> int:
    return WORST_FIRST.index(result.partition(":")[0])


def render(tried: list[Tried], old: str) -> str:
    """Render the page; sections of *old* stay if their file exists and was not run."""
    sections = {}
    for section in SECTION.split(old):
        heading = HEADING.match(section.partition("\n")[0])
        if heading is not None and heading[1] not in LEFT_OUT and (HERE / heading[1]).exists():
            sections[heading[1]] = section.strip()
    for file in {each.file for each in tried}:
        sections[file] = _section(file, [each for each in tried if each.file == file])
    ordered = (sections[file] for file in sorted(sections))
    return "\n\n".join([INTRO.strip(), *ordered, _deviations(), _not_built()]) + "\n"


def _section(file: str, tried: list[Tried]) -> str:
    columns = sorted({peer for each in tried for peer in each.peers}, key=str.lower)
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    for each in tried:
        for peer in each.peers:
            known = cells[each.title].get(peer, each.result)
            cells[each.title][peer] = min(known, each.result, key=_rank)
    lines = [f"## `{file}`", "", _purpose(file), "", f"| what was tried | {' | '.join(columns)} |"]
    lines.append("|---" * (1 + len(columns)) + "|")
    lines += [f"| {title} | {' | '.join(row.get(c, '') for c in columns)} |" for title, row in cells.items()]
    return "\n".join(lines)


def _purpose(file: str) -> str:
    """The first paragraph of the file's docstring."""
    text = ast.get_docstring(ast.parse((HERE / file).read_text())) or ""
    return text.partition("\n\n")[0]


def _deviations() -> str:
    lines = [
        "## Different on purpose",
        "",
        "Where GantryMQ does not do what RocketMQ 5.3.3 does, and the test that holds it to that.",
        "",
        "| what | RocketMQ | GantryMQ | test |",
        "|---|---|---|---|",
    ]
    lines += [f"| {row.what} | {row.rocketmq} | {row.gantrymq} | `{row.test}` |" for row in deviations.TABLE]
    return "\n".join(lines)


def _not_built() -> str:
    lines = [
        "## Not built in this version",
        "",
        f"What clients may ask for and GantryMQ refuses, as `{NOT_BUILT}` sees it. Code 3 says that a request is not",
        "supported.",
        "",
        "| what | request | answered with |",
        "|---|---|---|",
    ]
    lines += [f"| {row.what} | {row.request} | code {row.code}: {row.says} |" for row in TABLE]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    tried = [each for report in sys.argv[1:] for each in read_report(Path(report))]
    if not tried:
        sys.exit(f"usage: {sys.argv[0]} REPORT.xml..., with interop tests in the reports")
    PAGE.write_text(render(tried, PAGE.read_text() if PAGE.exists() else ""))


if __name__ == "__main__":
    main()
