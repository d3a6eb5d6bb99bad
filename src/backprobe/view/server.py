"""A server for this machine only: anybody gets the page, but only those with the token get data.

How others are kept out:

- It listens on the loopback interface and answers only to the names of that interface. Requests for any other host
name that resolves here (DNS rebinding) get status 421.
- The token is in the fragment of the address, which browsers do not send, and then in a header of each request. Cookies
would be worse: they ignore ports, so that any other server on this machine would receive them.
- Requests made by other sites get status 403, and no header grants other origins anything.
- It only reads: any method except GET gets status 405. Runs are identified by number, never by path.
- The page may run only its own scripts, which are identified by hash, and may connect only to this server.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from backprobe.errors import BackprobeError
from backprobe.view.answers import Answers, Query
from backprobe.view.export import live_page
from backprobe.view.packing import Packed
from backprobe.view.plain import plain
from backprobe.view.worker import Worker

HOST = "127.0.0.1"
TOKEN = "X-Backprobe-Token"
LOOK, ALIVE = 0.25, 5.0  # seconds between two checks for new steps, and between two signs of life
ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Server(ThreadingHTTPServer):
    """Serves from its creation to ``close``, in its own threads. Raises OSError if the port is taken."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, answers: Answers, port: int = 0) -> None:
        super().__init__((HOST, port), Handler)
        self.answers, self.token, self.closed = answers, secrets.token_urlsafe(24), threading.Event()
        self.page, self.policy = live_page()
        self.workers = Worker("backprobe-view-numbers"), Worker("backprobe-view-alerts")
        self.thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="backprobe-view", daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """The address to open, including the token."""
        return f"http://{HOST}:{self.port}/#token={self.token}"

    def close(self) -> None:
        """Stop answering."""
        if not self.closed.is_set():
            self.closed.set()
            self.shutdown()
            self.server_close()
            for worker in self.workers:
                worker.close()

    def answer(self, question: str, query: Query) -> Packed:
        """The answer to a question. Alerts take longest, so they have a thread of their own and block no other
        question.
        """
        return self.workers[question == "alerts"].answer(self.answers.answer, question, query)  # type: ignore[no-any-return]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of connections, such as that of a page that was closed."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version, server_version, sys_version = "HTTP/1.1", "backprobe", ""
    timeout = 60  # seconds that a connection may be idle

    def parse_request(self) -> bool:
        """Refuse requests that do not come from a page of this server, before their content is read."""
        if not super().parse_request() or self.server.closed.is_set():
            self.close_connection = True  # also closes connections that were open before the server was closed
            return False
        refused = self._refused()
        if refused is not None:
            self.close_connection = True
            self._say(refused[0], [refused[1].encode()], "text/plain; charset=utf-8")
        return refused is None

    def _refused(self) -> tuple[HTTPStatus, str] | None:
        hosts = self.headers.get_all("Host") or []
        if hosts not in ([f"{HOST}:{self.server.port}"], [f"localhost:{self.server.port}"]):
            return HTTPStatus.MISDIRECTED_REQUEST, f"this server is {HOST}:{self.server.port}"
        if self.command != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, "this server only shows"
        url = urlsplit(self.path)
        is_opened = url.path == "/" and self.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
        is_ours = self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        origin = self.headers.get("Origin")
        if not is_opened and not (is_ours and origin in (None, f"http://{hosts[0]}")):
            return HTTPStatus.FORBIDDEN, "another site asks"
        given = self.headers.get(TOKEN, "").encode("latin-1", "replace")
        if url.path != "/" and not hmac.compare_digest(given, self.server.token.encode()):
            return HTTPStatus.FORBIDDEN, "open the address that backprobe view has printed"
        return None

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/":
            policy = {"Content-Security-Policy": f"{self.server.policy}; frame-ancestors 'none'"}
            self._say(HTTPStatus.OK, [self.server.page.encode()], "text/html; charset=utf-8", policy)
        elif url.path == "/events":
            self._events()
        else:
            self._answer(url.path.removeprefix("/answer/"), dict(parse_qsl(url.query)))

    def _answer(self, question: str, query: Query) -> None:
        # If there is no answer, the reason is sent as JSON.
        try:
            found = self.server.answer(question, query)
        except BackprobeError as error:
            self._fail(HTTPStatus.CONFLICT, error.headline, error.found)
        except OSError as error:
            self._fail(HTTPStatus.CONFLICT, "the run cannot be read", str(error))
        except (LookupError, ValueError, TypeError) as error:
            self._fail(HTTPStatus.BAD_REQUEST, "this is no question", f"{type(error).__name__}: {error}")
        else:
            self._say(HTTPStatus.OK, found, "application/octet-stream")

    def _fail(self, status: HTTPStatus, headline: str, found: str) -> None:
        self._say(status, [json.dumps({"error": headline, "found": found}).encode()], "application/json")

    def _say(self, status: HTTPStatus, body: Packed, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(sum(map(len, body))), **ALWAYS, **(more or {})}
        for key, value in headers.items():
            self.send_header(key, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        for part in body:
            self.wfile.write(part)

    def _events(self) -> None:
        # Server-sent events: a summary of all runs and other items, whenever one of them has changed.
        self.send_response(HTTPStatus.OK)
        for key, value in {"Content-Type": "text/event-stream", "Connection": "close", **ALWAYS}.items():
            self.send_header(key, value)
        self.end_headers()
        last: Any = None
        said = 0.0
        while not self.server.closed.wait(LOOK if last is not None else 0):
            runs, others = self.server.answers.brief(), self.server.answers.beside()
            known = [{key: value for key, value in one.items() if key != "now"} for one in runs], others
            if known != last or time.monotonic() - said > ALIVE:
                told = json.dumps(plain({"runs": runs, "others": others}))
                self.wfile.write(f"data: {told}\n\n".encode())
                self.wfile.flush()
                last, said = known, time.monotonic()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing for a request."""
