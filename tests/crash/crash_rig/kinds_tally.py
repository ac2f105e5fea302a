"""Sums over many runs with every kind."""

from __future__ import annotations

from collections import Counter

import attrs

from crash_rig.kinds_runs import KindsOutcome


@attrs.define
class KindsTally:
    """Totals; `failed` has a text for each run with a problem."""

    runs: int = 0
    processes_ended: int = 0
    cuts: int = 0
    sent: int = 0
    acknowledged: int = 0
    lost_in_window: int = 0
    refused: int = 0
    starts_refused: int = 0
    ends: Counter[str] = attrs.field(factory=Counter)
    failures: Counter[str] = attrs.field(factory=Counter)
    problems: Counter[str] = attrs.field(factory=Counter)
    starts: Counter[str] = attrs.field(factory=Counter)
    failed: list[str] = attrs.field(factory=list)

    def add(self, label: str, start: str, outcome: KindsOutcome) -> None:
        """One run more; *label* says how to repeat it."""
        findings = outcome.findings
        self.runs += 1
        self.starts[start] += 1
        self.processes_ended += outcome.ended
        self.cuts += outcome.cuts
        self.sent += findings.sent
        self.acknowledged += findings.acknowledged
        self.lost_in_window += findings.lost_in_window
        self.refused += outcome.refused
        self.starts_refused += outcome.starts_refused
        self.ends += findings.ends
        self.failures += outcome.failed
        self.problems.update(problem.partition(":")[0] for problem in findings.problems)
        if findings.problems:
            self.failed.append(f"--- {label}\n{outcome.explain()}")

    def __str__(self) -> str:
        golden = self.runs - self.starts["new"]
        return (
            f"{self.runs} runs ({golden} from golden stores), {self.processes_ended} processes ended on the way, "
            f"{self.cuts} power cuts; {self.sent} sent, {self.acknowledged} acknowledged: {dict(self.ends)}; "
            f"{self.lost_in_window} lost in the window of asynchronous flush; {self.refused} requests and "
            f"{self.starts_refused} starts refused, calls that failed {dict(self.failures)}; problems "
            f"{dict(self.problems)}"
        )
