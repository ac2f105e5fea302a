"""Entry point of the plugin. It has no hooks, because a running broker does not use faults.

It provides tools for tests: `gantrymq_storage_faults.FaultyFiles`, and the pytest fixture ``faulty_files``.
"""
