"""The tests of pairs need a store on disk."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("gantrymq_storage_mmap") else ["test_pairs.py", "test_faults.py"]
