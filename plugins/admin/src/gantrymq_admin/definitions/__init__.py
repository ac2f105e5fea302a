"""Definitions of a cluster: its topics, groups and order configurations, as one JSON document.

    fields          the members of a topic and a group: defaults, checks, plain values
    document        the document: common values once, exceptions by broker; written as text
    reading         parsing and checking a document
    cluster_tables  the definitions that a cluster has
    difference      the changes that a document makes in a cluster; no I/O
    importing       planning and applying these changes

Nothing here knows the command line: ``gantrymq cluster export`` and ``import`` are thin, and other tools may call the
same functions. At 5,000 topics and 2,000 groups, parsing, comparing and writing a document take some 100 ms each: they
are plain functions, for a worker thread where an event loop has other work.
"""
