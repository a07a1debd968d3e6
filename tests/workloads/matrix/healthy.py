"""Healthy look-alikes of the matrix's troubles: their callers wait for nothing that should change."""

import threading
import time

from callers import Postgres, Redis, connected, wait_for
from servers import Server
from troubles import facts, started


def split_nodelay(name, built):
    """Answers in two writes, with TCP_NODELAY: no write waits for an acknowledgment."""
    _, _, caller = started(name, built)
    for _ in range(60):
        caller.call(b"split 100 300\n")
    return facts([caller])


def far_writes(name, built):
    """A caller writes the two halves of its request 30 ms apart: the wait between them is its own."""
    _, kind, caller = started(name, built)
    for _ in range(10):
        request = kind.fast()
        caller.sock.sendall(request[:3])
        time.sleep(0.03)
        caller.sock.sendall(request[3:])
        caller.got, caller.size = bytearray(), 0
        while not caller.take():
            pass
    return facts([])


def pool(name, built):
    """Eight connections that stay open, used in turn."""
    _, kind, first = started(name, built)
    asking = [kind(first.server) for _ in range(8)]
    for _ in range(25):
        for caller in asking:
            caller.call(kind.fast())
    return facts([first, *asking])


def at_once(name, built):
    """Eight connections that ask at once, and are answered at once."""
    _, kind, first = started(name, built)
    asking = [kind(first.server) for _ in range(8)]
    for _ in range(10):
        for caller in asking:
            caller.send(kind.fast())
        wait_for(asking)
        time.sleep(0.005)
    return facts([])


def pipelined(name, built):
    """Twenty requests that are sent ahead in one write."""
    _, kind, caller = started(name, built)
    caller.call(kind.fast())
    whole = caller.size
    for _ in range(10):
        caller.sock.sendall(kind.fast() * 20)
        left = whole * 20
        while left > 0:
            left -= len(caller.sock.recv(1 << 16))
        time.sleep(0.005)
    return facts([])


def large(name, built):
    """Answers of 4 MB at full speed; those of PostgreSQL are smaller, as it takes long to make one."""
    _, kind, caller = started(name, built)
    request = Postgres.query(b"select repeat('x', 400000)") if kind is Postgres else kind.large()
    for _ in range(4):
        caller.call(request)
    return facts([caller])


def chunked(name, built):
    """An answer in fifty parts without pauses."""
    _, _, caller = started(name, built)
    for _ in range(5):
        caller.call(b"stream 50 0 2000\n")
    return facts([caller])


def push(name, built):
    """A server that sends an event every 30 ms, and is asked for nothing."""
    server = Server(name, built, "push")
    sock, _ = connected(server.port)
    while sock.recv(4096):
        pass
    return facts([])


def idle(name, built):
    """Ten connections with a request every 200 ms."""
    _, kind, first = started(name, built)
    asking = [kind(first.server) for _ in range(10)]
    for _ in range(3):
        for caller in asking:
            caller.call(kind.fast())
            time.sleep(0.02)
    return facts([first, *asking])


def few_short(name, built):
    """Ten connections, one after the other, for a request each."""
    _, kind, first = started(name, built)
    asking = [first]
    first.call(kind.fast())
    for _ in range(10):
        caller = kind(first.server)
        caller.call(kind.fast())
        caller.close()
        asking.append(caller)
        time.sleep(0.03)
    return facts(asking)


def think(name, built):
    """A caller that thinks for 40 ms before each request."""
    _, kind, caller = started(name, built)
    for _ in range(20):
        time.sleep(0.04)
        caller.call(kind.fast())
    return facts([caller])


def upload(name, built):
    """A large request that is read at full speed."""
    _, _, caller = started(name, built)
    for _ in range(3):
        caller.call(b"upload 4000000 0 65536\n" + b"u" * 4_000_000)
    return facts([caller])


def slow_upload(name, built):
    """A caller that makes its large request slowly: the reader waits, and not the caller."""
    _, _, caller = started(name, built)
    for _ in range(2):
        caller.sock.sendall(b"upload 200000 0 65536\n")
        for _ in range(20):
            time.sleep(0.02)
            caller.sock.sendall(b"u" * 10_000)
        caller.got, caller.size = bytearray(), 0
        while not caller.take():
            pass
    return facts([])


def batch(name, built):
    """A program that makes one request after the other without a pause."""
    _, kind, caller = started(name, built)
    for _ in range(400):
        caller.call(kind.fast())
    return facts([caller])


def event(name, built):
    """A long poll that another caller's event answers after 60 ms."""
    server, kind, caller = started(name, built)
    if kind is Redis:
        other = kind(server)
        for _ in range(4):
            caller.send(kind.command(b"BLPOP", b"events", b"0"))
            threading.Timer(0.06, other.call, (kind.command(b"LPUSH", b"events", b"e"),)).start()
            wait_array(caller)
    else:
        for _ in range(4):
            caller.call(kind.slow(60))
    return facts([caller])


def wait_array(caller):
    """An answer of two bulk strings."""
    got = b""
    while got.count(b"\r\n") < 5:
        got += caller.sock.recv(4096)
    caller.finish()


SHAPES = {
    "split-nodelay": split_nodelay, "far-writes": far_writes, "pool": pool, "at-once": at_once, "pipelined": pipelined,
    "large": large, "chunked": chunked, "push": push, "idle": idle, "few-short": few_short, "think": think,
    "upload": upload, "slow-upload": slow_upload, "batch": batch, "event": event,
}
