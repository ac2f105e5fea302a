"""The source ``gantrymq``: messages of live topics, found through name servers.

options                   the user's options, parsed from text; one sentence for each mistake
starting_offsets          positions, times and durations in options
offsets                   how far a stream has read, as Spark keeps it; the current queues; messages that are lost
planner                   which messages the next micro-batch has, divided among tasks; pure
pushdown                  filters of a query that the source applies itself; pure
queue_view                builds the snapshot from brokers' answers
range_reader              one range of a queue as Arrow batches
session                   the driver's side of one query
source                    the classes that Spark calls; only this imports pyspark
"""
