"""Elected roles: a broker of a set whose master an existing engine chooses, RocketMQ's controller or etcd."""
