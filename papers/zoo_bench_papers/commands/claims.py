"""`zoo-bench claims`: the papers' claims on the rows of a results folder. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmark.cli.options import json_option, results_only_option, say, say_json, say_prose
from benchmark.records.folder import Records
from benchmark.report.rows import signed
from benchmark.report.table import read_completed
from benchmark.report.terminal import hanging, width_of
from zoo.errors import UsageError, did_you_mean
from zoo.files import check_writable, write_json, write_text
from zoo_bench_papers.answers import CONFIRMED, WORDS
from zoo_bench_papers.claims import all_claims
from zoo_bench_papers.ledger import changed, changes, counts, ledger, markdown, noise, of_claims
from zoo_bench_papers.picture import beside, forest
from zoo_bench_papers.verdicts import Verdict, verdicts


@click.command("claims")
@click.option("--paper", help="Only print, and of this paper: PT-BERT, BURT, SimCSE ...")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw them: FILE.svg, .png or .pdf.")
@click.option("--beside", "rival", metavar="ROW", help="With --plot: draw which methods beat ROW (simcse).")
@click.option(
    "--plan",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Print what the claims lack as runs, with what each takes here, and write a run file: `zoo-bench run FILE`.",
)
@click.option("--backbone", help="With --plan: the rows of this backbone [default: those of the folder].")
@click.option("--corpus", help="With --backbone: the text to train on [default: that of the suites].")
@click.option("--train-sentences", type=click.IntRange(1), help="With --backbone: how many of its sentences.")
@click.option("--data", help="With --plan: the data folder.")
@results_only_option
@json_option
def command(
    paper: str | None,
    plot: Path | None,
    rival: str | None,
    plan: Path | None,
    backbone: str | None,
    corpus: str | None,
    train_sentences: int | None,
    data: str | None,
    results: Path,
    as_json: bool,
) -> int:
    """Test the papers' claims on measured rows: printed, ours with its interval, and a verdict.

    claims.md and claims.json in the results folder have all of them; --paper writes neither.
    """
    papers = list(dict.fromkeys(claim.paper for claim in all_claims()))
    if paper is not None and paper not in papers:
        raise UsageError(f"no claims of a paper {paper!r}.{did_you_mean(paper, papers)} There: {', '.join(papers)}.")
    store = Records(results)
    if plan is not None:
        of_backbone = {"backbone": backbone, "corpus": corpus, "sentences": train_sentences}
        return _planned(plan, results, paper, {k: v for k, v in of_backbone.items() if v}, data, as_json)
    if backbone or data:
        raise UsageError("--backbone and --data are of a plan; name its file: --plan FILE.yaml.")
    reached = verdicts(results, store, read_completed(store))
    written = [plot] if plot is not None else []
    # Who asks for one paper looks, and writes nothing into a folder that may be somebody's.
    if paper is None:
        check_writable(results)
        write_text(results / "claims.md", markdown(reached))
        # The page of `zoo-bench leaderboard` shows it.
        write_json(results / "claims.json", ledger(reached))
        written = [results / "claims.md", results / "claims.json", *written]
    shown = [verdict for verdict in reached if paper in (None, verdict.claim.paper)]
    if rival is not None and plot is None:
        raise UsageError("--beside draws a picture; name its file: --plot FILE.png.")
    if plot is not None:
        beside(shown, rival, plot) if rival else forest(shown, plot)
    if as_json:
        say_json(ledger(shown))
        return 0
    for at in dict.fromkeys(verdict.condition for verdict in shown):
        selected = [verdict for verdict in shown if verdict.condition == at]
        say_prose(f"{at}. {counts(selected)} {noise(at)}")
        say_prose("\n".join(_lines(selected, width_of(sys.stdout))))
    if changes(shown):
        say_prose(changed(shown))
    if written:
        say_prose(f"written: {', '.join(map(str, written))}")
    return 0


def _planned(
    path: Path, results: Path, paper: str | None, named: dict[str, Any], data: str | None, as_json: bool
) -> int:
    """Write the run file and print it, each step with its claims and its time."""
    from zoo_bench_papers.claim_rows import Condition, Folder
    from zoo_bench_papers.plan import make_plan

    store = Records(results)
    at = Condition(**{"precision": "auto", **named}) if "backbone" in named else None
    read = read_completed(store)
    reached = [verdict for verdict in verdicts(results, store, read, at) if paper in (None, verdict.claim.paper)]
    more: dict[str, Any] = {"results": results, **({"data": data} if data else {})}
    plan = make_plan(reached, Folder(results, store, read, at).labelled, more)
    if plan.steps:
        plan.write(path)
    if as_json:
        say_json(plan.as_values())
    else:
        say("\n".join(plan.lines(path)))
    return 0


def _lines(selected: Sequence[Verdict], width: int | None) -> list[str]:
    words, lines = {claim.claim.id: claim.word for claim in of_claims(selected)}, []
    for word in sorted(WORDS, key=lambda word: word == CONFIRMED):
        measured: dict[str, list[Verdict]] = {}
        for verdict in sorted(selected, key=lambda verdict: verdict.claim.paper):
            if verdict.measured and words[verdict.claim.id] == word:
                measured.setdefault(verdict.claim.id, []).append(verdict)
        lines += [f"\n{word.capitalize()}: {len(measured)} claim{'s' if len(measured) > 1 else ''}"] if measured else []
        for name, of in measured.items():
            lines.append(f"{name} ({of[0].claim.paper})")
            lines += [line for verdict in of for line in _of_verdict(verdict, width)]
    return lines


def _of_verdict(verdict: Verdict, width: int | None) -> list[str]:
    of = f", {verdict.procedure}" if verdict.procedure else ""
    why = "" if verdict.deciding or verdict.observation else f": {verdict.reason}"
    after = f"; {verdict.after}" if verdict.after else ""
    lines = [f"  {verdict.head()}{of}{after}{why}", *(f"  {part}" for part in verdict.observation.split("; ") if part)]
    for c in verdict.compared:
        if c.difference is not None:
            paper = "" if c.printed is None else f"paper {signed(c.printed)}"
            lines += hanging(f"  {c.gap:<25} {paper}", f"{c.a} - {c.b}, {c.on}", 42, width)
    return lines
