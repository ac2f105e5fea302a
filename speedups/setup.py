"""The compiled module; where it cannot be built the package is installed without it, and GantryMQ runs in Python."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "gantrymq_speedups._compiled",
            sources=[
                f"c/{name}.c"
                for name in (
                    "module",
                    "frames",
                    "header",
                    "sends",
                    "messages",
                    "records",
                    "index",
                    "answers",
                    "entries",
                    "crc",
                )
            ],
            depends=["c/common.h", "c/header.h", "c/json.h"],
            include_dirs=["c"],
            optional=True,
        )
    ]
)
