"""`zoo-bench run`: train, evaluate and record methods, then print the table."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from benchmark.cli.closing import show_closing
from benchmark.cli.complete import METHODS_LIST, RUN_FILE, SUITES_LIST, TASK, TASKS_LIST, TRACKERS, recipe_names
from benchmark.cli.options import (
    json_option,
    load_plugins,
    option,
    options,
    plugin_option,
    say,
    say_json,
    typed_command,
)
from benchmark.run.options import OPTIONS, RunOptions
from zoo.errors import MissingError, UsageError, ZooError
from zoo.progress import counted

if TYPE_CHECKING:
    from benchmark.report.leaderboard import Leaderboard
    from benchmark.run.plan import Run
    from benchmark.run.runner import Outcome

_COMPLETED: dict[str, dict[str, Any]] = {
    "methods": {"type": METHODS_LIST},
    "suites": {"type": SUITES_LIST},
    "tasks": {"type": TASKS_LIST},
    "dev": {"type": TASK},
    "tracker": {"type": TRACKERS},
}


GROUPS = {
    "Common": "methods suites tasks seeds backbone corpus data results device dry_run",
    "What": "label controls revision plugins",
    "On what": "pairs columns dev train_sentences train_pairs limit",
    "How": "precision cuda_graphs remeasure embedding_cache fail_fast allow_missing allow_pickle"
    " tracker tracker_folder as_json",
    "Where": "workers shard executor gpus_per_encoder",
}


class Grouped(click.Command):
    """A command with its options grouped in --help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        of = {param.name: param.get_help_record(ctx) for param in self.params}
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([line for name in names.split() if (line := of[name])])


@click.command("run", cls=Grouped)
@click.argument("files", nargs=-1, metavar="[FILE]", type=RUN_FILE)
@options(*(option(name, **_COMPLETED.get(name, {})) for name in OPTIONS))
@click.option("--dry-run", is_flag=True, help="Print what is done, what would be n/a and why; run nothing.")
@json_option
@plugin_option
@click.pass_context
def command(ctx: click.Context, /, files: tuple[str, ...], dry_run: bool, as_json: bool, **chosen: Any) -> int:
    """Train, evaluate and record methods; then print the table and its findings.

    Beside them stand controls for these tasks: random, bag-of-words, and the untrained vectors that each trained method
    starts from.

    FILE is a YAML file with the run's options (methods, suites, seeds, backbone ...), or the name of a shipped file;
    typed options win.
    """
    if len(files) > 1 or (files and chosen["methods"] and files[0] in recipe_names()):
        named = ",".join(filter(None, (chosen["methods"], *files)))
        raise UsageError(f"run reads one run file, not {', '.join(files)}; are these methods? --methods {named}")
    file = files[0] if files else None
    runs = _options(ctx, file, chosen)
    if as_json and len(runs) > 1:
        raise UsageError(f"{file} has {len(runs)} runs, and --json prints one; leave it out.")
    load_plugins(tuple(dict.fromkeys(plugin for _, plugins in runs for plugin in plugins)))
    codes = []
    for number, (asked, plugins) in enumerate(runs, 1):
        if len(runs) > 1:
            say(f"\nrun {number} of {len(runs)} in {file}: {asked.methods} on {asked.tasks or asked.suites}")
        codes.append(carried_out(asked, plugins, dry_run=dry_run, as_json=as_json))
    return max(codes)


def from_environment() -> dict[str, Any]:
    """Return the environment's options, such as ZOO_BENCH_CONTROLS."""
    context = click.Context(command)
    stated = ((param, param.value_from_envvar(context)) for param in command.params)
    return {str(param.name): param.type_cast_value(context, value) for param, value in stated if value is not None}


def carried_out(asked: RunOptions, plugins: tuple[Path, ...] = (), *, dry_run: bool, as_json: bool = False) -> int:
    """Run and print, with `dry_run` the plan alone. Returns the exit code."""
    from benchmark import api
    from benchmark.run.runner import exit_code

    if dry_run:
        return _dry_run(api.prepare(api.Request(asked), write=False), asked, as_json)

    def write_so_far(run: Run) -> None:
        with suppress(ZooError):  # nothing has a score yet
            api.leaderboard(asked.results, suites=",".join(run.suites))
            run.runtime.progress.say(f"tables so far: {asked.results / 'index.html'}")

    run, outcome = api.run(asked, command=typed_command(), plugins=plugins, after_round=write_so_far)
    tell = run.runtime.progress.say
    tell(
        f"{counted(outcome.measured, 'cell')} measured, {outcome.kept} kept from before,"
        f" {len(outcome.failed)} failed, {len(outcome.missing)} n/a"
    )
    for line in outcome.lines():
        tell(line)
    for path, reason in outcome.set_aside:
        aside = path.name.endswith(".corrupt")
        tell(f"a damaged record was set aside as {path}: {reason}" if aside else f"measured again: {reason}")
    suites = ",".join(run.suites)
    tables = None
    try:
        tables = api.leaderboard(asked.results, suites=suites)
    except MissingError:
        tell(f"no table: no task of {suites} has a score in {asked.results}")
    code = exit_code(outcome, allow_missing=asked.allow_missing)
    if as_json:
        say_json(_as_values(asked, outcome, tables, code))
    elif tables is not None:
        tables.show({plan.inputs.row_key for plan in run.encoders}, brief=True)
        show_closing(asked, run, tables)
    return code


def _options(ctx: click.Context, file: str | None, chosen: dict[str, Any]) -> list[tuple[RunOptions, tuple[Path, ...]]]:
    """Return the options and plugins of each run; typed options override the run file's, and these the defaults."""
    from benchmark.run.options import overlaid, read_run_file

    runs = [chosen]
    if file is not None:
        typed = {name for name in chosen if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
        stated, named = read_run_file(file)
        runs = [{**overlaid(chosen, typed, options), "file": named} for options in stated]
    if not all(run["methods"] for run in runs):
        raise UsageError(
            "name the methods with --methods, or a run file that does (`zoo-bench run pocket-main` is a shipped one);"
            " `zoo-bench methods` lists them."
        )
    return [(RunOptions(**{k: v for k, v in run.items() if k != "plugins"}), run["plugins"]) for run in runs]


def _as_values(options: RunOptions, outcome: Outcome, tables: Leaderboard | None, code: int) -> dict[str, Any]:
    from benchmark.report.write import as_dict

    return {
        "results": options.results,
        "measured": outcome.measured,
        "kept": outcome.kept,
        "failed": [{"what": what, "reason": reason} for what, reason in outcome.failed],
        "missing": [{"what": what, "reason": reason} for what, reason in outcome.missing],
        "set_aside": [{"path": path, "reason": reason} for path, reason in outcome.set_aside],
        "exit_code": code,
        "tables": [as_dict(table) for table in tables.tables] if tables else [],
        "written": tables.written if tables else [],
    }


def _dry_run(run: Run, options: RunOptions, as_json: bool) -> int:
    """Returns 1 if a cell would be n/a without permission."""
    from benchmark.run.preflight import preflight

    report = preflight(run)
    if as_json:
        facts = {"encoders": report.encoders, "reasons": report.reasons, "failed": report.failed}
        say_json({**facts, "memory": report.memory})
    else:
        for plan in report.encoders:
            control = " (control)" if plan["control"] else ""
            running = ", running" if plan["running"] else ""
            say(f"{plan['title']}{control}: {plan['done']} of {counted(plan['cells'], 'cell')} done{running}")
        for line in report.lines():
            say(line)
    return int(report.missing > 0 and not options.allow_missing)
