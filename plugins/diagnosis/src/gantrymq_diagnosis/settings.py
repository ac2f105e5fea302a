"""The setting for conflicts between members of a group."""

from __future__ import annotations

from gantrymq.plugin.settings import Setting

__all__ = ["POLICY", "REFUSE", "SCHEMA", "WARN"]

POLICY = "consumerConflictPolicy"
WARN, REFUSE = "warn", "refuse"

SCHEMA: tuple[Setting, ...] = (
    Setting.text(
        POLICY,
        WARN,
        "What happens to a consumer that disagrees with its group: warn logs it once, refuse does not let it join.",
        choices=(WARN, REFUSE),
        runtime=True,
    ),
)
