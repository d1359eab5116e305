"""--json: one document on standard output, whatever goes to standard error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli, make_record

from benchmark.records.folder import Records


def read(cli: Cli, *words: object, code: int = 0) -> Any:
    answer = cli(*words, "--json")
    assert answer.code == code, answer.err
    return json.loads(answer.out)


def test_leaderboard(cli: Cli, tmp_path: Path) -> None:
    """The tables are those of the JSON files, and those are named."""
    Records(tmp_path).write(make_record())
    content = read(cli, "leaderboard", "--results", tmp_path, "--out", tmp_path / "tables")
    written = [Path(path) for path in content["written"]]
    files = [json.loads(path.with_suffix(".json").read_text(encoding="utf-8")) for path in written]
    assert content["tables"] == files != []
    assert content["left_out"] == []


def test_data(cli: Cli, tmp_path: Path) -> None:
    listed = read(cli, "data", "list")
    assert {"name", "form", "found", "licence"} <= set(listed[0])
    assert ("pocket-pairs", "bundled") in {(one["name"], one["found"]) for one in listed}
    verified = read(cli, "data", "verify", "pocket-words", "STS12", code=1)
    assert [(one["name"], one["status"]) for one in verified] == [
        ("pocket-words", "ok"),
        ("STS12", "missing"),
        ("STS12", "missing"),
    ]
    fetched = read(cli, "data", "fetch", "STS12", code=1)
    assert {one["status"] for one in fetched} == {"failed"}
    out = tmp_path / "texts.txt"
    texts = read(cli, "data", "texts", "--suite", "pocket", "--tasks", "pocket-words", "--out", out)
    assert texts["texts"] == len(out.read_text(encoding="utf-8").splitlines())


def test_doctor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmark.cli.doctor.cpu_bf16", lambda: {"bfloat16": False, "isa_cap": None})
    monkeypatch.setattr("benchmark.cli.doctor.choose_precision", lambda wanted, device: "fp32")
    content = read(cli, "doctor")
    assert "torch" in content["packages"] and content["problems"] == []
    assert len(content["backbones"]["zoo-small"]) == 64
    assert {one["name"] for one in content["data"]} >= {"STS12", "pocket-pairs"}


@pytest.mark.slow
def test_tables_of_papers(cli: Cli) -> None:
    (entry,) = read(cli, "reproduce", "burt-figure1", "--list")
    assert (entry["name"], entry["possible"]) == ("burt-figure1", "none") and entry["reason"]
    assert "--json goes with --list" in cli("reproduce", "burt-figure1", "--json").err
