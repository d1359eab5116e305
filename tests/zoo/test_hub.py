"""A busy hub is asked again, at most three times; anything else is told at once."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from zoo.hub import patiently


class Busy(BaseHTTPRequestHandler):
    """Answers with the statuses of the list, one after the other."""

    answers: list[int]
    retry_after = ""

    def do_GET(self) -> None:
        self.send_response(type(self).answers.pop(0))
        if self.retry_after:
            self.send_header("Retry-After", self.retry_after)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def ask(answers: list[int], retry_after: str = "") -> tuple[int | None, list[float], int]:
    """Return the last status (None: it raised), the waits, and how many answers were not asked for."""
    handler = type("Handler", (Busy,), {"answers": answers, "retry_after": retry_after})
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    waits: list[float] = []

    def once() -> int:
        answer = httpx.get(f"http://127.0.0.1:{server.server_port}/")
        answer.raise_for_status()
        return answer.status_code

    try:
        return patiently(once, waits.append), waits, len(answers)
    except httpx.HTTPStatusError:
        return None, waits, len(answers)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("busy", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(busy: int) -> None:
    assert ask([busy, busy, 200]) == (200, [1.0, 4.0], 0)


def test_after_four_times_it_is_told() -> None:
    assert ask([503] * 6) == (None, [1.0, 4.0, 15.0], 2)


@pytest.mark.parametrize("final", [401, 403, 404, 410])
def test_what_is_wrong_for_good_is_told_at_once(final: int) -> None:
    assert ask([final, 200]) == (None, [], 1)


def test_the_servers_own_wait_counts() -> None:
    assert ask([429, 200], "7") == (200, [7.0], 0)
    assert ask([429, 200], "Wed, 21 Oct 2026 07:28:00 GMT") == (200, [1.0], 0)
    assert ask([429, 200], "86400") == (None, [], 1)


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError):
        patiently(lambda: 1 // 0)
