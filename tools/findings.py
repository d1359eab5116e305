"""What pages say of records, made from them: `python -m tools.findings` writes every part between marks again.

A part stands between `<!-- made: NAME -->` and `<!-- end -->`, and the rest is prose. Tables of verdicts are from
claims.json of the measured folders, which `zoo-bench claims --results FOLDER` writes first; `tools.figures` has the
differences and means.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmark.report.markdown import markdown_row
from benchmark.tasks.suites import all_suites
from tools import curve, figures, printed
from zoo.files import read_json, write_text
from zoo.recipes import all_recipes
from zoo_bench_papers.answers import DECIDED, NOT_MEASURED, UNDECIDED, WORDS

ROOT = Path(__file__).parents[1]
BACKBONES = ("zoo-small", "zoo-mini")
TUNED = "zoo-small-tuned"

Entry = Mapping[str, Any]


@functools.cache
def conditions(folder: str) -> list[dict[str, Any]]:
    """Return the conditions of a folder, each with its claims."""
    claims: list[dict[str, Any]] = read_json(ROOT / "leaderboards" / folder / "claims.json")
    return claims


def papers(folder: str) -> list[Entry]:
    """Return the verdicts with the papers' settings."""
    return list(conditions(folder)[0]["claims"])


def tuned() -> list[Entry]:
    """Return the verdicts of tuned rows, of all development sets."""
    return [entry for at in conditions(TUNED)[1:] for entry in at["claims"]]


def cell(entries: Iterable[Entry]) -> str:
    """Return the verdict with its figures: of one comparison its interval, of several on how many."""
    return "; ".join(map(_text, entries)) or NOT_MEASURED


def _text(entry: Entry) -> str:
    points = entry.get("points") or []
    head: str = entry["text"].split("; ")[0] if points else entry.get("head", entry["verdict"])
    if len(points) > 1 and " comparisons" not in head:
        head += f" on all {len(points)} comparisons"
    figures = "" if points or entry["verdict"] not in (*DECIDED, UNDECIDED) else entry["ours"]
    more = []
    if len(points) == 1:
        (point,) = points
        figures = curve.interval(point["difference"], point["low"], point["high"])
        more += [] if point["printed"] is None else [f"printed {point['printed']:+.2f}"]
    if points and entry["corrected"][0] != entry["verdict"]:
        more.append(f"{entry['corrected'][0]} after correction")
    if points and entry.get("margin"):
        more.append(f"by a margin of {entry['margin']:g}")
    if entry.get("share") is not None:
        more.append(f"{100 * entry['share']:.2g} % of the updates")
    if entry.get("open"):
        more.append(f"open points: {sum(entry['open'].values())}")
    shown = f"**{head}**" if entry["verdict"] in (*DECIDED, UNDECIDED) else head
    return ": ".join(filter(None, [shown, ", ".join([*filter(None, [figures]), *more])]))


def _key(entry: Entry) -> tuple[str, str]:
    return entry["id"], entry["procedure"]


def table(columns: Mapping[str, Sequence[Entry]], words: Sequence[str], first: Sequence[str] = ()) -> str:
    """Return a line for each claim with a verdict of `words` in a column (of `first` if given); none if it is decided.

    The last holds for the table of undecided claims alone.
    """
    by = {name: _by(entries) for name, entries in columns.items()}
    keys = dict.fromkeys(key for of in by.values() for key in of)
    lines = [["Claim", *columns], [":--"] * (len(columns) + 1)]
    for key in keys:
        known = [entry for name in first or by for entry in by[name].get(key, ())]
        reached = {entry["verdict"] for entry in known}
        if not reached & {*words} or (words == (UNDECIDED,) and reached & {*DECIDED}):
            continue
        entry = next(entries[0] for of in by.values() if (entries := of.get(key)))
        rows = f", {entry['procedure']}" if entry["procedure"] else ""
        name = f"{entry['says']} ({entry['paper']}, `{entry['id']}`{rows})"
        lines.append([name, *(cell(of.get(key, ())) for of in by.values())])
    return "\n".join(map(markdown_row, lines))


def _by(entries: Iterable[Entry]) -> dict[tuple[str, str], list[Entry]]:
    by_key: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        by_key.setdefault(_key(entry), []).append(entry)
    return by_key


def _counts() -> str:
    every = [at for folder in (*BACKBONES, TUNED) for at in conditions(folder)]
    shown = {at["condition"]: at for at in (*reversed(every), *every[:2])}
    lines = [["Rows", *WORDS], [":--"] + ["--:"] * len(WORDS)]
    for name in dict.fromkeys(one["condition"] for one in every):
        counts = shown[name]["counts"]
        first, *corrected = (
            counts.split(rate)[0].rpartition(": ")[2].rpartition("; ")[2] for rate in (". ", " (5 %)", " (1 %)")
        )
        cells = [re.findall(rf"{word} (\d+)", first)[0] for word in WORDS]
        more = [", ".join(re.findall(rf"{word} (\d+)", part)[0] for part in corrected) for word in WORDS[:4]]
        lines.append([name, *(f"{cell} ({of})" for cell, of in zip(cells, more, strict=False)), *cells[4:]])
    return "\n".join(map(markdown_row, lines))


def _settings() -> dict[str, Sequence[Entry]]:
    return {"The papers' settings": papers(TUNED), "Tuned": tuned()}


def _changed() -> str:
    by = {name: _by(entries) for name, entries in _settings().items()}
    both = [key for key in by["Tuned"] if key in by["The papers' settings"]]
    pairs = {key: [of[key][0] for of in by.values()] for key in both}
    compared = {key: pair for key, pair in pairs.items() if all(entry.get("points") for entry in pair)}
    moved = [key for key, (a, b) in compared.items() if a["verdict"] != b["verdict"]]
    names = ", ".join(f"`{id}`" + (f" ({procedure})" if procedure else "") for id, procedure in moved)
    return f"Of {len(compared)} verdicts under both settings {len(moved)} changed: {names}."


@functools.cache
def _curve() -> curve.Curve:
    return curve.read()


MAKERS: Mapping[str, Callable[[], str]] = {
    "counts": _counts,
    "decided": lambda: table({name: papers(name) for name in BACKBONES}, DECIDED),
    "undecided": lambda: table({name: papers(name) for name in BACKBONES}, (UNDECIDED,)),
    "changed": _changed,
    "tuned": lambda: table(_settings(), (*DECIDED, UNDECIDED), ("Tuned",)),
    "newer": lambda: table(
        {"The papers' settings": [paper for paper in papers(TUNED) if _key(paper) not in _reached("zoo-small")]},
        DECIDED,
    ),
    "averages": lambda: curve.averages(_curve()),
    "slopes": lambda: curve.slopes(_curve()),
    "settings": lambda: curve.settings(_curve()),
}


def claim(args: str) -> str:
    """Return a claim's first comparison on each backbone: a procedure, a task and a backbone may be chosen."""
    name, *chosen = args.split()
    parts = []
    for folder in [at for at in BACKBONES if at in chosen] or BACKBONES:
        words = [word for word in chosen if word not in BACKBONES]
        of = [entry for entry in papers(folder) if entry["id"] == name and entry.get("ours")]
        shown = [entry for entry in of if any(word in entry["procedure"] for word in words)] or of
        figures_of = [part for part in shown[0]["ours"].split("; ") if any(word in part for word in words)]
        text = (figures_of or [shown[0]["ours"]])[0]
        interval = re.search(r"([+-]\d+\.\d\d) \(([+-]\d+\.\d\d to [+-]\d+\.\d\d)\)", text)
        if interval is None:
            raise ValueError(f"{name} has no interval on {folder}: {text}")
        parts.append(f"{folder} {interval[1]}, {interval[2]}")
    return "; ".join(parts)


def shares(args: str) -> str:
    """Return the least and the largest share of the papers' updates of trained rows on STS and in claims.

    Of the folder of tuned rows these are the tuned ones.
    """
    every = []
    for folder in args.split():
        with (ROOT / "leaderboards" / folder / "sts.csv").open(encoding="utf-8") as file:
            of_suite = [row for row in csv.DictReader(file) if bool(row["tuned"]) == (folder == TUNED)]
        every += [float(row["updates_share"]) for row in of_suite if row["updates_share"]]
        of_claims = [p for entry in papers(folder) for p in entry.get("points", ())] if folder != TUNED else []
        every += [point["share"] for point in of_claims if point["share"] is not None]
    return f"{100 * min(every):.1f} to {100 * max(every):.1f} %"


def columns(args: str) -> str:
    """Return some rows of a folder's table of a suite: ranks, methods, their groups and scores."""
    folder, name, *wanted = args.split()
    at = ROOT / "leaderboards" / folder / name
    with at.with_suffix(".csv").open(encoding="utf-8") as file:
        groups = {row["method"]: row["group"] for row in csv.DictReader(file)}
    lines = [line for line in at.with_suffix(".md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    heads, _, *rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    shown = ["#", "Method", *all_suites()[name].tasks, "Avg."]
    chosen = {row[1]: [row[heads.index(head)] for head in shown] for row in rows if len(row) == len(heads)}
    table = [[*shown[:2], "Group", *shown[2:]], ["--:", ":--", ":--", *["--:"] * (len(shown) - 2)]]
    table += [[*chosen[row][:2], groups[row], *chosen[row][2:]] for row in wanted]
    return "\n".join(map(markdown_row, table))


def _reached(folder: str) -> set[tuple[str, str]]:
    return {_key(entry) for entry in papers(folder) if entry["verdict"] in (*DECIDED, UNDECIDED)}


def pages() -> dict[str, str]:
    """Return the pages that have marks, by their paths from the project's folder."""
    paths = [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted(ROOT.glob("leaderboards/**/README.md")),
    ]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return {path: text for path, text in texts.items() if figures.MARK.search(text)}


def written(texts: Mapping[str, str]) -> dict[str, str]:
    """Return pages with their made parts as the records have them; raises ValueError where a mark cannot be made."""
    of_records = figures.Figures(texts.values())
    inline: dict[str, Callable[[str], str]] = {
        "compare": of_records.compare,
        "corrected": of_records.corrected,
        "within": of_records.within,
        "first": figures.first,
        "mean": figures.mean,
        "needed": figures.needed,
        "claim": claim,
        "shares": shares,
        "recipes": lambda _: str(len(all_recipes())),
    }

    def part(mark: re.Match[str]) -> str:
        start, name, args, shown, end = mark.groups()
        if name in inline:
            return f"{start}{inline[name](args)}{end}"
        tables = {"comparisons": of_records.comparisons, "columns": columns}
        blocks = {"choose": printed.choose, "verdict": printed.verdict}
        text = tables[name](args) if name in tables else blocks[name](shown) if name in blocks else MAKERS[name]()
        return f"{start}\n\n{text}\n\n{end}"

    return {path: figures.MARK.sub(part, text) for path, text in texts.items()}


if __name__ == "__main__":
    for path, text in written(pages()).items():
        write_text(ROOT / path, text)
