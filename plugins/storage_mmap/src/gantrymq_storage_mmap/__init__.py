"""GantryMQ's store on disk, in Apache RocketMQ's file formats."""
