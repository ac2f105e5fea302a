"""`pip install gantrymq`, without any other distribution of ours, is a client that produces and consumes."""

import json
import sys

import pytest

pytestmark = [
    pytest.mark.kit,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]

INSTALLED = """
import json
from importlib.metadata import distributions
print(json.dumps([each.name for each in distributions()]))
"""
NOT_FOR_A_CLIENT = {"h11", "jinja2", "uvicorn", "starlette", "numpy"}


def test_it_brings_core_and_small_libraries_only(alone):
    names = set(json.loads(alone.run("python", "-c", INSTALLED)))
    assert {name for name in names if name.startswith("gantrymq")} == {"gantrymq"}
    assert not names & NOT_FOR_A_CLIENT


@pytest.mark.parametrize(
    ("expression", "bodies"), [("*", ["blue", "green", "red"]), ("red || green", ["green", "red"])]
)
def test_it_produces_and_consumes(alone, serve, expression, bodies):
    server = serve()
    assert alone.client(server.namesrv, "send", "Colours", "red", "green", "blue") == 3
    assert alone.client(server.namesrv, "consume", "Colours", expression, len(bodies)) == bodies
