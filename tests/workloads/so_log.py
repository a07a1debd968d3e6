#!/usr/bin/env python3
"""Two connections to one server, of which the program asks that one be logged.

The first connection sets the option SO_LOG of the level SOL_SOCKSCOPE, at once or after some calls;
the second does not. Both carry the same traffic. Where sockscope does not run the option is refused with ENOPROTOOPT and the
transfers go on: `so_log` in the facts is `granted` or the name of the error.
"""

import errno

import ends


def client(opts):
    connections = [ends.Counted(ends.connect(opts)) for _ in range(2)]
    _exchange(connections, opts.calls_before, opts.message_bytes)
    answer = _name(ends.ask_for_log(connections[0].socket))
    _exchange(connections, opts.calls, opts.message_bytes)
    logged, silent = (connection.facts() for connection in connections)
    for connection in connections:
        connection.socket.close()
    ports = {"logged_port": logged["local_port"], "silent_port": silent["local_port"]}
    return ends.totals([logged, silent]) | {"so_log": answer} | ports


def server(opts):
    connections = [ends.Counted(ends.accept(opts)) for _ in range(2)]
    for _ in range(opts.calls_before + opts.calls):
        for connection in connections:
            connection.write(connection.read_exactly(opts.message_bytes))
    for connection in connections:
        connection.read(1)
    facts = ends.totals([connection.facts() for connection in connections])
    for connection in connections:
        connection.socket.close()
    return facts


def _exchange(connections, calls, message_bytes):
    for _ in range(calls):
        for connection in connections:
            connection.write(b"q" * message_bytes)
            connection.read_exactly(message_bytes)


def _name(error):
    return "granted" if error is None else errno.errorcode.get(error, str(error))


if __name__ == "__main__":
    parser = ends.options(__doc__)
    parser.add_argument("--calls", type=int, default=100, help="on each connection")
    parser.add_argument("--calls-before", type=int, default=0,
                        help="on each connection, before one asks to be logged")
    parser.add_argument("--message-bytes", type=int, default=500)
    ends.run(parser.parse_args(), client, server)
