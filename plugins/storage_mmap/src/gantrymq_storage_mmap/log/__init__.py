"""The commit log: its files, appends, syncs."""
