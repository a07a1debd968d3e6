#!/usr/bin/env python3
"""A web server whose pages ask PostgreSQL, with psycopg2.

`/many` asks for 2,000 rows one by one. `/slow` asks one question for which the table has no index. The page is one JSON
object: `queries_ms` is the time of the questions. The line `listening on HOST port PORT` comes on standard error first.
"""

import argparse
import json
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import psycopg2

ROWS = 2_000
SLOW_ROWS = 3_000


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def do_GET(self):
        cursor = self.server.database.cursor()
        begun = time.monotonic()
        if self.path == "/many":
            for row in range(ROWS):
                cursor.execute("select name from items where id = %s", (row,))
                cursor.fetchone()
        else:
            cursor.execute("select count(*) from pairs a join pairs b on a.left_id * 2 <> b.right_id + 1")
            cursor.fetchone()
        took_ms = (time.monotonic() - begun) * 1000
        body = json.dumps({"queries_ms": round(took_ms, 1)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--database", type=int, required=True, help="port of PostgreSQL")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    database = psycopg2.connect(host="127.0.0.1", port=args.database, user="postgres")
    database.autocommit = True
    cursor = database.cursor()
    cursor.execute("create table items (id int primary key, name text)")
    cursor.execute("insert into items select n, 'item ' || n from generate_series(0, %s) n", (ROWS,))
    cursor.execute("create table pairs (left_id int, right_id int)")
    cursor.execute("insert into pairs select n, n from generate_series(1, %s) n", (SLOW_ROWS,))
    server = HTTPServer(("127.0.0.1", args.port), Page)
    server.database = database
    print(f"listening on 127.0.0.1 port {args.port}", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
