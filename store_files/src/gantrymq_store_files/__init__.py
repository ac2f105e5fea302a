"""The files of a store, byte by byte, in RocketMQ's formats; what is read and written here does no I/O of its own."""
