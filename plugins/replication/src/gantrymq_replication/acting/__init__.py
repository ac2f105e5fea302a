"""A slave that acts as its missing master, and the return of that master (RocketMQ's enableSlaveActingMaster)."""
