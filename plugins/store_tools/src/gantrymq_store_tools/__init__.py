"""Work on a store that no broker has open: check, rebuild, repair, extract.

Everything reads through `world.Files`, opens read-only, and writes only below a folder that the caller names; the store
itself is never written, its lock not taken. Our stores and Java's are the same thing here.

    layout, log_reader, open_files     what lies in the folder; the log's bytes; bytes of all other files
    store_rules, record_entries        how queues and index were made; the queue entries of one record
    rebuild, range_part                entries and keys of a range: the function that any number of processes may call
    check, *_check, checkpointed       everything that is made from the log, held against it; how far that can be asked
    queue_write, index_write           queue and index files from rebuilt parts
    repair, rebuild_store, extract,    what the commands repair, rebuild-*, extract, dump and stat do
    dump, store_stat
    commands                           the command line's side of it; nothing else here imports click
"""
