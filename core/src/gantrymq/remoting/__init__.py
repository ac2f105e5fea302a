"""RocketMQ's remoting protocol: frames, commands and headers without I/O, connections on asyncio."""
