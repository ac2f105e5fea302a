"""Check of a store while a broker has it open, limited to data covered by its checkpoint.

Files appear and disappear meanwhile, and data may be half written when it is read. Real damage persists, so a finding
counts only if two checks agree on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gantrymq.errors import StoreError
from gantrymq.plugin.world import Files
from gantrymq_store_tools.check import CheckReport, check_store
from gantrymq_store_tools.findings import Finding, ProgressListener, no_progress

__all__ = ["check_open_store"]

MAX_ATTEMPTS = 3  # if files are deleted before they are read


def check_open_store(
    files: Files,
    root: Path,
    *,
    log_folders: Sequence[Path] = (),
    delay_levels: str | None = None,
    check_crc: bool = True,
    progress: ProgressListener = no_progress,
) -> CheckReport:
    """Like `check_store`, up to `CheckReport.vouched_to`; if damage is found, the store is checked a second time.

    Raises:
        StoreError: files were deleted before they were read, in every attempt.
        as `check_store`: otherwise.
    """

    def check() -> CheckReport:
        for _ in range(MAX_ATTEMPTS):
            try:
                return check_store(
                    files,
                    root,
                    log_folders=log_folders,
                    delay_levels=delay_levels,
                    check_crc=check_crc,
                    in_use=True,
                    progress=progress,
                )
            except FileNotFoundError as error:
                gone = error.filename
        raise StoreError(
            f"{gone} was deleted while {root} was read; a broker has it open, so try again, or stop the broker first"
        )

    report = check()
    if report.damaged:
        before = {_identity(finding) for finding in report.findings}
        report = check()
        report.findings = [each for each in report.findings if not each.damage or _identity(each) in before]
    return report


def _identity(finding: Finding) -> tuple[str, str, int | None]:
    return finding.kind, finding.path, finding.place
