#!/usr/bin/env python3
"""An HTTP server of Python's own `http.server`, with a handler that sleeps.

Before each response the handler sleeps for `--sleep-ms`; with `--hang` it never responds. The response has a body of
`--body-bytes`, in a write of its own after the headers, as `http.server` does; with `--one-write` headers and body are one
write. With `--chunks N` the response is chunked, with a pause of `--pause-ms` before each chunk. `--http10` closes the
connection after each response.

The line `listening on HOST port PORT` comes on standard error first. SIGTERM ends the server.
"""

import argparse
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TRAILER = b"0\r\n\r\n"


def handler(args):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0" if args.http10 else "HTTP/1.1"
        wbufsize = 1 << 16 if args.one_write else 0

        def do_GET(self):
            if args.hang:
                time.sleep(60)
            time.sleep(args.sleep_ms / 1000)
            self.send_response(200)
            if args.chunks:
                self.stream()
                return
            self.send_header("Content-Length", str(args.body_bytes))
            self.end_headers()
            self.wfile.write(b"x" * args.body_bytes)

        def stream(self):
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for number in range(args.chunks):
                time.sleep(args.pause_ms / 1000)
                event = b"data: token %d\n\n" % number
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.write(TRAILER)

        def log_message(self, *_):
            pass

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sleep-ms", type=float, default=0)
    parser.add_argument("--body-bytes", type=int, default=400)
    parser.add_argument("--chunks", type=int, default=0)
    parser.add_argument("--pause-ms", type=float, default=20)
    parser.add_argument("--hang", action="store_true")
    parser.add_argument("--one-write", action="store_true")
    parser.add_argument("--http10", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = ThreadingHTTPServer((args.host, args.port), handler(args))
    server.daemon_threads = True
    print(f"listening on {args.host} port {args.port}", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
