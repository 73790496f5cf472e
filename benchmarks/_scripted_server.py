"""A Chat Completions server on loopback that reads each request, keeps nothing of it and gives the next scripted reply.

    python _scripted_server.py COMMANDS.json        prints its base URL, then serves until its stdin ends

COMMANDS.json is a list of bash scripts, one a turn; what is asked after the last one is answered with `submit`.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        size = left = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read(min(left, 1 << 16)))
        turn, command = next(self.server.turns, (-1, None))
        name, arguments = ("submit", {"reason": "done"}) if command is None else ("bash", {"command": command})
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        usage = {"prompt_tokens": size // 4, "completion_tokens": 20}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        body = json.dumps({"model": "scripted", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        """Keep stderr for errors."""


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.turns = enumerate(json.loads(Path(sys.argv[1]).read_text()))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
