#!/usr/bin/env python3
"""Thousands of short connections: each asks one question, gets one answer and closes.

Connections follow each other, or `--parallel` are open at a time. Each asks `--questions` times. Both ends close after
the last answer; with `--closer` the other one waits for that end.
"""

import ends


def client(opts):
    done = []
    for start in range(0, opts.connections, opts.parallel):
        count = min(opts.parallel, opts.connections - start)
        batch = [ends.Counted(ends.connect(opts)) for _ in range(count)]
        for _ in range(opts.questions):
            for connection in batch:
                connection.write(b"q" * opts.question_bytes)
            for connection in batch:
                connection.read_exactly(opts.answer_bytes)
        for connection in batch:
            if opts.closer == "server":
                connection.read(1)
            done.append(connection.facts())
            connection.socket.close()
    return ends.totals(done)


def server(opts):
    answer = b"a" * opts.answer_bytes
    done = []
    for _ in range(opts.connections):
        sock = ends.accept(opts)
        connection = ends.Counted(sock)
        for _ in range(opts.questions):
            connection.read_exactly(opts.question_bytes)
            connection.write(answer)
        if opts.closer == "client":
            connection.read(1)
        done.append(connection.facts())
        sock.close()
    return ends.totals(done)


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--connections", type=int, default=3000)
    parser.add_argument("--parallel", type=int, default=1, help="open at a time, 500 at most")
    parser.add_argument("--questions", type=int, default=1, help="on each, with --parallel 1")
    parser.add_argument("--closer", choices=["client", "server", "both"], default="both")
    parser.add_argument("--question-bytes", type=int, default=50)
    parser.add_argument("--answer-bytes", type=int, default=200)
    ends.run(parser.parse_args(), client, server)
