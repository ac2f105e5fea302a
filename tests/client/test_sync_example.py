"""The program of docs/client-sync.md."""

from test_examples import END_S, example


def test_the_example_of_threads(servers):
    with example("client/threads", servers.namesrv) as running:
        said, errors = running.communicate(timeout=END_S)
    assert (running.returncode, errors) == (0, "")
    lines = said.splitlines()
    assert lines[:2] == ["8 are stored", "2 more are stored"]
    assert sorted(lines[2:]) == sorted(
        [*(f"receipt {number}" for number in range(8)), *(f"late receipt {number}" for number in range(2))]
    )
