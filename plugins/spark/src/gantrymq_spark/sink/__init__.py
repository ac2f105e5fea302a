"""The sink of format ``gantrymq``: rows of a DataFrame as messages.

options     what a user asks
columns     which columns there are, of which types, and which of a message's are passed over
rows        one row: a message, its order, its id
local_times times without a zone, by the session's
sending     messages of one Arrow batch: in batches, in order where one is asked for, again where a broker is away
writers     what Spark calls; only this and `dedup` import pyspark
dedup       for consumers: each id once
"""
