"""Hypothesis tries the same examples each time, however slow the machine is, and leaves no folder behind."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable", deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("repeatable")
