"""What is given as a file and is none, or has no bound, is one sentence at once: nothing waits or fills memory."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest
from fakes import Cli

from zoo.errors import UsageError
from zoo.files import parse_yaml

# Every place of a command that takes a file.
LINES = (
    "choose {} --encoders bag-of-words",
    "choose {table} --encoders {}",
    "choose {table} --encoders bag-of-words --prompts {}",
    "adapt {} --encoder {model} --out {out}",
    "adapt {table} --pairs {} --encoder {model} --out {out}",
    "run --methods {} --tasks pocket-words --results {out}",
    "run {} --results {out}",
    "run --methods random --suite {} --results {out}",
    "run --methods simcse --backbone {model} --corpus {} --tasks pocket-words --results {out}",
    "run --methods sbert --backbone {model} --pairs {} --tasks pocket-words --results {out}",
    "run --methods vectors:path={} --tasks pocket-words --results {out}",
    "run --methods glove:path={} --tasks pocket-words --results {out}",
    "run --methods avg-last --backbone {} --tasks pocket-words --results {out}",
    "run --plugin {} --methods random --tasks pocket-words --results {out}",
    "leaderboard --results {}",
    "pretrain tiny --text {} --steps 1 --out {out}",
)


@pytest.fixture
def places(tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "table.tsv"
    table.write_text("".join(f"a dog number {i} runs\ta cat number {i} sleeps\t{i % 5}\n" for i in range(40)))
    return {"table": table, "model": tiny_bert, "out": tmp_path / "out"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", LINES)
def test_what_is_no_file_is_named(line: str, places: dict[str, Path], cli: Cli) -> None:
    os.mkfifo("pipe.yaml")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.csv")
        for given in ("./pipe.yaml", "/dev/zero", "./socket.csv"):
            answer = cli(*line.replace("{}", given).format(**places).split())
            assert answer.code in (1, 2), (given, answer.out, answer.err)
            assert Path(given).name in answer.err and "Traceback" not in answer.err, answer.err


@pytest.mark.parametrize("level", ["[{}]", "{{a: {}}}", "- {}", "[[], [{}]]"])
def test_no_settings_are_nested_without_end(level: str, places: dict[str, Path], cli: Cli) -> None:
    text = "1"
    for _ in range(2000):
        text = level.format(text)
    deep = Path("deep.yaml")
    deep.write_text(text, encoding="utf-8")
    for line in ("run --methods deep.yaml", "run deep.yaml", "run --methods random --suite deep.yaml"):
        answer = cli(*line.split(), "--dry-run")
        assert answer.code == 2 and "deep.yaml" in answer.err and len(answer.err) < 500, answer.err


def test_aliases_that_stand_for_more_than_memory_holds_are_refused() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30))]
    with pytest.raises(UsageError, match="here: nested too deeply, or too large"):
        parse_yaml("\n".join(lines), "here")
    assert parse_yaml("a: &a [1, 2]\nb: [*a, *a]", "here") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}


@pytest.mark.parametrize("sign", [",", "\t", ";"])
def test_a_table_of_very_many_columns_is_refused(sign: str, places: dict[str, Path], cli: Cli) -> None:
    Path("wide.csv").write_text("\n".join([sign.join(["x"] * 100_000)] * 3), encoding="utf-8")
    answer = cli("choose", "wide.csv", "--encoders", "bag-of-words")
    assert answer.code == 2 and "wide.csv: more than 10,000 columns" in answer.err, answer.err


@pytest.mark.parametrize("name", ["num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size"])
def test_a_model_that_its_weights_cannot_be_is_not_built(name: str, places: dict[str, Path], cli: Cli) -> None:
    shutil.copytree(places["model"], "large")
    config = json.loads(Path("large/config.json").read_text(encoding="utf-8"))
    Path("large/config.json").write_text(json.dumps({**config, name: 10**9}), encoding="utf-8")
    answer = cli("run", "--methods", "avg-last", "--backbone", "./large", "--tasks", "pocket-words", "--results", "out")
    assert answer.code != 0 and f"states {name} 1,000,000,000" in answer.err, answer.err
