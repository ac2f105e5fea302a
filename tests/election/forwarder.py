"""A TCP proxy before etcd that can lose what the server answers."""

import asyncio


class Forwarder:
    """Forwards connections to *port* of this host; while `deaf`, the server's answers are thrown away."""

    def __init__(self, port):
        self.port, self.deaf, self._writers = port, False, set()

    async def start(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return "127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]  # noqa: UP031

    async def stop(self):
        self._server.close()
        self.cut()

    def cut(self):
        """End all connections."""
        for each in [*self._writers]:
            each.transport.abort()

    async def _accept(self, reader, writer):
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers |= {writer, to_writer}
        await asyncio.gather(self._copy(reader, to_writer, True), self._copy(to_reader, writer, False))
        self._writers -= {writer, to_writer}

    async def _copy(self, reader, writer, asking):
        try:
            while data := await reader.read(1 << 16):
                if asking or not self.deaf:
                    writer.write(data)
        except OSError:
            pass
        writer.transport.abort()
