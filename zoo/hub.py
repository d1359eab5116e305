"""Asking the hub: a server that is busy is asked again, politely; what is wrong for good is told at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_BUSY = frozenset({429, 500, 502, 503, 504})
_WAITS = (1.0, 4.0, 15.0)  # seconds before the second, third and last time
_LONGEST = 60.0  # seconds that a server may ask us to wait; what asks for more is given up


def patiently(ask: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
    """Return what `ask` returns; it is called up to four times while the server is busy (429, 5xx).

    A server's Retry-After counts where it is longer. Raises what the last call raised.
    """
    for wait in _WAITS:
        try:
            return ask()
        except Exception as error:  # only what has a busy server's answer is tried again
            response: Any = getattr(error, "response", None)
            if getattr(response, "status_code", None) not in _BUSY:
                raise
            wanted = _seconds(getattr(response, "headers", {}).get("retry-after"))
            if wanted > _LONGEST:
                raise
            sleep(max(wait, wanted))
    return ask()


def _seconds(text: Any) -> float:
    try:
        return max(float(text), 0.0)
    except (TypeError, ValueError):  # absent, or a date
        return 0.0
