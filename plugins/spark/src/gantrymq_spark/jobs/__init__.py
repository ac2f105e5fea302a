"""The jobs of `gantrymq pipeline`. Each consists of functions over plain values and Arrow batches; Spark runs them.

rebuild_plan, rebuild_steps, rebuild    queue and index files from ranges of a log
archive_*                               Parquet by topic and date, and the manifest of the archive's content
audit_*                                 faults in the messages of a store, a topic or an archive
"""
