"""Build of the compiled module. If the build fails, the package is installed without it and GantryMQ runs in Python.

The module uses Python's limited API, so one wheel works for all versions from 3.11 on. Free-threaded builds of Python
do not support that API and need a separate wheel.
"""

from sysconfig import get_config_var

from setuptools import Extension, setup

SOURCES = (
    *("module", "frames", "header", "sends", "commands", "fields", "messages", "records", "batches", "outgoing"),
    *("requests", "index", "answers", "entries", "received", "signatures", "columns", "crc"),
)
HEADERS = ("common", "batch_body", "header", "json", "properties", "record")
LIMITED = not get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[
        Extension(
            "gantrymq_speedups._compiled",
            sources=[f"c/{name}.c" for name in SOURCES],
            depends=[f"c/{name}.h" for name in HEADERS],
            include_dirs=["c"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],
            py_limited_api=LIMITED,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
