#!/usr/bin/env python3
"""A reader that wants to read at once but shares its CPU with processes that never sleep.

The reader (the server) and the hogs are pinned to `--cpu`, the sender to `--sender-cpu`. Messages go
out every `--interval-ms`, or without a pause when that is 0. Each message carries the time at which
it was written, so that the reader can say how late it got it.
"""

import os
import statistics
import struct
import time

import ends

STAMP = struct.Struct("!Q")


def client(opts):
    _pin(opts.sender_cpu)
    sock = ends.connect(opts)
    connection = ends.Counted(sock)
    filling = b"m" * (opts.message_bytes - STAMP.size)
    due = time.monotonic()
    for _ in range(opts.messages):
        connection.write(STAMP.pack(time.monotonic_ns()) + filling)
        due += opts.interval_ms / 1000
        time.sleep(max(0, due - time.monotonic()))
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts


def server(opts):
    _pin(opts.cpu)
    hogs = [_hog(opts.timeout) for _ in range(opts.hogs)]
    try:
        sock = ends.accept(opts)
        os.nice(opts.reader_nice)
        connection = ends.Counted(sock)
        late_ns = []
        while (message := connection.read_exactly(opts.message_bytes)) is not None:
            (written_ns,) = STAMP.unpack_from(message)
            late_ns.append(time.monotonic_ns() - written_ns)
        facts = ends.totals([connection.facts()])
        sock.close()
    finally:
        for hog in hogs:
            os.kill(hog, 9)
            os.waitpid(hog, 0)
    return facts | {
        "messages": len(late_ns),
        "late_ns_p50": int(statistics.median(late_ns)),
        "late_ns_max": max(late_ns),
        "ok": len(late_ns) == opts.messages,
    }


def _pin(cpu):
    """Pins this process, where the machine has that CPU."""
    if cpu in os.sched_getaffinity(0):
        os.sched_setaffinity(0, {cpu})


def _hog(seconds):
    """A child that spins on this process's CPU until it is killed, or its parent or time is gone."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    end = time.monotonic() + seconds
    while time.monotonic() < end and os.getppid() == parent:
        for _ in range(10000):
            pass
    os._exit(0)


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--message-bytes", type=int, default=1000, help="8 or more")
    parser.add_argument("--interval-ms", type=float, default=10, help="0: without a pause")
    parser.add_argument("--cpu", type=int, default=1, help="of the reader and the hogs")
    parser.add_argument("--sender-cpu", type=int, default=0)
    parser.add_argument("--hogs", type=int, default=2)
    parser.add_argument("--reader-nice", type=int, default=10,
                        help="added to the reader's niceness: a woken reader then waits its turn")
    ends.run(parser.parse_args(), client, server)
