"""The compiled module; where it cannot be built the package is installed without it, and GantryMQ runs in Python."""

from setuptools import Extension, setup

SOURCES = (
    *("module", "frames", "header", "sends", "messages", "records"),
    *("index", "answers", "entries", "crc"),
)

setup(
    ext_modules=[
        Extension(
            "gantrymq_speedups._compiled",
            sources=[f"c/{name}.c" for name in SOURCES],
            depends=["c/common.h", "c/header.h", "c/json.h", "c/record.h"],
            include_dirs=["c"],
            optional=True,
        )
    ]
)
