"""The cache folder of a user without a home."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from zoo.paths import cache_folder


def test_a_user_without_home_and_passwd_line_has_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As with `docker run --user 12345`."""

    def nobody(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("HOME", "XDG_CACHE_HOME", "ZOO_BENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cache_folder() == tmp_path / f"zoo-bench-{os.getuid()}"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder().is_relative_to(tmp_path / "home")
