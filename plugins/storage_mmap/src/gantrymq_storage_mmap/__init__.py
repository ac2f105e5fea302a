"""GantryMQ's store on memory-mapped files, in Apache RocketMQ's own formats."""
