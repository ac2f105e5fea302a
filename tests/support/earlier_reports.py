"""Which test files ran whole with core alone or a plugin alone, according to pytest's reports of tox's environments."""

from functools import cache
from pathlib import Path
from xml.etree import ElementTree

TOGETHER = ("-all", "-rest")  # environments with every plugin


@cache
def ran_whole(folder):
    """Return the modules, such as ``tests.pop.test_queues``, of which every test passed in one environment.

    Its Python may be another. Environments with every plugin do not count. A test that was skipped, such as one that
    needs another plugin, did not run.
    """
    reports = [path for path in Path(folder).glob("py*-*.xml") if not path.stem.endswith(TOGETHER)]
    return frozenset().union(*map(_passed_modules, reports))


def _passed_modules(report):
    passed, others = set(), set()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        words = (case.get("classname") or case.get("name", "")).split(".")
        length = next((at for at, word in enumerate(words, 1) if word.startswith("test_")), len(words))
        ran = all(case.find(outcome) is None for outcome in ("skipped", "failure", "error"))
        (passed if ran else others).add(".".join(words[:length]))
    return passed - others
