#!/usr/bin/env python3
"""A small request that is answered, then one of `--bytes` for whose answer the client waits `--wait-s` at most.

The client then closes the connection at once, by a reset. Over a link that drops large packets the second request does
not arrive.
"""

import socket
import struct

import ends

SMALL = 100


def client(opts):
    connection = ends.Counted(ends.connect(opts))
    connection.write(b"q" * SMALL)
    connection.read_exactly(SMALL)
    connection.write(b"q" * opts.bytes)
    connection.socket.settimeout(opts.wait_s)
    try:
        answered = connection.read_exactly(SMALL) is not None
    except TimeoutError:
        answered = False
    facts = ends.totals([connection.facts()])
    # No data is left behind that would be sent again for minutes.
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.socket.close()
    return facts | {"answered": answered}


def server(opts):
    connection = ends.Counted(ends.accept(opts))
    try:
        for size in (SMALL, opts.bytes):
            connection.read_exactly(size)
            connection.write(b"a" * SMALL)
    except (ConnectionResetError, EOFError):
        pass
    return ends.totals([connection.facts()])


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--bytes", type=int, default=9000)
    parser.add_argument("--wait-s", type=float, default=5)
    ends.run(parser.parse_args(), client, server)
