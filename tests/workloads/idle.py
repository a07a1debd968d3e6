#!/usr/bin/env python3
"""A connection that is idle nearly all the time: an exchange, a rest, an exchange, and so on.

Nothing is wrong with it: nothing may be found, and its time belongs to the application.
"""

import time

import ends


def client(opts):
    sock = ends.connect(opts)
    connection = ends.Counted(sock)
    for exchange in range(opts.exchanges):
        if exchange:
            time.sleep(opts.rest_s)
        connection.write(b"q" * opts.message_bytes)
        connection.read_exactly(opts.message_bytes)
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts


def server(opts):
    sock = ends.accept(opts)
    connection = ends.Counted(sock)
    while (question := connection.read_exactly(opts.message_bytes)) is not None:
        connection.write(question)
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--exchanges", type=int, default=5)
    parser.add_argument("--rest-s", type=float, default=0.5, help="between exchanges")
    parser.add_argument("--message-bytes", type=int, default=100)
    ends.run(parser.parse_args(), client, server)
