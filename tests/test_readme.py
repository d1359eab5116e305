"""What is published is what the records make: whole files of every leaderboard, and the README's table of one."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fakes import Cli

from benchmark.report.leaderboard import make_leaderboard
from zoo_bench_papers.ledger import ledger, markdown
from zoo_bench_papers.verdicts import verdicts

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path.parent for path in ROOT.glob("leaderboards/*/records.parquet"))
REMADE = (".json", ".tex", ".html")  # may be left out of the repository: `zoo-bench leaderboard` makes them
NOT_TABLES = {"README.md", "pretraining.json", "overlap.json"}


def comparable(name: str, text: str) -> Any:
    """Return what of a file must be equal: of the page its data (the rest is the templates), else the whole text."""
    if name == "claims.json":
        return [json.dumps(claim) for condition in json.loads(text) for claim in condition["claims"]]
    if name != "index.html":
        return text.splitlines()
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script', text, re.DOTALL)
    return json.dumps(json.loads(block), indent=1).splitlines()


def differences(folder: Path, files: dict[str, str], left_out: tuple[str, ...] = ()) -> list[str]:
    """Return how the files of a published folder differ from those that its records make; some kinds may be absent."""
    texts = []
    for name, text in files.items():
        path = folder / name
        if not path.is_file():
            if path.suffix in left_out:
                continue
            texts.append(f"{name} is missing")
            continue
        written, shipped = comparable(name, text), comparable(name, path.read_text(encoding="utf-8"))
        for number, (ours, theirs) in enumerate(zip(written, shipped, strict=False), 1):
            if ours != theirs:
                texts.append(f"{name}:{number}: {theirs[:120]!r} is published, the records give {ours[:120]!r}")
                break
        else:
            if len(written) != len(shipped):
                texts.append(f"{name}: {len(shipped)} lines are published, the records give {len(written)}")
    tables = {path.name for kind in ("md", "csv", "json", "tex", "html") for path in folder.glob(f"*.{kind}")}
    return texts + [f"{name} is made of no record" for name in sorted(tables - set(files) - NOT_TABLES)]


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len(re.sub("<!--.*?-->", "", README).split()) <= 700


def test_the_readmes_answers_are_what_the_commands_print(cli: Cli, tmp_path: Path) -> None:
    """`compare` and `claims` on the published records: lines in their order, and "..." wherever some are left out."""
    copied = tmp_path / "zoo-small"
    shutil.copytree(ROOT / "leaderboards/zoo-small", copied)
    blocks = re.findall(r"^\$ zoo-bench ((?:compare|claims) .+)\n((?:.+\n)+)```", README, re.MULTILINE)
    assert len(blocks) == 2
    for command, shown in blocks:
        answer = cli(*shlex.split(command.replace("leaderboards/zoo-small", str(copied))))
        assert answer.code == 0
        lines = [" ".join(line.split()) for line in answer.out.splitlines()]
        # A title and a rule are no lines of the answer.
        printed = iter([line for line in lines if line.strip("─")][command.startswith("compare") :])
        cut = False
        for line in [" ".join(line.split()) for line in shown.splitlines()]:
            if line != "...":
                skipped = list(itertools.takewhile(lambda other, line=line: not other.startswith(line), printed))
                assert bool(skipped) == cut, (line, skipped)
            cut = line == "..."
        assert bool(list(printed)) == cut


def test_the_readmes_method_runs(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n# lead.py\n(.*?)```", README, re.DOTALL)
    (tmp_path / "lead.py").write_text(code, encoding="utf-8")
    (command,) = re.findall(r"`zoo-bench (run --plugin lead.py .*?)`", README)
    monkeypatch.chdir(tmp_path)
    answer = cli(*shlex.split(command), "--tasks", "pocket-words")
    assert answer.code == 0 and re.search(r"^\S*\s+lead ", answer.out, re.MULTILINE)
    # What the sentence behind the command says.
    plugin = ("--plugin", "lead.py")
    for words in (
        ("compare", "lead", "avg-last"),
        ("verify", "zoo-bench-results"),
        ("leaderboard",),
        ("doctor", "lead"),
    ):
        answer = cli(*words, *(() if words[0] == "compare" else plugin))
        assert answer.code == 0, answer.err
    assert "learned nothing" in cli("export", "lead", "exported", *plugin).err


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "leaderboards/README.md", "leaderboards/zoo-small/README.md"]
)
def test_links_of_pages_outside_the_handbook_lead_to_files(page: str) -> None:
    """The handbook's own links are tested by its build."""
    path = ROOT / page
    links = re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    there = [link for link in links if "://" not in link]
    assert [link for link in there if not (path.parent / link).exists()] == []


def cases() -> list[Any]:
    """One case per folder; the full run, whose marks take minutes, is a slow one."""
    return [
        pytest.param(folder, id=folder.name, marks=[pytest.mark.slow] if folder.name == "zoo-mini" else [])
        for folder in FOLDERS
    ]


@pytest.mark.slow
@pytest.mark.parametrize("folder", cases())
def test_published_files_are_those_of_the_records(folder: Path) -> None:
    """Every file of a folder, whole: Markdown, CSV, the page's data (JSON and LaTeX if there); and no table beside."""
    board = make_leaderboard(folder)
    files = dict(board.files)
    if (folder / "claims.md").is_file():
        reached = verdicts(folder, board.store, board.records)
        files["claims.md"] = markdown(reached).replace(str(folder), f"leaderboards/{folder.name}")
        files["claims.json"] = json.dumps(ledger(reached))
    assert board.corrupt == []
    assert differences(folder, files, REMADE) == []


def test_the_leaderboards_stay_small() -> None:
    """What a clone brings: at most 210 files and 66 MB, without what a command makes again or a run leaves there."""
    files = tracked("leaderboards")
    assert len(files) <= 210
    assert sum(path.stat().st_size for path in files) <= 66_000_000


def tracked(folder: str) -> list[Path]:
    asked = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        pytest.skip("not a git repository")
    return [ROOT / name for name in asked.stdout.split("\0") if name]
