#!/usr/bin/env python3
"""A sender that streams to a reader that sleeps between its reads.

Data piles up in the receive queue until its window is full, then in the send queue; the reader has
its CPU whenever it wants it.
"""

import time

import ends


def client(opts):
    sock = ends.connect(opts)
    connection = ends.Counted(sock)
    block = b"s" * opts.write_bytes
    for start in range(0, opts.bytes, opts.write_bytes):
        connection.write(block[:opts.bytes - start])
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts


def server(opts):
    sock = ends.accept(opts)
    connection = ends.Counted(sock)
    slept = 0
    while connection.read(opts.read_bytes):
        time.sleep(opts.sleep_ms / 1000)
        slept += 1
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts | {"sleeps": slept, "ok": connection.read_bytes == opts.bytes}


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--bytes", type=int, default=2 << 20, help="to stream in all")
    parser.add_argument("--write-bytes", type=int, default=16384)
    parser.add_argument("--read-bytes", type=int, default=65536, help="asked for by each read")
    parser.add_argument("--sleep-ms", type=float, default=50, help="between reads")
    ends.run(parser.parse_args(), client, server)
