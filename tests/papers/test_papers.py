"""The list of the papers' tables and figures: complete, its commands valid, its rows those that the papers print."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from benchmark.cli.main import main_group
from benchmark.cli.run import from_environment
from benchmark.records.names import typed_recipe
from benchmark.report.published import published
from benchmark.run.options import OPTIONS
from benchmark.tasks.suites import choose_tasks, merged, suites_named
from zoo.errors import UsageError
from zoo.recipes import all_recipes
from zoo.selection import parse_methods
from zoo_bench_papers.items import (
    PaperOptions,
    all_items,
    item,
    methods_of,
    options_of,
    run_options,
    steps_of,
    words_of,
)

ROOT = Path(__file__).parents[2]
ITEMS = all_items()
PAPERS = ROOT.parent / "shared" / "papers"
TEXTS = {"ptbert": ["000", "001"], "burt": ["002"], "promptbert": ["004"]}
EVERYTHING = PaperOptions(results=Path("out"))
SMALL = PaperOptions(
    results=Path("out"), options={"backbone": "zoo-mini", "train-sentences": 2560, "seeds": 1, "limit": 20}
)


def click_command(name: str) -> tuple[click.Command, list[str]]:
    command: click.Command = main_group
    words = name.split(" ")
    while isinstance(command, click.Group):
        inner = command.get_command(click.Context(main_group), words[0])
        assert inner is not None, name
        command, words = inner, words[1:]
    return command, words


@pytest.mark.parametrize("prefix", sorted(TEXTS))
def test_every_table_and_figure_of_the_papers_is_in_the_list(prefix: str) -> None:
    """Captions of the papers' own texts; table 5 of PT-BERT has three parts."""
    if not PAPERS.is_dir():
        pytest.skip(f"the papers are not at {PAPERS}")
    captions: set[str] = set()
    for number in TEXTS[prefix]:
        (path,) = PAPERS.glob(f"{number}_*.txt")
        captions_of_page = re.findall(r"^(Table|Figure) (\d+):", path.read_text(encoding="utf-8"), re.MULTILINE)
        captions |= {f"{prefix}-{kind.lower()}{number}" for kind, number in captions_of_page}
    listed = {re.sub(r"(?<=table5)[abc]$", "", name) for name in ITEMS if name.startswith(f"{prefix}-")}
    assert captions <= listed
    assert listed - captions <= {"ptbert-log", "promptbert-section4.2"}


def test_every_published_table_belongs_to_one_item() -> None:
    # The spread of seeds, people's scores, and a row of a checkpoint on another backbone: no table of a paper.
    others = "simple-simcse", "HUME", "InfoCSE readme"
    tables = {(one.table.paper, one.table.table) for one in published().lines if one.table.paper not in others}
    named = [(one.paper, table) for one in ITEMS.values() for table in one.tables]
    assert sorted(named) == sorted(tables)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [EVERYTHING, SMALL], ids=["as printed", "small"])
@pytest.mark.parametrize("name", [name for name, one in ITEMS.items() if one.steps])
def test_every_step_is_a_command_line_that_the_command_takes(name: str, chosen: PaperOptions) -> None:
    paper_item = ITEMS[name]
    for step in steps_of(paper_item, chosen):
        command, words = click_command(step.command)
        known = {one.removeprefix("--") for option in command.params for one in option.opts}
        options = options_of(paper_item, step, chosen, known)
        line = words_of(options)
        assert not any("{" in part for part in line)
        with command.make_context(step.command, [*words, *line]) as context:
            given = context.params
        if step.command == "run":
            asked = run_options(options, from_environment())
            assert {name: getattr(asked, name) for name in OPTIONS} == {name: given[name] for name in OPTIONS}
            methods = parse_methods(given["methods"], all_recipes())
            for spec in methods:
                spec.resolve({"backbone": "zoo-mini"})
            assert choose_tasks(merged(suites_named(given["suites"])), given["tasks"])
            assert given["allow_missing"]
            if chosen is SMALL:
                assert (given["seeds"], given["train_sentences"], given["limit"]) == (1, 2560, 20)
                assert given["backbone"] == (None if paper_item.own_backbones else "zoo-mini")
            else:
                assert given["train_sentences"] in (1_000_000, 10**9), "the paper's number, or all"
                if given["backbone"] is not None:
                    assert given["backbone"].split("/")[0] in ("google-bert", "FacebookAI")


@pytest.mark.parametrize("name", [name for name, one in ITEMS.items() if one.steps])
def test_every_step_reads_and_writes_the_results_folder(name: str) -> None:
    """Analyses of kept runs would else look for them in the folder that is the default of their own command."""
    paper_item, folder = ITEMS[name], Path("chosen/here")
    chosen = PaperOptions(results=folder, options={"backbone": "zoo-mini", "limit": 20})
    for step in steps_of(paper_item, chosen):
        command, words = click_command(step.command)
        known = {one.removeprefix("--") for option in command.params for one in option.opts}
        with command.make_context(
            step.command, [*words, *words_of(options_of(paper_item, step, chosen, known))]
        ) as context:
            given = context.params
        places = {key: Path(given[key]) for key in ("results", "out") if given.get(key) is not None}
        assert places and all(folder in (place, *place.parents) for place in places.values()), step.command
        if step.command.startswith("analyze ") and "results" in given:
            assert places["results"] == folder, "where the runs of the steps before it are"
        if step.read is not None:
            assert step.read.file.startswith("{folder}/") and chosen.folder(paper_item) in places.values()


@pytest.mark.parametrize(
    "name", [name for name, one in ITEMS.items() if one.tables and any(s.command == "run" for s in one.steps)]
)
def test_every_recipe_of_a_printed_row_is_measured(name: str) -> None:
    """Or an analysis of the item makes the row's values."""
    paper_item = ITEMS[name]
    measured = {typed_recipe(method)[0]: None for method in methods_of(paper_item, EVERYTHING)}
    settings = [typed_recipe(method) for method in methods_of(paper_item, EVERYTHING)]
    for line in paper_item.lines():
        for recipe in line.row.recipes:
            base, overrides = typed_recipe(recipe)
            read = any(step.read is not None for step in paper_item.steps)
            assert base in measured or read, (name, recipe)
            assert (base, overrides) in settings or read or not overrides, (name, recipe)


def test_a_users_choice_replaces_the_papers_backbones() -> None:
    paper_item = item("promptbert-table3")
    known = {"methods", "suite", "backbone", "train-sentences", "seeds", "results", "allow-missing"}
    lines = [options_of(paper_item, step, EVERYTHING, known) for step in steps_of(paper_item, EVERYTHING)]
    assert [line["backbone"] for line in lines] == [
        "google-bert/bert-base-uncased",
        "google-bert/bert-base-cased",
        "FacebookAI/roberta-base",
    ]
    (step,) = steps_of(paper_item, SMALL)
    line = options_of(paper_item, step, SMALL, known)
    assert line["backbone"] == "zoo-mini" and "limit" not in line  # not known here


def test_some_methods_of_a_table_are_chosen_by_name() -> None:
    paper_item = item("burt-table2")
    chosen = PaperOptions(results=Path("out"), options={"methods": "glove, burt*"})
    steps = steps_of(paper_item, chosen)
    assert [step.options["methods"] for step in steps] == [
        ["glove", "burt-albert", "burt", "burt-human"],
        ["glove", "burt-albert", "burt", "burt-human"],
        ["burt-albert", "burt", "burt-human"],
    ]
    assert (
        len(steps_of(paper_item, PaperOptions(results=Path("out"), options={"methods": "glove"}))) == 2
    )  # one step has none
    assert options_of(paper_item, steps[0], chosen, {"methods", "suite"})["methods"] == steps[0].options["methods"]
    with pytest.raises(UsageError, match=r"'simcse' is none of the methods of burt-table2: glove, fasttext"):
        steps_of(paper_item, PaperOptions(results=Path("out"), options={"methods": "burt,simcse"}))


def test_pretraining_reads_the_chosen_text() -> None:
    paper_item = item("promptbert-table12")
    chosen = PaperOptions(results=Path("out"), options={"pretrain-text": "short.txt", "steps": 4})
    options = options_of(paper_item, paper_item.steps[0], chosen, {"text", "steps", "out"})
    assert words_of(options) == ["--out", "out/papers/tied", "--steps", "4", "--text", "short.txt"]
    table7 = item("promptbert-table7")  # whose --text is a sentence
    assert "short.txt" not in options_of(table7, table7.steps[0], chosen, {"text", "out"}).values()


@pytest.mark.parametrize(("sentences", "every"), [(None, 125), (1_000_000, 125), (25_600, 20), (2_560, 2), (64, 1)])
def test_short_training_is_evaluated_enough_for_a_figure(sentences: int | None, every: int) -> None:
    chosen = PaperOptions(results=Path("out"), options={"train-sentences": sentences})
    assert f"simcse:eval_every={every}" in methods_of(item("ptbert-figure3"), chosen)


def test_an_item_has_either_steps_or_the_reason_why_there_are_none() -> None:
    assert all(bool(one.none) != bool(one.steps) for one in ITEMS.values())


def test_the_handbook_has_every_name() -> None:
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    for name, paper_item in ITEMS.items():
        assert f"`{name}`" in page
        for sentence in (*paper_item.differs, *([paper_item.none] if paper_item.none else [])):
            assert sentence in page, (name, sentence)
