"""What `gantrymq pipeline` runs. Each job is functions over plain values and Arrow batches; Spark only spreads them.

rebuild_plan, rebuild_steps, rebuild    queue and index files from ranges of a log
archive_*                               Parquet by topic and date, and the manifest that says what is there
audit_*                                 what is wrong with the messages of a store, a topic or an archive
"""
