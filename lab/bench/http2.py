"""A caller of the server that speaks HTTP/2 by hand: it measures one call without a process of its
own for each, and does what no library does, as abusers do. Its headers are not compressed."""

import socket
import struct
from collections.abc import Sequence

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
# The longest frame.
FRAME = 16_384
PROTOCOL = "5"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def varint(number: int) -> bytes:
    """A number as Protocol Buffers and HPACK write it."""
    out = b""
    while number >= 128:
        out += bytes([number % 128 + 128])
        number //= 128
    return out + bytes([number])


def text(value: str) -> bytes:
    """A string of HPACK."""
    length = len(value)
    prefix = bytes([length]) if length < 127 else b"\x7f" + varint(length - 127)
    return prefix + value.encode()


def field(number: int, value: int | bytes) -> bytes:
    """A field of a message: a number, or bytes."""
    if isinstance(value, int):
        return varint(8 * number) + varint(value)
    return varint(8 * number + 2) + varint(len(value)) + value


def message(content: bytes) -> bytes:
    """A message of gRPC."""
    return struct.pack(">BI", 0, len(content)) + content


class Connection:
    """A connection; `window` is how much of each answer the server may send."""

    def __init__(self, url: str, token: str, window: int = 1 << 30) -> None:
        host, port = url.removeprefix("http://").rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.token = token
        self.next = 1
        # What may be sent, in all and on each stream besides what its first window allows.
        self.room = self.window = 65_535
        self.rooms: dict[int, int] = {}
        hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        settings = frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window))
        more = frame(WINDOW, 0, 0, struct.pack(">I", 1 << 30))
        self.socket.sendall(hello + settings + more)

    def call(self, path: str, body: bytes | None = None) -> int:
        """Begins a call, and ends its body unless there is none yet; returns its stream."""
        stream, self.next = self.next, self.next + 2
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "localhost",
            "content-type": "application/grpc",
            "te": "trailers",
            "oboro-protocol": PROTOCOL,
            "authorization": f"Bearer {self.token}",
        }
        block = b"".join(b"\x00" + text(name) + text(value) for name, value in headers.items())
        begun = frame(HEADERS, END_HEADERS, stream, block)
        if body is not None and len(body) <= FRAME:
            # At once: the server may answer before it has everything.
            self.room -= len(body)
            self.socket.sendall(begun + frame(DATA, END_STREAM, stream, body))
            return stream
        self.socket.sendall(begun)
        if body is not None:
            self.send(stream, body)
            self.socket.sendall(frame(DATA, END_STREAM, stream))
        return stream

    def send(self, stream: int, body: bytes) -> None:
        """Sends bytes of a body as the server takes them."""
        for start in range(0, len(body), FRAME):
            piece = body[start : start + FRAME]
            while min(self.room, self.window + self.rooms.get(stream, 0)) < len(piece):
                self.hear()
            self.room -= len(piece)
            self.rooms[stream] = self.rooms.get(stream, 0) - len(piece)
            self.socket.sendall(frame(DATA, 0, stream, piece))

    def hear(self) -> tuple[int, int, int, bytes]:
        """The next frame of the server; pings and windows are seen to."""
        length, kind, flags, stream = struct.unpack(">IBBI", b"\x00" + self._read(9))
        payload = self._read(length)
        if kind in (PING, SETTINGS) and not flags & ACK:
            self.socket.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
        if kind == SETTINGS:
            for at in range(0, len(payload), 6):
                setting, value = struct.unpack(">HI", payload[at : at + 6])
                self.window = value if setting == 4 else self.window
        if kind == WINDOW:
            more = struct.unpack(">I", payload)[0]
            self.room += 0 if stream else more
            self.rooms[stream] = self.rooms.get(stream, 0) + more
        if kind == DATA and payload:
            self.socket.sendall(frame(WINDOW, 0, 0, struct.pack(">I", len(payload))))
        if kind == GOAWAY:
            raise ConnectionError("the server ends the connection")
        return kind, flags, stream, payload

    def ends(self) -> bytes | None:
        """Hears one frame; the data of an answer, with `None` where an answer ends."""
        kind, flags, _, payload = self.hear()
        if kind == RESET or (kind in (HEADERS, DATA) and flags & END_STREAM):
            return None
        return payload if kind == DATA else b""

    def ask(self, path: str, body: bytes) -> bytes:
        """Makes a call, and returns all data of its answer."""
        self.call(path, message(body))
        parts = []
        while (part := self.ends()) is not None:
            parts.append(part)
        return b"".join(parts)

    def _read(self, length: int) -> bytes:
        parts = b""
        while len(parts) < length:
            part = self.socket.recv(length - len(parts))
            if not part:
                raise ConnectionError("the server has closed the connection")
            parts += part
        return parts


def answers(connections: Sequence[Connection], calls: int) -> None:
    """Waits for the end of so many answers on each of these."""
    for connection in connections:
        for _ in range(calls):
            while connection.ends() is not None:
                pass
