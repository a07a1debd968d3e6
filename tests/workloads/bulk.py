#!/usr/bin/env python3
"""A transfer whose every byte is checked: the receiver returns the SHA-256 of what it got.

The client sends, or with `--reverse` the server. Data repeats a random block from a seed, its length
odd so that no two segments are alike. `--rate` bounds the speed by pauses between writes, `--pacing-rate` by the option
SO_MAX_PACING_RATE of the sender's socket. With `--halt-at N --until FILE` the
sender stops once N bytes are written, says `halted` on standard error, and goes on when FILE exists.
"""

import hashlib
import os
import random
import socket
import sys
import time

import ends

SO_MAX_PACING_RATE = 47
BLOCK_BYTES = (1 << 20) - 3


def client(opts):
    sock = ends.connect(opts)
    return receive(opts, sock) if opts.reverse else send(opts, sock)


def server(opts):
    sock = ends.accept(opts)
    return send(opts, sock) if opts.reverse else receive(opts, sock)


def send(opts, sock):
    connection = ends.Counted(sock)
    if opts.pacing_rate:
        sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, opts.pacing_rate)
    digest = hashlib.sha256()
    start = time.monotonic()
    for piece in _pieces(opts):
        digest.update(piece)
        connection.write(piece)
        if opts.until and connection.written_bytes >= opts.halt_at:
            _wait_for(opts.until)
            opts.until = None
        if opts.rate:
            due = start + connection.written_bytes / opts.rate
            time.sleep(max(0, due - time.monotonic()))
    sock.shutdown(socket.SHUT_WR)
    answer = connection.read_exactly(digest.digest_size)
    facts = ends.totals([connection.facts()])
    sock.close()
    seconds = time.monotonic() - start
    ok = answer == digest.digest()
    return facts | {"sha256": digest.hexdigest(), "seconds": round(seconds, 3), "ok": ok}


def receive(opts, sock):
    connection = ends.Counted(sock)
    digest = hashlib.sha256()
    for piece in connection.read_to_end(opts.read_bytes):
        digest.update(piece)
    received = connection.read_bytes
    connection.write(digest.digest())
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts | {"sha256": digest.hexdigest(), "ok": received == opts.bytes}


def _wait_for(path):
    """Returns when `path` exists; `--timeout` bounds it."""
    print("halted", file=sys.stderr, flush=True)
    while not os.path.exists(path):
        time.sleep(0.01)


def _pieces(opts):
    """The data, cut as the writes are."""
    block = random.Random(opts.seed).randbytes(BLOCK_BYTES)
    block += block[:opts.write_bytes]
    for start in range(0, opts.bytes, opts.write_bytes):
        at = start % BLOCK_BYTES
        yield block[at:at + min(opts.write_bytes, opts.bytes - start)]


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--bytes", type=int, default=50_000_000)
    parser.add_argument("--write-bytes", type=int, default=65536, help="at most 1048573")
    parser.add_argument("--read-bytes", type=int, default=262144)
    parser.add_argument("--rate", type=int, help="bytes a second at most")
    parser.add_argument("--pacing-rate", type=int, help="bytes a second, below 2 GiB")
    parser.add_argument("--halt-at", type=int, default=0, metavar="N", help="with --until")
    parser.add_argument("--until", metavar="FILE", help="wait in the middle until it exists")
    parser.add_argument("--reverse", action="store_true", help="the server sends")
    parser.add_argument("--seed", type=int, default=1)
    ends.run(parser.parse_args(), client, server)
