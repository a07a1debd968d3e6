#!/usr/bin/env python3
"""An urgent message behind bulk data of its own connection.

The server answers a request with frames: for `--frames-ms` it writes one whenever poll says that the socket takes data.
Then it writes the urgent end of the answer, which waits behind each byte that the socket took before. The more the
kernel takes that it cannot send yet, the later the client has the end.
"""

import select
import time

import ends

REQUEST, FRAME, END = b"r" * 100, b"f" * 4096, b"e"


def client(opts):
    sock = ends.connect(opts)
    connection = ends.Counted(sock)
    for _ in range(opts.answers):
        connection.write(REQUEST)
        for piece in connection.read_to_end():
            if piece.endswith(END):
                break
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts


def server(opts):
    sock = ends.accept(opts)
    connection = ends.Counted(sock)
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    while connection.read_exactly(len(REQUEST)) is not None:
        end = time.monotonic() + opts.frames_ms / 1000
        while (left := end - time.monotonic()) > 0:
            if poll.poll(left * 1000):
                connection.write(FRAME)
        connection.write(END)
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--answers", type=int, default=10)
    parser.add_argument("--frames-ms", type=float, default=50)
    ends.run(parser.parse_args(), client, server)
