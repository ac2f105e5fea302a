"""Says which of the twins the run is about."""

from importlib.util import find_spec


def pytest_report_header():
    if find_spec("gantrymq") is None:  # the plugin template's tests install it themselves
        return None
    from gantrymq import speedups

    return f"gantrymq: {speedups.said}"
