"""What the handbook has beside Markdown: links out of docs/, listings, and what is made of cards, suites and tasks."""

from __future__ import annotations

import csv
import dataclasses
import json
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")
_MADE = re.compile(r"^<!-- (program|suites|tasks|boards)(?:: (.+?))? -->$", re.M)
_FENCE = re.compile(r"^```(sh|csv|python)(?: title=\"(.+?)\")?\n(.*?)^```\n", re.M | re.S)
_log = logging.getLogger("mkdocs.hooks.handbook")


def on_config(config: Any) -> None:
    """Add the pages of the methods to the menu."""
    menu = next(part["Methods"] for part in config.nav if "Methods" in part)
    menu += [f"methods/{page}.md" for page in _pages()]


def on_files(files: Any, config: Any) -> None:
    """Add a page for each method that has none, with what the page of every method ends with, and the live tables."""
    from mkdocs.structure.files import File

    from zoo.plugins import METHODS

    for page in _pages():
        if files.get_file_from_path(path := f"methods/{page}.md") is None:
            files.append(File.generated(config, path, content=f"# {METHODS.card(page).paper or page}\n"))
    for folder in _boards():
        files.append(File.generated(config, f"boards/{folder.name}/index.html", content=_live(folder)))
    for tutorial in (ROOT / "docs" / "tutorials").glob("*.md"):
        cells = notebook(tutorial.read_text(encoding="utf-8"))
        files.append(File.generated(config, f"notebooks/{tutorial.stem}.ipynb", content=json.dumps(cells)))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page's Markdown with what is generated, and with links to files outside docs/ as their paths."""
    folder = (ROOT / "docs" / page.file.src_uri).parent
    markdown = _MADE.sub(lambda match: _MAKERS[match[1]](match[2]), markdown)
    if folder.name == "tutorials":
        title, rest = markdown.split("\n", 1)
        markdown = f"{title}\n\n[This page as a notebook](../notebooks/{Path(page.file.src_uri).stem}.ipynb)\n{rest}"
    if folder.name == "methods":
        markdown += "\n" + _of_cards(_pages()[Path(page.file.src_uri).stem])
    return _LINK.sub(lambda match: _outside(match, folder, page.file.src_uri), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Return a page without click's mark of an option that has no default."""
    # A spread stands on one line, however narrow its column.
    return html.replace("<code>Sentinel.UNSET</code>", "").replace("± ", "±\N{NO-BREAK SPACE}")


def notebook(markdown: str) -> dict[str, Any]:
    """Return a tutorial as a Jupyter notebook: its commands and files are cells to run, the rest is text."""
    cells: list[dict[str, Any]] = []

    def add(kind: str, source: str, **more: Any) -> None:
        if source.strip():
            cells.append({"cell_type": kind, "id": str(len(cells)), "metadata": {}, "source": source.strip(), **more})

    # Text, then the language, the file's name and the lines of each block.
    text, *blocks = _FENCE.split(re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", markdown))
    add("markdown", text)
    for language, title, lines, text in zip(*(iter(blocks),) * 4, strict=True):
        before = f"%%writefile {title}\n" if title else ""
        source = re.sub(r"^(?=\S)", "!", lines, flags=re.M) if language == "sh" else before + lines
        add("code", source, outputs=[], execution_count=None)
        add("markdown", text)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def on_post_page(output: str, **_: Any) -> str:
    """Return a page whose search has a name, which the theme leaves out."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def _outside(match: re.Match[str], folder: Path, page: str) -> str:
    """Return a link as it is inside docs/; text and path for a file elsewhere in the project, which no site has."""
    target = (folder / match[3]).resolve()
    if target.is_relative_to(ROOT / "docs"):
        return match[0]
    if not target.exists():
        _log.warning("Doc file '%s' contains a link '%s', but there is no such file in the project.", page, match[3])
    path = target.relative_to(ROOT).as_posix()
    return f"`{path}`" if match[2].strip("`/") in (path, target.name) else f"{match[2]} (`{path}`)"


def _table(header: list[str], rows: Iterable[Iterable[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _pages() -> dict[str, list[str]]:
    """Return the pages of the built-in methods, each with its methods, in the order of the families."""
    from zoo.plugins import FAMILIES, METHODS

    builtin = [name for name in METHODS.names() if METHODS.is_builtin(name)]
    pages: dict[str, list[str]] = {}
    for name in sorted(builtin, key=lambda name: list(FAMILIES).index(METHODS.card(name).family)):
        pages.setdefault(METHODS.card(name).page or name, []).append(name)
    return pages


def _of_cards(methods: list[str]) -> str:
    """Return the end of a page: the cards of its methods, their recipes and settings, and the papers to cite."""
    from benchmark.cli.methods import notes
    from zoo.plugins import METHODS
    from zoo.recipes import all_recipes, papers_of

    recipes = all_recipes()
    parts = ["## Recipes"]
    settings, papers = ["## Settings"], []
    for name in methods:
        specs = [spec for spec in recipes.values() if spec.method == name]
        card = METHODS.card(name)
        parts.append(f"`{name}` (family {card.family}, version {METHODS.get(name).version}): {METHODS.summary(name)}")
        parts.append(_table(["Recipe", "What it is", "Source"], ([f"`{s.name}`", s.summary, s.paper] for s in specs)))
        parts += [f"`{one}`\n:   {text}" for spec in specs for one, text in notes(spec) if one == spec.name]
        parts += [_differences(spec.name, f"{spec.name}-repo") for spec in specs if f"{spec.name}-repo" in recipes]
        first = recipes.get(name) or next(spec for spec in specs if not spec.extends)
        settings.append(_settings(first.name))
        papers += [paper for spec in specs for paper in papers_of(spec, recipes)[:1]]
    cited = [
        f"- {paper.authors}. [*{paper.title}.*]({paper.url}) {f'{paper.venue} ' if paper.venue else ''}{paper.year}."
        for paper in dict.fromkeys(papers)
    ]
    return "\n\n".join([*parts, *settings, *(["## How to cite", "\n".join(cited)] if cited else [])])


def _differences(paper: str, code: str) -> str:
    """Return a table of the settings in which the recipes of a paper and of its code differ; "" without any."""
    from zoo.recipes import all_recipes

    (_, stated), (_, released) = (all_recipes()[name].resolve() for name in (paper, code))
    if type(stated) is not type(released):
        return ""
    pairs = {f.name: (getattr(stated, f.name), getattr(released, f.name)) for f in dataclasses.fields(stated)}
    rows = [[f"`{name}`", f"`{a!r}`", f"`{b!r}`"] for name, (a, b) in pairs.items() if a != b]
    return _table(["Setting", f"`{paper}`", f"`{code}`"], rows) if rows else ""


def _settings(name: str) -> str:
    """Return a table of a recipe's settings: what it resolves to, and where that is stated."""
    from benchmark.cli.methods import reasons
    from zoo.recipes import all_recipes

    spec = all_recipes()[name]
    _, recipe = spec.resolve()
    why = reasons(type(recipe))
    rows = []
    for field in dataclasses.fields(recipe):
        stated = spec.stated_by.get(field.name, "default")
        rows.append([f"`{field.name}`", f"`{getattr(recipe, field.name)!r}`", stated, why.get(field.name, "")])
    table = _table(["Setting", "Value", "Stated by", "Reason"], rows)
    return f"Those of `{name}`, as `zoo-bench methods {name} --show` prints them:\n\n{table}"


def _suites(_: str | None) -> str:
    """Return a table of the suites."""
    from benchmark.tasks.suites import all_suites

    rows = [[f"`{s.name}`", s.title, ", ".join(s.tasks), s.dev or "", s.seeds] for s in all_suites().values()]
    return _table(["Suite", "Title", "Tasks", "Development set", "Seeds"], rows)


def _tasks(_: str | None) -> str:
    """Return a table of the tasks."""
    from benchmark.tasks import TASKS

    rows = [[f"`{name}`", task.title, task.dataset] for name, task in TASKS.load_all() if task is not None]
    return _table(["Task", "Title", "Data set"], rows)


def _live_tables(_: str | None) -> str:
    """Return links to the live tables, and the first rows of the first one."""
    first = ROOT / "leaderboards" / "zoo-small"
    with (first / "sts.csv").open(encoding="utf-8", newline="") as file:
        best = list(csv.DictReader(file))[:8]
    spread = [f" ± {float(row['Avg sd']):.2f}" if row["Avg sd"] else "" for row in best]
    rows = [
        [row["mark"] + row["rank"], row["method"], f"{float(row['Avg']):.2f}{sd}", row["group"]]
        for row, sd in zip(best, spread, strict=True)
    ]
    links = " · ".join(f"[{folder.name}](boards/{folder.name}/index.html)" for folder in _boards())
    top = _table(["#", "Row", "STS average", "Group"], rows)
    above = f"The first rows of {first.name}; ± is the standard deviation over seeds, ≈ tied for the best, ? undecided:"
    return f"**Live tables**, with filters, costs and claims: {links}\n\n{above}\n\n{top}"


def _boards() -> list[Path]:
    """Return the published results folders, the largest backbone's first."""
    return sorted((path.parent for path in ROOT.glob("leaderboards/*/records.parquet")), reverse=True)


def _live(folder: Path) -> str:
    """Return the page of a results folder, made now where the folder has none or records are younger."""
    page = folder / "index.html"
    if page.is_file() and page.stat().st_mtime >= (folder / "records.parquet").stat().st_mtime:
        text = page.read_text(encoding="utf-8")
    else:
        from benchmark.report.leaderboard import make_leaderboard

        text = make_leaderboard(folder).files[page.name]
    # In a clone the methods' pages are Markdown beside the tables; on the site they are folders.
    return text.replace('"handbook":"../../docs/methods"', '"handbook":"../../methods","ending":"/"')


def _program(file: str) -> str:
    """Return a program of docs/ whole, as a listing."""
    return f"```python\n{(ROOT / 'docs' / file).read_text(encoding='utf-8')}```"


_MAKERS = {"program": _program, "suites": _suites, "tasks": _tasks, "boards": _live_tables}
