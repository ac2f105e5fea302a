"""Which oneway requests were dropped."""

from gantrymq.remoting.write_buffer import PendingOneways


def test_what_has_left_is_forgotten_and_the_rest_is_told():
    told = []
    oneways = PendingOneways()
    for end in (100, 200, 300):
        oneways.add(end, lambda end=end: told.append(end))
    oneways.add(400, None)
    oneways.written(99)
    assert len(oneways) == 4
    oneways.written(250)
    assert len(oneways) == 2
    assert (oneways.lost(), told) == (2, [300])
    assert oneways.lost() == len(oneways) == 0
