"""RocketMQ's remoting protocol: frames, commands and headers without I/O, and asyncio edges over a `World`."""
