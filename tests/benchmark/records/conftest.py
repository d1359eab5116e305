"""A results folder with records of every kind, once per module, and a copy for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pack_fakes import fill


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pack") / "loose"
    fill(folder)
    return folder


@pytest.fixture
def results(loose: Path, tmp_path: Path) -> Path:
    return shutil.copytree(loose, tmp_path / "results")
