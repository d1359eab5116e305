"""Pages as a reader follows them: what they need stands first, and their commands run one after the other."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import Cli

from benchmark.cli.main import PAPERS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FOLLOWED = (
    "tutorials/publish.md",
    "tutorials/choose.md",
    "tutorials/teach.md",
    "how-to/search.md",
    "how-to/from-paper-to-plugin.md",
    "how-to/add-a-method.md",
    "how-to/add-a-task.md",
)
_BLOCK = re.compile(r"^```(?:(sh)|\w+ title=\"(.+?)\")\n(.*?)^```$", re.M | re.S)


def test_a_page_with_commands_of_the_papers_says_so_first() -> None:
    """In its first paragraph; a page that only mentions one, says it there."""
    late = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if re.search(rf"zoo-bench ({'|'.join(PAPERS)})\b", text):
            mentions = page.name in ("index.md", "page.md")
            start = text if mentions else "\n\n".join(text.split("\n\n")[:2])
            late += [] if "./papers" in start else [page.relative_to(DOCS).as_posix()]
    assert late == []


def test_tutorials_name_nothing_that_a_clone_alone_has() -> None:
    for page in [*(DOCS / "tutorials").glob("*.md"), *(DOCS / "how-to").glob("*.md")]:
        commands = "\n".join(text for shell, _, text in _BLOCK.findall(page.read_text(encoding="utf-8")) if shell)
        assert not re.search(r"zoo-mini|\bsmoke\b", commands), page


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLLOWED)
def test_the_commands_of_a_page_run(name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with the files that the page writes; where a floor is set, 1 says that it is not met."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZOO_BENCH_BACKBONE", raising=False)  # the tests' own is smaller than a reader's
    for shell, title, text in _BLOCK.findall((DOCS / name).read_text(encoding="utf-8")):
        if not shell:
            (tmp_path / title).write_text(text, encoding="utf-8")
            continue
        for line in text.splitlines():
            program, *words = shlex.split(line, comments=True)
            if program == "zoo-bench":
                answer = cli(*words)
                assert answer.code == 0 or (answer.code == 1 and "--floor" in words), (line, answer.err[-2000:])
            else:
                subprocess.run([sys.executable, *words], check=True, cwd=tmp_path)
