#!/usr/bin/env python3
"""Requests that a long reply answers, with a connection for each: the reply takes as many round trips as a new
connection's congestion window needs to grow.
"""

import ends

REQUEST = b"r" * 100


def client(opts):
    facts = []
    for _ in range(opts.replies):
        sock = ends.connect(opts)
        connection = ends.Counted(sock)
        connection.write(REQUEST)
        connection.read_exactly(opts.reply_bytes)
        facts.append(connection.facts())
        sock.close()
    return ends.totals(facts)


def server(opts):
    reply, facts = b"a" * opts.reply_bytes, []
    for _ in range(opts.replies):
        sock = ends.accept(opts)
        connection = ends.Counted(sock)
        connection.read_exactly(len(REQUEST))
        connection.write(reply)
        # The client closes first, so that it has the state TIME_WAIT and not the server's port.
        connection.read(1)
        facts.append(connection.facts())
        sock.close()
    return ends.totals(facts)


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--replies", type=int, default=20)
    parser.add_argument("--reply-bytes", type=int, default=65536)
    ends.run(parser.parse_args(), client, server)
