"""Stands between a client and an S3 server, and does what a network, or a server in trouble, does.

It passes each request on, or answers it by itself with a status, or lets it hang, or cuts its answer off. What it does
with the next ones is a list; when that is empty, it passes on.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG, DROP, CUT, ACT_AND_DROP = "hang", "drop", "cut", "act and drop"
"""Never answer; close the connection; send half of the body and close; have it done, and close without an answer."""


class Proxy:
    """See the module. `next` says what is done with the next requests, in order; `always` with all, if it is set."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.next: deque[int | str] = deque()
        self.always: int | str | None = None
        self.only = ""
        """The method that it does something with; empty is all."""
        self.delay = 0.0
        """Seconds before each answer."""
        self.seen: list[tuple[str, dict[str, str]]] = []
        """Method and headers of each request."""
        self.hanging = threading.Event()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def choose(self, method: str) -> int | str | None:
        if self.only and method != self.only:
            return None
        return self.next.popleft() if self.next else self.always

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True

            def serve(self) -> None:
                proxy.handle(self)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = serve  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.hanging.set()
            self._server.shutdown()
            self._server.server_close()

    def handle(self, ask: BaseHTTPRequestHandler) -> None:
        body = ask.rfile.read(int(ask.headers.get("Content-Length") or 0))
        self.seen.append((ask.command, dict(ask.headers)))
        what = self.choose(ask.command)
        time.sleep(self.delay)
        if what == HANG:
            self.hanging.wait(60)
        if what in (HANG, DROP):
            ask.close_connection = True
            return
        if isinstance(what, int):
            self._send(ask, what, {}, b"")
            return
        status, headers, data = self._pass_on(ask, body)
        if what == ACT_AND_DROP:
            ask.close_connection = True
        elif what == CUT:
            self._send(ask, status, headers, data, cut=len(data) // 2)
            ask.close_connection = True
        else:
            self._send(ask, status, headers, data)

    def _pass_on(self, ask: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=30)
        try:
            connection.request(ask.command, ask.path, body, dict(ask.headers))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        except OSError:
            return 502, {}, b""
        finally:
            connection.close()

    def _send(
        self, ask: BaseHTTPRequestHandler, status: int, headers: dict[str, str], data: bytes, cut: int | None = None
    ) -> None:
        ask.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                ask.send_header(name, value)
        length = headers.get("Content-Length", str(len(data))) if ask.command == "HEAD" else str(len(data))
        ask.send_header("Content-Length", length)
        ask.end_headers()
        if ask.command != "HEAD":
            ask.wfile.write(data if cut is None else data[:cut])
