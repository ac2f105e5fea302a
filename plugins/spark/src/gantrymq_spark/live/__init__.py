"""The source ``gantrymq``: messages of live topics, read through name servers.

options, starts, times    what a user asks for, read from texts; one sentence for each mistake
offsets                   how far a stream has read, as Spark keeps it in its checkpoint
snapshot, losses          which queues there are now; messages that can no longer be read
planner, sharing          which messages the next micro-batch has; pure
splitting                 ranges of queues shared out among tasks; pure
pushdown                  filters of a query that the source applies itself; pure
queue_view                the snapshot, asked of brokers
range_reader              one range of a queue as Arrow batches
source, batch, streaming  the classes that Spark calls; only these import pyspark
"""
