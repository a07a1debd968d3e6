"""Callers that measure their own waits: one class for each protocol of the matrix's servers.

A wait lasts from before the first byte is written until after the last byte of the answer was read, by the clock
CLOCK_MONOTONIC, as the recorder's.
"""

import selectors
import socket
import struct
import time


def connected(port, host="127.0.0.1", nodelay=True):
    """A connection, and the nanoseconds until it was open."""
    sock = socket.socket()
    if nodelay:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    since = time.monotonic_ns()
    sock.connect((host, port))
    return sock, time.monotonic_ns() - since


class Caller:
    """One connection: `calls` has the port, the time and the nanoseconds of each wait."""

    def __init__(self, server, nodelay=True, sock=None):
        self.server = server
        self.connect_ns = 0
        if sock is None:
            sock, self.connect_ns = connected(server.port, server.host, nodelay)
        self.sock = sock
        self.port = self.sock.getsockname()[1]
        self.calls = []
        self.since = 0
        self.got = bytearray()
        self.size = 0
        self.greet()

    def greet(self):
        """Some protocols begin with an exchange."""

    def send(self, request, parts=1):
        """Begins to wait."""
        self.got, self.size = bytearray(), 0
        cut = len(request) // parts
        self.since = time.monotonic_ns()
        for part in range(parts):
            self.sock.sendall(request[part * cut:None if part == parts - 1 else (part + 1) * cut])

    def take(self, room=1 << 18):
        """Reads once. Returns whether the answer is whole."""
        part = self.sock.recv(room)
        if not part:
            raise ConnectionError("closed without an answer")
        self.size += len(part)
        # The head of an answer shows its length, and its end the end.
        self.got = self.got + part if len(self.got) < 4096 else self.got[:4096 - 64] + part[-64:]
        return self.is_whole()

    def finish(self):
        """Ends to wait; returns the nanoseconds."""
        waited = time.monotonic_ns() - self.since
        self.calls.append([self.port, self.since, waited])
        return waited

    def call(self, request, parts=1):
        self.send(request, parts)
        while not self.take():
            pass
        return self.finish()

    def close(self):
        self.sock.close()


class Lines(Caller):
    """The servers of this folder."""

    def is_whole(self):
        head, newline, _ = bytes(self.got[:64]).partition(b"\n")
        return bool(newline) and self.size >= len(head) + 1 + int(head)

    def said(self):
        """The number with which the answer begins."""
        return int(bytes(self.got[:128]).split(b"\n")[1].split(b" ")[0])

    fast = staticmethod(lambda size=200: b"fast %d\n" % size)
    slow = staticmethod(lambda ms: b"sleep %d 200\n" % ms)
    large = staticmethod(lambda: b"fast 4000000\n")
    stream = staticmethod(lambda: b"stream 6 100 2000\n")
    never = staticmethod(lambda: b"hang\n")


class Http(Caller):
    """nginx and haproxy."""

    def is_whole(self):
        head, end, _ = bytes(self.got).partition(b"\r\n\r\n")
        if not end:
            return False
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
                      if line.startswith(b"content-length:"))
        return self.size >= len(head) + 4 + length

    @staticmethod
    def get(path):
        return b"GET %b HTTP/1.1\r\nHost: matrix\r\n\r\n" % path

    fast = staticmethod(lambda size=200: Http.get(b"/small"))
    slow = staticmethod(lambda ms: Http.get(b"/slow/small"))
    large = staticmethod(lambda: Http.get(b"/large"))
    stream = staticmethod(lambda: Http.get(b"/stream"))
    never = staticmethod(lambda: Http.get(b"/never/small"))
    upstream = staticmethod(lambda ms: Http.get(b"/sleep/%d/200" % ms))


class Redis(Caller):
    """Redis, by RESP."""

    def is_whole(self):
        if not self.got.endswith(b"\r\n"):
            return False
        if self.got[:1] != b"$" or self.got.startswith(b"$-1"):
            return True
        head = bytes(self.got[:32]).split(b"\r\n")[0]
        return self.size >= len(head) + 2 + int(head[1:]) + 2

    @staticmethod
    def command(*words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)

    def fill(self):
        self.call(self.command(b"SET", b"small", b"v" * 200))
        self.call(self.command(b"SET", b"large", b"v" * 4_000_000))

    fast = staticmethod(lambda size=200: Redis.command(b"GET", b"small"))
    slow = staticmethod(lambda ms: Redis.command(b"DEBUG", b"SLEEP", b"%.3f" % (ms / 1000)))
    large = staticmethod(lambda: Redis.command(b"GET", b"large"))
    never = staticmethod(lambda: Redis.command(b"BLPOP", b"empty", b"0"))


class Postgres(Caller):
    """PostgreSQL, by its protocol 3.0, simple queries."""

    def greet(self):
        words = b"user\0postgres\0database\0postgres\0\0"
        self.send(struct.pack("!II", 8 + len(words), 3 << 16) + words)
        said = b""
        while not said.endswith(b"Z\0\0\0\5I"):
            part = self.sock.recv(4096)
            if not part or b"FATAL" in part:
                raise ConnectionError(part)
            said += part
        self.backend = struct.unpack("!I", said[said.index(b"K\0\0\0\x0c") + 5:][:4])[0]
        self.finish()

    def is_whole(self):
        return self.got[-6:-1] == b"Z\0\0\0\5"

    @staticmethod
    def query(text):
        return b"Q" + struct.pack("!I", 5 + len(text)) + text + b"\0"

    fast = staticmethod(lambda size=200: Postgres.query(b"select repeat('x', 200)"))
    slow = staticmethod(lambda ms: Postgres.query(b"select pg_sleep(%.3f)" % (ms / 1000)))
    large = staticmethod(lambda: Postgres.query(b"select repeat('x', 4000000)"))
    stream = staticmethod(lambda: Postgres.query(b"select repeat('x', 9000), pg_sleep(0.1) from generate_series(1, 6)"))
    never = staticmethod(lambda: Postgres.query(b"select pg_sleep(60)"))


PROTOCOLS = {"nginx": Http, "haproxy": Http, "redis": Redis, "postgres": Postgres}


def protocol(server):
    return PROTOCOLS.get(server.name, Lines)


def wait_for(callers):
    """Takes the answers of all that wait, as they arrive; returns the nanoseconds of each."""
    waiting = selectors.DefaultSelector()
    for caller in callers:
        waiting.register(caller.sock, selectors.EVENT_READ, caller)
    waits = {}
    while waiting.get_map():
        for key, _ in waiting.select():
            if key.data.take():
                waits[key.data] = key.data.finish()
                waiting.unregister(key.data.sock)
    return [waits[caller] for caller in callers]
