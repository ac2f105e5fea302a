"""Where GantryMQ finds this plugin. It has no hooks: a broker in service has no use for faults.

What it offers is for tests: `gantrymq_storage_faults.FaultyFiles`, and the pytest fixture ``faulty_files``.
"""
