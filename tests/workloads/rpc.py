#!/usr/bin/env python3
"""Remote calls of mixed sizes: a four-byte length, then the payload, which the server echoes.

Each message goes out in one write unless `--split` sends the length by itself. The client compares
every answer with its question.
"""

import random
import struct

import ends

LENGTH = struct.Struct("!I")
SIZES = [1, 10, 100, 1000, 1448, 4096, 10000, 65536]


def client(opts):
    sock = ends.connect(opts)
    connection = ends.Counted(sock)
    source = random.Random(opts.seed)
    wrong = payload_bytes = 0
    for call in range(opts.calls):
        question = source.randbytes(SIZES[call % len(SIZES)])
        _send(connection, question, opts.split)
        wrong += _receive(connection) != question
        payload_bytes += len(question)
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts | {"calls": opts.calls, "payload_bytes": payload_bytes, "ok": wrong == 0}


def server(opts):
    sock = ends.accept(opts)
    connection = ends.Counted(sock)
    calls = 0
    while (question := _receive(connection)) is not None:
        _send(connection, question, opts.split)
        calls += 1
    facts = ends.totals([connection.facts()])
    sock.close()
    return facts | {"calls": calls}


def _send(connection, payload, split):
    length = LENGTH.pack(len(payload))
    if split:
        connection.write(length)
        connection.write(payload)
    else:
        connection.write(length + payload)


def _receive(connection):
    length = connection.read_exactly(LENGTH.size)
    return connection.read_exactly(LENGTH.unpack(length)[0]) if length else None


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", action="store_true", help="the length in a write of its own")
    ends.run(parser.parse_args(), client, server)
