"""From a send to its acknowledgement."""
