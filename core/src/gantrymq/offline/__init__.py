"""Work on a store that no broker has open: check, rebuild, repair, extract.

Everything reads through `world.Files`, opens read-only, and writes only below a folder that the caller names; the store
itself is never written, its lock not taken. Our stores and Java's are the same thing here.

    layout, log_reader, scan      what lies in the folder; the log's bytes; records and damage over a range of the log
    targets, rebuild              entries and keys of a range: the function that any number of processes may call
    check, *_check                everything that is made from the log, held against it
    queue_write, index_write      queue and index files from rebuilt parts
    repair, extract, dump, totals what the commands repair, extract, dump and stat do
"""
