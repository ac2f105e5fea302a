"""Tools for the files of a store: check, rebuild, repair, extract, back up.

Everything reads through `world.Files`, opens files read-only, and writes only below a folder that the caller names. The
store itself is never written and its lock is not taken. Stores of GantryMQ and of Java brokers are treated alike.

    layout, log_reader, open_files     the files of the folder; the bytes of the log; the bytes of all other files
    store_rules, record_entries        how queues and index were built; the queue entries of one record
    rebuild, part_file                 entries and keys of a range of the log; ranges may run in different processes
    check, *_check                     comparison of derived files with the log, up to where the checkpoint allows it
    queue_order, queue_write,          queue offsets of rebuilt parts; queue and index files from them
    index_files
    repair, rebuild_store, extract,    implementation of the commands repair, rebuild-*, extract, dump and stat
    dump, store_stat
    backup, config_copy, store_copy,   copy of a store that may be open: order of reading; the files of config/; log,
    summed_copy, backup_manifest       queues and index; copies with checksums; their list
    restore                            a store from such a copy
    commands                           the command line; no other module here imports click
"""
