"""Checking a store while a broker has it open: what its checkpoint vouches for, nothing else.

Files come and go meanwhile, and what is read may be half written. What is really damaged stays damaged: a finding
counts that two looks have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gantrymq.errors import StoreError
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS
from gantrymq.world.files import Files
from gantrymq_store_tools.check import CheckReport, check_store
from gantrymq_store_tools.findings import Finding, ProgressListener, no_progress

__all__ = ["check_open_store"]

MAX_ATTEMPTS = 3  # at most, where files that were to be read are gone


def check_open_store(
    files: Files,
    root: Path,
    *,
    log_folders: Sequence[Path] = (),
    delay_levels: str = DEFAULT_DELAY_LEVELS,
    check_crc: bool = True,
    progress: ProgressListener = no_progress,
) -> CheckReport:
    """As `check_store`, up to `CheckReport.vouched_to`; a second look follows where the first finds damage.

    Raises:
        StoreError: again and again files were gone before they were read.
        as `check_store`: otherwise.
    """

    def look() -> CheckReport:
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
            f"{gone} was deleted while {root} was read; a broker has it open, so try again, or stop it first"
        )

    report = look()
    if report.damaged:
        before = {_what(finding) for finding in report.findings}
        report = look()
        report.findings = [each for each in report.findings if not each.damage or _what(each) in before]
    return report


def _what(finding: Finding) -> tuple[str, str, int | None]:
    return finding.kind, finding.path, finding.place
