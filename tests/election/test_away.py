"""Slaves that an elected master reports as away."""

from gantrymq_replication.election.engine import NO_BROKER_IDS
from gantrymq_replication.election.statistics import Away


def test_an_id_that_only_began_an_epoch_is_not_reported_as_away():
    """A broker that saw it elected, while an operator raised the epochs, waited for its connection for ever."""
    away = Away()
    away.begin({2, NO_BROKER_IDS + 1}, 1000)
    assert away.since_ms == {2: 1000}


def test_slaves_are_away_until_they_connect_or_are_forgotten():
    away = Away()
    away.begin({2, 3, 4}, 1000)
    away.came(2)
    away.forget(3)
    away.gone(2, 2000)
    away.stops(4)
    assert away.since_ms == {2: 2000}
