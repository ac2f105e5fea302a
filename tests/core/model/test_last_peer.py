"""Detection of consecutive calls by the same peer."""

from __future__ import annotations

import gc
import weakref

from gantrymq.model.last_peer import LastPeer


class Peer:
    """Replacement of a connection."""


def test_who_comes_again_without_another_between_is_the_last():
    last, one, other = LastPeer(), Peer(), Peer()
    assert [last.is_repeat(peer) for peer in (one, one, one, other, one, one)] == [
        False,
        True,
        True,
        False,
        False,
        True,
    ]


def test_a_peer_that_has_gone_is_not_kept():
    last, peer = LastPeer(), Peer()
    last.is_repeat(peer)
    gone = weakref.ref(peer)
    del peer
    gc.collect()
    assert gone() is None
    assert not last.is_repeat(Peer())
