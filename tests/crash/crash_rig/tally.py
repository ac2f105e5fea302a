"""Totals of many runs, and reports of failed ones."""

from __future__ import annotations

from collections import Counter

import attrs

from crash_rig.runs import Outcome


@attrs.define
class Tally:
    """Totals; `failed` has a text for each run with a problem."""

    runs: int = 0
    ended: int = 0  # number of runs in which the first process was ended early
    starts_ended: int = 0  # starts that were ended too
    sent: int = 0
    acknowledged: int = 0
    found: int = 0
    lost: int = 0
    expired: int = 0
    holes: int = 0
    lost_in_window: int = 0
    refused: int = 0
    starts_refused: int = 0
    failures: Counter[str] = attrs.field(factory=Counter)
    problems: Counter[str] = attrs.field(factory=Counter)
    starts: Counter[str] = attrs.field(factory=Counter)
    failed: list[str] = attrs.field(factory=list)

    def add(self, label: str, start: str, outcome: Outcome) -> None:
        """One run more; *label* says how to repeat it."""
        findings = outcome.findings
        self.runs += 1
        self.starts[start] += 1
        self.ended += outcome.ended
        self.starts_ended += outcome.starts_ended
        self.sent += findings.sent
        self.acknowledged += findings.acknowledged
        self.found += findings.found
        self.lost += findings.lost
        self.expired += findings.expired
        self.holes += findings.holes
        self.refused += findings.refused
        self.starts_refused += outcome.starts_refused
        self.failures += outcome.failed
        self.lost_in_window += findings.lost_in_window
        self.problems.update(problem.partition(":")[0] for problem in findings.problems)
        if findings.problems:
            self.failed.append(f"--- {label}\n{outcome.explain()}")

    def __str__(self) -> str:
        golden = self.runs - self.starts["new"]
        return (
            f"{self.runs} runs ({golden} from golden stores), {self.ended} ended on the way, and {self.starts_ended} "
            f"starts after them; {self.sent} sent, {self.acknowledged} acknowledged, {self.found} found, {self.lost} "
            f"lost, {self.problems['duplicated']} duplicated; {self.lost_in_window} lost in the window of asynchronous "
            f"flush, {self.holes} queue offsets given up, {self.expired} taken by retention; {self.refused} sends and "
            f"{self.starts_refused} starts refused, calls that failed {dict(self.failures)}; problems "
            f"{dict(self.problems)}"
        )
