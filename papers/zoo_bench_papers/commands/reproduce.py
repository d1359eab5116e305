"""`zoo-bench reproduce`: measures a table or figure of a paper and prints the paper's values beside ours."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from benchmark.cli.complete import Named
from benchmark.cli.options import (
    Listed,
    allow_pickle_option,
    data_option,
    device_option,
    json_option,
    limit_option,
    option,
    precision_option,
    print_rows,
    results_option,
    say,
    say_json,
    train_pairs_option,
)
from benchmark.cli.run import carried_out, from_environment
from zoo.errors import UsageError
from zoo.files import check_writable, write_text
from zoo_bench_papers.beside import columns_of, lines_of, markdown, printed_beside
from zoo_bench_papers.items import (
    Item,
    PaperOptions,
    Step,
    all_items,
    item,
    options_of,
    run_options,
    steps_of,
    words_of,
)


@click.command("reproduce")
@click.argument("name", required=False, type=Named(all_items, many=False))
@click.option("--list", "listed", is_flag=True, help="List all: what each needs and takes, or why none is possible.")
@click.option(
    "--methods", cls=Listed, help="Only these of the table's methods: names or globs, comma-separated [default: all]."
)
@click.option("--backbone", help="Instead of the paper's: bundled name, folder or hub id.")
@click.option("--corpus", help="Text to train on: a catalog name or a file [default: the suite's].")
@click.option("--pairs", help="Labelled pairs to train on, as `run` takes them.")
@option("train_sentences", help="Instead of the paper's million.")
@train_pairs_option
@option("seeds", help="Seeds 0..N-1 for methods that depend on one.")
@click.option(
    "--released", is_flag=True, help="Train nothing: score the authors' released checkpoints on the table's tasks."
)
@click.option(
    "--weights", "folders", multiple=True, metavar="NAME=FOLDER", help="A released checkpoint's folder: simcse=FOLDER."
)
@allow_pickle_option
@click.option("--sentences", type=click.IntRange(2), help="Sentences of the analyses (anisotropy, frequencies).")
@click.option("--steps", type=click.IntRange(1), help="Steps of pretraining (PromptBERT's table 12 and figure 2).")
@click.option("--pretrain-text", help="Text to pretrain on: a catalog name or a file [default: wiki, books].")
@data_option
@results_option
@device_option
@precision_option
@limit_option
@click.option("--dry-run", is_flag=True, help="Print the commands and what they would run; run nothing.")
@json_option
def command(
    name: str | None,
    listed: bool,
    released: bool,
    folders: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    results: Path,
    **options: Any,
) -> int:
    """Measure a table or figure of the papers, NAME, and print theirs beside ours: ptbert-table3, burt-table2 ..."""
    chosen = PaperOptions(results=results, options={key.replace("_", "-"): value for key, value in options.items()})
    for key in ("device", "precision"):
        if chosen.options[key] == "auto":
            chosen = PaperOptions(results=results, options={**chosen.options, key: None})
    if listed:
        print_list(chosen, name, as_json)
        return 0
    if as_json:
        raise UsageError("--json goes with --list; what a run measured is in its results folder.")
    if name is None:
        raise UsageError("name a table or figure, as in `zoo-bench reproduce ptbert-table3`; --list has all.")
    wanted = item(name)
    if wanted.none:
        say(f"{wanted.name}: {wanted.what}: nothing to measure: {wanted.none}.")
        return 1
    if not dry_run:
        check_writable(results)
    if released or folders:
        return _score_released(wanted, chosen, folders, dry_run)
    commands, code = [], 0
    for step in steps_of(wanted, chosen):
        options = options_of(wanted, step, chosen, _known(step))
        commands.append(shlex.join(["zoo-bench", *step.command.split(" "), *words_of(options)]))
        say(commands[-1])
        if step.command == "run":
            code = max(code, carried_out(run_options(options, from_environment()), dry_run=dry_run))
        elif not dry_run:
            code = max(code, _invoke(step, words_of(options)))
    path = None if dry_run else chosen.folder(wanted) / "beside.md"
    _show(wanted, printed_beside(wanted, chosen), commands, path)
    return code


def _show(item: Item, rows: list[Any], commands: list[str], path: Path | None) -> None:
    if path is not None:
        write_text(path, markdown(item, rows, commands))
    say()
    say(f"{item.name}: {item.what}")
    if rows:
        print_rows(["ROW", "", *columns_of(rows), ""], lines_of(rows))
    else:
        say("the paper prints no numbers here")
    for difference in item.differs:
        say(f"differs: {difference}")
    if path is not None:
        say(f"written: {path}")


def _score_released(item: Item, chosen: PaperOptions, folders: tuple[str, ...], dry_run: bool) -> int:
    from zoo_bench_papers.released import beside_released, chosen_checkpoints, nowhere, runs

    given = dict(text.partition("=")[::2] for text in folders)
    places, without = chosen_checkpoints(item, given)
    if without:
        say(f"left out: {nowhere(without)}")
    commands, code, steps = [], 0, runs(item, chosen, places)
    for options in steps:
        commands.append(shlex.join(["zoo-bench", "run", *words_of(options)]))
        say(commands[-1])
        code = max(code, carried_out(run_options(options, from_environment()), dry_run=dry_run))
    if not dry_run:
        rows = beside_released(item, chosen, places, [step["suite"] for step in steps])
        _show(item, rows, commands, chosen.folder(item) / "released.md")
    return code


def _command(step: Step) -> tuple[click.Command, list[str]]:
    from benchmark.cli.main import main_group

    words = step.command.split(" ")
    context = click.Context(main_group)
    command: click.Command = main_group
    while words and isinstance(command, click.Group):
        inner = command.get_command(context, words[0])
        if inner is None:
            raise UsageError(f"{step.command!r} is no command of zoo-bench; the list of papers is damaged.")
        command, words = inner, words[1:]
    return command, words


def _known(step: Step) -> set[str]:
    command, _ = _command(step)
    return {name.removeprefix("--") for param in command.params for name in param.opts if name.startswith("--")}


def _invoke(step: Step, line: list[str]) -> int:
    command, words = _command(step)
    code = command.main(args=[*words, *line], prog_name=f"zoo-bench {step.command}", standalone_mode=False)
    return code if isinstance(code, int) else 0


def print_list(chosen: PaperOptions, name: str | None, as_json: bool = False) -> None:
    from zoo_bench_papers.needs import Survey

    items = [of for key, of in all_items().items() if name is None or key.startswith(name)]
    if not items:
        raise UsageError(f"no table or figure begins with {name!r}; --list alone shows all.")
    survey = Survey(chosen, _known)
    rows: list[list[str]] = []
    listed: list[dict[str, Any]] = []
    for listed_item in items:
        head = {"name": listed_item.name, "what": listed_item.what}
        if listed_item.none:
            listed.append({**head, "possible": "none", "reason": listed_item.none})
            rows.append([listed_item.name, "none", f"{listed_item.what}: {listed_item.none}"])
            continue
        needs = survey.demand(listed_item)
        missing = [what for what, here in needs.items() if not here]
        backbone = chosen.values.get("backbone") or listed_item.backbone
        possible = "not here" if backbone in missing else "partly" if missing else "yes"
        listed.append({**head, "possible": possible, "needs": list(needs), "missing": missing})
        there = ", ".join(what for what, here in needs.items() if here)
        text = listed_item.what + (f"; needs {there}" if there else "")
        rows.append([listed_item.name, possible, text + (f"; not here: {', '.join(missing)}" if missing else "")])
    if as_json:
        say_json(listed)
        return
    print_rows(["NAME", "POSSIBLE", "WHAT"], rows)
    say("not here: the paper's backbone is not on this machine; fetch it, or name another one with --backbone.")
