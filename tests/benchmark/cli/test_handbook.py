"""The handbook: what its pages tell a reader to type is typed here, and they name what there is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from fakes import Cli

from benchmark.cli.main import main_group
from zoo.plugins import METHODS
from zoo.recipes import all_recipes, papers_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
BLOCK = re.compile(r'^```(\w+)(?: title="(.+?)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)


def commands(page: Path, folder: Path) -> Iterator[str]:
    """Yield the command lines of a page in their order; a file that it shows before one is written into the folder."""
    for language, title, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            (folder / title).write_text(body, encoding="utf-8")
        elif language == "sh":
            yield from (line for line in body.splitlines() if line and not line.startswith("#"))


def found_in_pages(pattern: str) -> list[str]:
    """Return the comma-separated names that a pattern finds in the methods' pages."""
    texts = (path.read_text(encoding="utf-8") for path in (DOCS / "methods").glob("*.md"))
    return [name for text in texts for names in re.findall(pattern, text) for name in names.split(", ")]


@pytest.mark.parametrize("kind", ["method", "task"])
def test_a_page_has_the_commands_that_new_prints(
    kind: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """test_new.py runs them; the page goes on with examples of its own."""
    monkeypatch.chdir(tmp_path)
    first, *others = commands(DOCS / f"how-to/add-a-{kind}.md", tmp_path)
    assert first == f"zoo-bench new {kind} my-{kind}"
    printed = re.findall(r"^  (zoo-bench .+)$", cli(*shlex.split(first)[1:]).out, re.MULTILINE)
    assert printed and others[: len(printed)] == printed


def test_commands_on_pages_have_options_that_exist() -> None:
    context, unknown = click.Context(main_group), []
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        blocks = "\n".join(re.findall(r"^```.*?^```", text, re.DOTALL | re.MULTILINE))
        lines = re.findall(r"`zoo-bench ([a-z][a-z-]+)([^`\n|#]*)", text)
        for name, rest in lines + re.findall(r"^(?:srun )?zoo-bench ([a-z][a-z-]+)([^\n#]*)", blocks, re.MULTILINE):
            group = main_group.get_command(context, name)  # raises for a command that is not there
            inner = group.commands.values() if isinstance(group, click.Group) else []
            options = [option for one in (group, *inner) if one is not None for option in one.params]
            known = {spelt for option in options for spelt in (*option.opts, *option.secondary_opts)}
            unknown += [f"{page}: {name} {one}" for one in re.findall(r"(?<!\S)--[a-z0-9-]+", rest) if one not in known]
    assert not unknown


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the handbook in strict mode, which counts its warnings; so none may be muted."""
    pytest.importorskip("mkdocs", reason="pip install 'zoo-bench[docs]'")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(config),
        "--site-dir",
        str(site),
    ]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_site_is_built_without_a_broken_link(tmp_path: Path) -> None:
    """A missing link, anchor or page of the menu would be an error; each method's page says what its card says."""
    done = build(ROOT / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Sentinel" not in (tmp_path / "site/reference/commands/index.html").read_text(encoding="utf-8")
    recipes = all_recipes()
    for spec in recipes.values():
        if METHODS.is_builtin(spec.method):
            card = METHODS.card(spec.method)
            page = (tmp_path / "site" / "methods" / (card.page or spec.method) / "index.html").read_text(
                encoding="utf-8"
            )
            assert f"<td><code>{spec.name}</code></td>" in page and f"(family {card.family}, version" in page
            assert all(paper.url in page and paper.title in page for paper in papers_of(spec, recipes)[:1]), spec.name
    simcse = (tmp_path / "site" / "methods" / "simcse" / "index.html").read_text(encoding="utf-8")
    assert "temperature" in simcse
    assert simcse.index("Paper against code") < simcse.index("How to cite")


def test_recipes_that_pages_name_exist() -> None:
    """`simcse-crop` and the like."""
    recipes = set(all_recipes())
    families = {name.partition("-")[0] for name in recipes}
    named = {name for name in found_in_pages(r"`([a-z]+-[a-z0-9-]+)`") if name.partition("-")[0] in families}
    assert named <= recipes
