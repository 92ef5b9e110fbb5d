"""A TCP proxy before a server that keeps what crosses it: a test sees whether it is encrypted, and how much it is."""

import socket
import threading
from types import TracebackType

RECEIVE_BYTES = 1 << 16


class WireTap:
    """On a free loopback port, in threads of its own. Use as a context. crossed: all bytes, both directions mixed."""

    def __init__(self, backend_port: int) -> None:
        self.crossed = bytearray()
        self._backend_port = backend_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._mutex = threading.Lock()

    def __enter__(self) -> "WireTap":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._backend_port))
            self._sockets += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(RECEIVE_BYTES):
                with self._mutex:
                    self.crossed += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one side went away

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for one in self._sockets:
            one.close()
