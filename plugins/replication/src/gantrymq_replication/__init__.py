"""Replication: copies of a broker's log by RocketMQ's HA protocol, as master or as slave."""
