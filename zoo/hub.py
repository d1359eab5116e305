"""The Hugging Face hub: requests that are repeated only while the server is busy, and uploads."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from zoo.errors import ZooError

T = TypeVar("T")

_BUSY = frozenset({429, 500, 502, 503, 504})
_WAITS = (1.0, 4.0, 15.0)  # seconds before the second, third and fourth call
_LONGEST = 60.0  # seconds; if a server asks us to wait longer, we give up


def patiently(ask: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
    """Return what `ask` returns; it is called up to four times while the server is busy (429, 5xx).

    The wait is the server's Retry-After where that is longer. Raises what the last call raised.
    """
    for wait in _WAITS:
        try:
            return ask()
        except Exception as error:  # repeated only if the error holds a busy server's response
            response: object = getattr(error, "response", None)
            if getattr(response, "status_code", None) not in _BUSY:
                raise
            wanted = _seconds(getattr(response, "headers", {}).get("retry-after"))
            if wanted > _LONGEST:
                raise
            sleep(max(wait, wanted))
    return ask()


def _seconds(text: str | None) -> float:
    try:
        return max(float(text or 0), 0.0)
    except ValueError:  # Retry-After may also be a date
        return 0.0


def push_folder(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload a model's folder to the repository OWNER/NAME, created if needed; returns the commit's URL.

    Raises ZooError if the hub cannot be reached or refuses the upload; the folder is not changed.
    """
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        message = f"Upload {folder.resolve().name}, made by zoo-bench"
        commit = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
    except Exception as error:  # the hub's client raises many kinds; each means that nothing was published
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ZooError(
            f"{folder} was not pushed to {repository}: {reason}. It lies there complete; log in with `hf auth login`,"
            f" then `hf upload {repository} {folder}`."
        ) from error
    return str(commit.commit_url)
