"""What may stand between a client and a PostgreSQL server: a proxy that cuts connections, or hides whose they are."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Literal, Self

Cut = Literal["before", "during", "after"]
"""A connection ends before COMMIT reaches the server, once it is sent there, or once the server has carried it out."""


class Between:
    """A proxy to a port of this machine, which reads the messages that pass. Connections may not be encrypted."""

    def __init__(self, port: int, *, hides_backends: bool = False) -> None:
        """``hides_backends`` gives clients another process id than the server's, as connection poolers do."""
        self.cut: Cut | None = None
        """What happens to the next COMMIT; once."""
        self.refuses = False
        """Whether new connections are ended at once."""
        self._target = port
        self._hides_backends = hides_backends
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.cut_all()
        for thread in self._threads[1:]:
            thread.join()

    def cut_all(self) -> None:
        """End every connection."""
        for client, server in self._pairs:
            _end(client)
            _end(server)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                client = self._listener.accept()[0]
                if self.refuses:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pairs.append((client, server))
                for pump in (self._to_server, self._to_client):
                    self._threads.append(threading.Thread(target=_quietly, args=(pump, client, server)))
                    self._threads[-1].start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        server.sendall(_message(client, typed=False))
        while message := _message(client):
            commits = message[:1] in {b"Q", b"P"} and b"COMMIT\0" in message
            if commits and self.cut == "before":
                self.cut = None
                break
            server.sendall(message)
            # A statement of the extended protocol runs when the Sync that follows it arrives.
            if commits and self.cut == "during":
                self.cut = None
                while message[:1] not in {b"Q", b"S"}:
                    message = _message(client)
                    server.sendall(message)
                break
        _end(client)
        _end(server)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        while message := _message(server):
            if message[:1] == b"C" and message[5:] == b"COMMIT\0" and self.cut == "after":
                self.cut = None
                break
            if message[:1] == b"K" and self._hides_backends:
                message = message[:5] + struct.pack("!i", 7) + message[9:]
            client.sendall(message)
        _end(client)
        _end(server)


def _message(source: socket.socket, *, typed: bool = True) -> bytes:
    """Return the next whole message; nothing at the end of the connection."""
    head = _bytes(source, 5 if typed else 4)
    return head + _bytes(source, struct.unpack("!I", head[-4:])[0] - 4) if head else b""


def _bytes(source: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = source.recv(count - len(found))
        if not part:
            return b""
        found += part
    return found


def _quietly(pump: object, client: socket.socket, server: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other direction has ended the connection
        pump(client, server)  # type: ignore[operator]  # one of the two above
    _end(client)
    _end(server)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
