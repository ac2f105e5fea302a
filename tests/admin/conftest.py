"""A cluster of scripted servers in memory, on a virtual clock."""

from scripted_cluster import cluster, peer, record_maker, simulate  # noqa: F401 - fixtures of this folder
