#!/usr/bin/env python3
"""Connections closed in one direction while the other still carries data.

The client writes its question and shuts its direction down; the server reads to the end, then writes
a longer answer, which the client reads to its end. Each round is a connection of its own.
"""

import socket

import ends


def client(opts):
    rounds = []
    for _ in range(opts.rounds):
        sock = ends.connect(opts)
        connection = ends.Counted(sock)
        connection.write(b"q" * opts.question_bytes)
        sock.shutdown(socket.SHUT_WR)
        for _ in connection.read_to_end():
            pass
        rounds.append(connection.facts())
        sock.close()
    facts = ends.totals(rounds)
    return facts | {"ok": facts["read_bytes"] == opts.rounds * opts.answer_bytes}


def server(opts):
    rounds = []
    for _ in range(opts.rounds):
        sock = ends.accept(opts)
        connection = ends.Counted(sock)
        for _ in connection.read_to_end():
            pass
        connection.write(b"a" * opts.answer_bytes)
        rounds.append(connection.facts())
        sock.close()
    facts = ends.totals(rounds)
    return facts | {"ok": facts["read_bytes"] == opts.rounds * opts.question_bytes}


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--question-bytes", type=int, default=2000)
    parser.add_argument("--answer-bytes", type=int, default=500_000)
    ends.run(parser.parse_args(), client, server)
