"""The program of docs/client/sync.md."""

from test_examples import finished


def test_the_example_of_threads(servers):
    lines = finished("client/threads", servers.namesrv)
    assert lines[:2] == ["8 are stored", "2 more are stored"]
    assert sorted(lines[2:]) == sorted(
        [*(f"receipt {number}" for number in range(8)), *(f"late receipt {number}" for number in range(2))]
    )
