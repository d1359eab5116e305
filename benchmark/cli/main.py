"""zoo-bench: the command line. Heavy imports stay inside the commands that need them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from benchmark.cli.analyze import analyze
from zoo import __version__
from zoo.errors import ZooError

RESULTS = "zoo-bench-results"

_plugin_option = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Python file that registers methods or tasks.",
)
_results_option = click.option(
    "--results",
    "--out",
    "results",
    type=click.Path(path_type=Path),
    default=Path(RESULTS),
    show_default=True,
    help="Results folder.",
)
_data_option = click.option("--data", help="Data folder (SentEval layout); default: ZOO_BENCH_DATA, cache, hub.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="zoo-bench")
def main_group() -> None:
    """Train and score sentence-embedding methods under one protocol."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors become one sentence on standard error and a non-zero exit code."""
    try:
        code = main_group.main(args=arguments, prog_name="zoo-bench", standalone_mode=False)
    except ZooError as error:
        _complain(str(error))
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted; finished cells are kept and the same command goes on.")
        code = 130
    except BrokenPipeError:
        code = 0
    sys.exit(code if isinstance(code, int) else 0)


def _complain(text: str) -> None:
    from zoo.progress import print_safe

    print_safe(f"zoo-bench: {text}", sys.stderr)


def _say(text: str = "") -> None:
    from zoo.progress import print_safe

    print_safe(text, sys.stdout)


def _load_plugins(plugins: tuple[Path, ...]) -> None:
    from benchmark.tasks import TASKS
    from zoo.registry import METHODS, load_plugin_file

    for path in plugins:
        reason = load_plugin_file(path, [METHODS, TASKS])
        if reason is not None:
            _complain(f"plugin {path} is broken and left out: {reason}")


def _print_rows(header: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns, the last one as long as it likes."""
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header) - 1)]
    for line in [header, *rows]:
        _say("  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[-1]]).rstrip())


@main_group.command()
@click.option("--methods", required=True, help="Recipes: names, globs, files, name:key=value; comma-separated.")
@click.option(
    "--suite",
    "suite_names",
    default="pocket",
    show_default=True,
    help="Lists of tasks, comma-separated: pocket, sts, words, phrases, transfer ...; `zoo-bench tasks` has all.",
)
@click.option("--tasks", help="Only these tasks (names or globs, comma-separated).")
@click.option(
    "--seeds", type=click.IntRange(1), help="Seeds 0..N-1 for methods that depend on one [default: the suite's]."
)
@click.option(
    "--backbone", help="Bundled name, folder or hub id, for every recipe that leaves it open [default: zoo-mini]."
)
@click.option("--revision", help="Revision of the hub backbone.")
@click.option(
    "--corpus", help="Text to train on: a catalog name or a file, one sentence a line [default: the suite's]."
)
@click.option(
    "--pairs",
    help="Labelled pairs to train on: catalog names, files of premise, hypothesis, label, PPDB packs; joined by +"
    " [default: the suite's].",
)
@click.option("--tensorboard", type=click.Path(path_type=Path), help="Folder for TensorBoard's training curves.")
@click.option("--train-pairs", type=click.IntRange(1), help="Use the first so many of the labelled pairs.")
@click.option(
    "--train-sentences", type=click.IntRange(1), help="Draw so many sentences of the corpus (always the same)."
)
@_data_option
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(RESULTS), show_default=True, help="Results folder."
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@click.option("--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="auto", show_default=True)
@click.option("--limit", type=click.IntRange(2), help="Trial: cut every subset to so many rows; kept apart in tables.")
@click.option("--dry-run", is_flag=True, help="Print the plan and an estimate; run nothing.")
@click.option("--allow-missing", is_flag=True, help="Exit 0 although data or weights were missing.")
@click.option("--allow-pickle", is_flag=True, help="Load weights that exist only as pickle (with weights_only).")
@click.option("--fail-fast", is_flag=True, help="Stop at the first failed cell.")
@click.option(
    "--embedding-cache",
    type=click.FloatRange(0),
    metavar="GB",
    default=4.0,
    show_default=True,
    envvar="ZOO_BENCH_EMBEDDING_CACHE",
    show_envvar=True,
    help="Keep the vectors of texts between runs, up to so much; 0 keeps and reads none.",
)
@_plugin_option
def run(**options: Any) -> int:
    """Train, evaluate and record methods; then print the table."""
    _load_plugins(options["plugins"])
    from benchmark.cli.commands import run_command

    return run_command(options, command=sys.argv[1:])


@main_group.command()
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path(RESULTS), show_default=True, help="Results folder."
)
@click.option("--out", type=click.Path(path_type=Path), help="Where to write the tables [default: the results folder].")
@click.option("--suite", "suite_names", help="Only these suites, comma-separated; the page has all.")
@click.option("--mteb", type=click.Path(path_type=Path), help="Write the STS scores here too, as MTEB's result files.")
@click.option("--strict", is_flag=True, help="Exit 1 when a record is damaged.")
def leaderboard(results: Path, out: Path | None, suite_names: str | None, mteb: Path | None, strict: bool) -> int:
    """Make the tables (md, csv, json, LaTeX, published values beside ours, HTML page) from the records."""
    from benchmark.leaderboard.report import make_leaderboard

    corrupt = make_leaderboard(results, out or results, suite_names)
    if mteb is not None:
        from benchmark.interop import mteb as mteb_form

        _say(f"written: {len(mteb_form.export(results, mteb))} result files in MTEB's form below {mteb}")
    return 1 if corrupt and strict else 0


@main_group.command()
@click.argument("a")
@click.argument("b")
@_results_option
@click.option("--suite", help="Only these suites, comma-separated [default: all that both were measured on].")
@click.option("--task", help="Instead of suites: these tasks, comma-separated.")
@click.option("--resamples", type=click.IntRange(100), default=10_000, show_default=True, help="Of the pairs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--pairs",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Also so many pairs of a task that differ most.",
)
@click.option("--no-texts", is_flag=True, help="Their row numbers only.")
@_data_option
def compare(**options: Any) -> int:
    """Compare methods A and B pair by pair: differences, bootstrap intervals, p-values, Williams' test."""
    from benchmark.cli.compare import compare_command

    return compare_command(options)


@main_group.command()
@click.argument("method")
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path(RESULTS), show_default=True, help="Results folder."
)
@click.option("--out", type=click.Path(path_type=Path), help="The page [default: reports/METHOD.html in the results].")
@click.option("--no-texts", is_flag=True, help="Row numbers of the worst pairs only: for what is published.")
@_data_option
def report(method: str, results: Path, out: Path | None, no_texts: bool, data: str | None) -> None:
    """Write one HTML page about a method: recipe, scores, seeds, curves, hard and worst pairs, conditions."""
    from benchmark.leaderboard.report import make_report

    make_report(method, results, out, data, texts=not no_texts)


@main_group.command()
@click.argument("method")
@click.argument("folder", type=click.Path(path_type=Path))
@_results_option
@click.option("--seed", type=click.IntRange(0), help="Which of the trained ones [default: the first].")
@_plugin_option
def export(method: str, folder: Path, results: Path, seed: int | None, plugins: tuple[Path, ...]) -> None:
    """Write a trained METHOD as a new sentence-transformers FOLDER with a model card."""
    _load_plugins(plugins)
    from benchmark.cli.export import export_encoder

    export_encoder(method, folder, results, seed)


@main_group.command()
@_plugin_option
def methods(plugins: tuple[Path, ...]) -> None:
    """List the recipes that --methods takes."""
    _load_plugins(plugins)
    from zoo.recipe import all_recipes
    from zoo.registry import METHODS

    rows = [[spec.name, spec.method, spec.summary, spec.paper] for spec in all_recipes().values()]
    _print_rows(["RECIPE", "METHOD", "WHAT", "SOURCE"], rows)
    for name, reason in METHODS.broken().items():
        _say(f"broken: {name}: {reason}")


@main_group.command()
@_plugin_option
def tasks(plugins: tuple[Path, ...]) -> None:
    """List the tasks that --tasks takes, and the suites."""
    _load_plugins(plugins)
    from benchmark.tasks import TASKS
    from benchmark.tasks.suites import all_suites

    rows = []
    for name, cls in TASKS.load_all():
        rows.append([name, cls.dataset, cls.form, cls.title, cls.metric] if cls else [name, "", "", "broken", ""])
    _print_rows(["TASK", "DATA SET", "TEXT", "TITLE", "SCORE"], rows)
    for suite in all_suites().values():
        _say(f"suite {suite.name}: {', '.join(suite.tasks)}")
    for name, reason in TASKS.broken().items():
        _say(f"broken: {name}: {reason}")


@main_group.command()
@click.argument("method")
@click.option("--backbone", help="Backbone to check it on [default: zoo-mini].")
@click.option("--device", default="cpu", show_default=True)
@click.option("--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="fp32", show_default=True)
@_plugin_option
def check(method: str, backbone: str | None, device: str, precision: str, plugins: tuple[Path, ...]) -> int:
    """Test in seconds that a method keeps the Encoder contract."""
    _load_plugins(plugins)
    from benchmark.cli.commands import check_command

    return check_command(method, backbone, device, precision)


@main_group.command()
@_data_option
def doctor(data: str | None) -> int:
    """Show versions, devices, precision, data, cache and disk."""
    from benchmark.cli.doctor import doctor_command

    return doctor_command(data)


@main_group.command()
@click.argument("recipe")
@click.option(
    "--text", "texts", multiple=True, help="Text file, one sentence a line (.gz, .xz too), or a catalog corpus."
)
@_data_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the finished model.")
@click.option(
    "--score", metavar="CHECKPOINT", help="Train nothing: score this checkpoint on the recipe's held-out text."
)
@click.option("--steps", type=click.IntRange(1), help="Instead of the recipe's number.")
@click.option("--device", default="auto", show_default=True)
@click.option("--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="auto", show_default=True)
def pretrain(**options: Any) -> int:
    """Pretrain a small masked language model: RECIPE is a name (zoo-mini, zoo-small, tiny) or a YAML file.

    `tiny:tie_embeddings=false` changes a value of it.
    """
    from benchmark.cli.pretrain import pretrain_command

    return pretrain_command(options)


@main_group.command("search-templates")
@click.option("--backbone", default="zoo-mini", show_default=True, help="Bundled name, folder or hub id.")
@click.option("--revision", help="Revision of the hub backbone.")
@click.option("--task", default="STS-B", show_default=True, help="Task whose development pairs score a template.")
@click.option(
    "--limit-pairs", type=click.IntRange(2), help="Score on the first so many pairs (300, say) [default: all]."
)
@click.option(
    "--lists", type=click.Path(path_type=Path), help="YAML of relationships, prefixes, quotes, endings to try."
)
@click.option("--keep", type=click.IntRange(1), default=1, show_default=True, help="Best relationships searched on.")
@click.option("--templates", type=click.Path(path_type=Path), help="Score these instead: a file, one template a line.")
@click.option(
    "--generate", type=click.Path(path_type=Path), help="Score templates written from word<TAB>definition lines."
)
@click.option("--seq2seq", help="What writes them: folder or hub id of a T5-like model.")
@click.option("--count", type=click.IntRange(2), default=500, show_default=True, help="Most templates to write.")
@click.option("--definitions", type=click.IntRange(1), default=32, show_default=True, help="Draw so many definitions.")
@_data_option
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(RESULTS), show_default=True, help="Results folder."
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@click.option("--precision", type=click.Choice(["auto", "bf16", "fp32"]), default="auto", show_default=True)
@click.option("--allow-pickle", is_flag=True, help="Load weights that exist only as pickle (with weights_only).")
def search_templates(**options: Any) -> int:
    """Search a prompt's template by its score on STS-B dev: greedily, from a file, or written by T5."""
    from benchmark.template_search.search import search_command

    return search_command(options, command=sys.argv[1:])


@main_group.group()
def data() -> None:
    """List, verify or fetch the data sets."""


@data.command("list")
@_data_option
def data_list(data: str | None) -> None:
    """Show every data set, its rows, licence, and where it is found here."""
    from benchmark.cli.commands import data_rows

    _print_rows(["DATA SET", "TEXT", "ROWS", "FOUND", "LICENCE"], data_rows(data))


@data.command("verify")
@_data_option
@click.argument("names", nargs=-1)
def data_verify(data: str | None, names: tuple[str, ...]) -> int:
    """Check sha256 and row counts of what is found; exit 1 when something is missing or wrong."""
    from benchmark.cli.commands import data_verify_command

    return data_verify_command(data, names)


@data.command("fetch")
@click.argument("names", nargs=-1)
def data_fetch(names: tuple[str, ...]) -> int:
    """Download data sets (all, or those named) from the hub into the cache."""
    from benchmark.cli.commands import data_fetch_command

    return data_fetch_command(names)


main_group.add_command(analyze)


if __name__ == "__main__":
    main()
