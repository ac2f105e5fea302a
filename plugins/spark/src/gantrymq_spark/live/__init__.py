"""The source ``gantrymq``: messages of live topics, found through name servers.

options,                  the user's options, parsed from text; one sentence for each mistake
starting_offsets, times
offsets                   how far a stream has read, in the form Spark keeps in its checkpoint
snapshot, losses          the current queues; messages that can no longer be read
planner, read_limit       which messages the next micro-batch has; pure
splitting                 ranges of queues divided among tasks; pure
pushdown                  filters of a query that the source applies itself; pure
queue_view                builds the snapshot from brokers' answers
range_reader              one range of a queue as Arrow batches
session                   the driver's side of one query
source, readers           the classes that Spark calls; only these import pyspark
"""
