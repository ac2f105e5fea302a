"""Idempotent consumption: what a message does is done once, however often it is delivered.

cache      keys consumed lately, so that most duplicates cost no query
identity   by what a message is known, through redelivery and a producer's second attempt, batches included
records    what is asked of a database; `sqlite_records` and `sqlalchemy_records` are two of them
threads    a database whose calls block, beside an event loop; `this_thread` without one
consuming  the three steps: cache, database, a record in the transaction of the business change
"""
