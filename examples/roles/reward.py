"""A server that tells how good a number is, and keeps the number that the trainer found."""

import http.server
import json
import sys
from urllib.parse import parse_qs, urlsplit

GOAL = 3.0
kept = {}


class Reward(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        parts = urlsplit(self.path)
        if parts.path == "/health":
            self.answer(200, "ok")
        elif parts.path == "/reward":
            x = float(parse_qs(parts.query)["x"][0])
            self.answer(200, {"reward": -((x - GOAL) ** 2), "slope": -2 * (x - GOAL)})
        elif parts.path == "/weights" and "x" in kept:
            self.answer(200, kept)
        else:
            self.answer(404, "nothing here yet")

    def do_PUT(self):
        kept.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(200, "kept")

    def answer(self, code, value):
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


print("listening", flush=True)
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Reward).serve_forever()
