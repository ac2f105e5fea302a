"""The fixture ``faulty_files``; pytest finds this module through the entry point group ``pytest11``.

    def test_my_store_survives(faulty_files):
        files = faulty_files(SimulatedFiles(lambda: 0), FaultPlan(seed=7, crash_at=120))

When a test fails, the report contains the seed and the newest calls of every such object. GantryMQ is imported only
when the fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gantrymq.plugin.world import Files
    from gantrymq_storage_faults.files import FaultyFiles
    from gantrymq_storage_faults.machine import Machine
    from gantrymq_storage_faults.plan import FaultPlan

MADE: pytest.StashKey[list[FaultyFiles]] = pytest.StashKey()


@pytest.fixture
def faulty_files(request: pytest.FixtureRequest) -> Iterator[Callable[..., FaultyFiles]]:
    """Create `FaultyFiles`; those still running at the end are crashed, so that nothing stays open or locked."""
    from gantrymq_storage_faults.files import FaultyFiles

    made: list[FaultyFiles] = []
    request.node.stash[MADE] = made

    def make(disk: Files | Machine, plan: FaultPlan | None = None, **more: Any) -> FaultyFiles:
        made.append(FaultyFiles(disk, plan, **more))
        return made[-1]

    yield make
    for files in made:
        files.crash()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add the traces to the report of a failed test."""
    report = yield
    if report.when == "call" and report.failed:
        made = item.stash.get(MADE, [])
        for number, files in enumerate(made, 1):
            report.sections.append((f"faulty_files {number}", files.trace()))
    return report
