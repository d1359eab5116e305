"""Fixtures for the benchmark: the command line in this process, registries that are put back, fake methods."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from fakes import FAKES, FITTED, Answer, Cli


@pytest.fixture
def clean_registries() -> Iterator[None]:
    """Put the tables of methods and tasks back as they were."""
    from benchmark.tasks import TASKS
    from zoo.plugins import METHODS

    every = (METHODS, TASKS)
    before = [(r, dict(r._entries), dict(r._broken)) for r in every if r.names()]
    try:
        yield
    finally:
        for registry, entries, broken in before:
            registry._entries, registry._broken = entries, broken


@pytest.fixture
def cli(clean_registries: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Call zoo-bench in this process: cli("run", "--methods", "cls") -> code, out, err."""
    from benchmark.cli.main import main

    def call(*arguments: object) -> Answer:
        words = [str(argument) for argument in arguments]
        monkeypatch.setattr(sys, "argv", ["zoo-bench", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main(words)
        captured = capsys.readouterr()
        assert isinstance(leaving.value.code, int)
        return Answer(leaving.value.code, captured.out, captured.err)

    return call


@pytest.fixture
def fakes(clean_registries: None) -> None:
    """Register the fake methods under their names."""
    from zoo.plugins import METHODS

    FITTED.clear()
    for name, cls in FAKES.items():
        METHODS.register(name)(cls)
