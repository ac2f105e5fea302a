from gantrymq.client.idempotency.consuming import RecentKeys


def test_the_key_that_was_asked_for_longest_ago_goes_first():
    recent = RecentKeys(3)
    recent.add(["a", "b", "c"])
    assert recent.has(["a"])
    recent.add(["d"])
    assert [key for key in "abcd" if recent.has([key])] == ["a", "c", "d"]
    assert len(recent) == 3


def test_one_of_several_keys_is_enough():
    recent = RecentKeys(3)
    recent.add(["b"])
    assert recent.has(["a", "b"])
    assert not recent.has(["a", "c"])
    assert not recent.has([])


def test_there_may_be_no_room_at_all():
    recent = RecentKeys(0)
    recent.add(["a"])
    assert not recent.has(["a"])
    assert len(recent) == 0
