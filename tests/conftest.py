"""Says which of the twins the run is about."""

from gantrymq import speedups


def pytest_report_header():
    return f"gantrymq: {speedups.said}"
