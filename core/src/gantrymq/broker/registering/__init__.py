"""Telling name servers of the broker and its topics."""
