#!/usr/bin/env python3
"""Exchanges of random sizes over several connections at once, which an echo server answers.

The client compares each byte of the answers. The server sends back what it receives, on each connection.
"""

import random
import threading

import ends


def client(opts):
    counts, failures = [0] * opts.connections, []

    def exchange(number):
        source = random.Random(opts.seed * 1000 + number)
        try:
            connection = ends.Counted(ends.connect(opts))
            for _ in range(opts.exchanges):
                question = source.randbytes(source.randint(1, opts.largest))
                connection.write(question)
                if connection.read_exactly(len(question)) != question:
                    raise ValueError("a byte of the answer is wrong")
                counts[number] += 1
            connection.socket.close()
        except (OSError, EOFError, ValueError) as error:
            failures.append(f"connection {number}: {error}")

    threads = [threading.Thread(target=exchange, args=(n,)) for n in range(opts.connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"exchanges": sum(counts), "failures": failures, "ok": not failures}


def server(opts):
    def echo(sock):
        with sock:
            try:
                while data := sock.recv(65536):
                    sock.sendall(data)
            except OSError:
                pass  # the client's end says why

    threads = []
    for _ in range(opts.connections):
        threads.append(threading.Thread(target=echo, args=(ends.accept(opts),)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return {}


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--connections", type=int, default=10)
    parser.add_argument("--exchanges", type=int, default=10, help="on each connection")
    parser.add_argument("--largest", type=int, default=2000, help="bytes of the largest question")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(timeout=600)
    ends.run(parser.parse_args(), client, server)
