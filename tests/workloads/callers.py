#!/usr/bin/env python3
"""Many callers at once: each has a connection and a thread, asks a question and waits for its answer.

Without `--pause-ms` the callers and their servers use all the CPU time that they can get.
"""

import threading
import time

import ends


def each(connections, work):
    """Does `work` on every connection at once; their facts, summed."""
    threads = [threading.Thread(target=work, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends.totals([connection.facts() for connection in connections])


def client(opts):
    question = b"q" * opts.question_bytes

    def call(connection):
        for _ in range(opts.calls):
            connection.write(question)
            connection.read_exactly(opts.answer_bytes)
            if opts.pause_ms:
                time.sleep(opts.pause_ms / 1000)

    return each([ends.Counted(ends.connect(opts)) for _ in range(opts.callers)], call)


def server(opts):
    answer = b"a" * opts.answer_bytes

    def serve(connection):
        for _ in range(opts.calls):
            connection.read_exactly(opts.question_bytes)
            connection.write(answer)

    return each([ends.Counted(ends.accept(opts)) for _ in range(opts.callers)], serve)


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--callers", type=int, default=12, help="500 at most")
    parser.add_argument("--calls", type=int, default=1000, help="of each caller")
    parser.add_argument("--pause-ms", type=float, default=0, help="between two calls of a caller")
    parser.add_argument("--question-bytes", type=int, default=100)
    parser.add_argument("--answer-bytes", type=int, default=100)
    ends.run(parser.parse_args(), client, server)
