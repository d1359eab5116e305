"""Names as people type them: lists that add up, aliases, models in the place of methods, what a shell completes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from fakes import Cli, make_record

import benchmark
from benchmark.cli.complete import METHODS_LIST
from benchmark.cli.data import _chosen_data
from benchmark.cli.examples import EXAMPLES
from benchmark.cli.main import COMMANDS, main_group
from benchmark.records.folder import Records
from benchmark.tasks import TASKS, plain_name
from benchmark.tasks.suites import all_suites, choose_tasks, read_suite, suite, suites_for
from zoo.errors import UsageError
from zoo.recipes import all_recipes
from zoo.selection import model_named, parse_methods

FAST = ("--precision", "fp32", "--limit", "20", "--device", "cpu")


def cells(folder: Path) -> set[tuple[str, str]]:
    return {(record["method"]["name"], record["task"]["name"]) for record in Records(folder).all()}


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize(
    "words",
    [
        ("--methods", "bag", "--methods", "random", "--tasks", "pocket-words", "--tasks", "pocket-phrases"),
        ("--methods=bag,", "random", "--tasks=pocket-words", ",pocket-phrases"),
    ],
    ids=["repeated", "with equals signs"],
)
def test_lists_add_up(words: tuple[str, ...], cli: Cli, tmp_path: Path) -> None:
    answer = cli("run", *words, "--seeds", 1, "--results", tmp_path, *FAST)
    assert answer.code == 0, answer.err
    expected = {(method, task) for method in ("bag", "random") for task in ("pocket-words", "pocket-phrases")}
    assert cells(tmp_path) == expected


def test_a_shell_leaves_out_names_that_are_typed_already() -> None:
    """Also those of an earlier --methods."""
    shell = ShellComplete(main_group, {}, "zoo-bench", "_ZOO_BENCH_COMPLETE")
    given = ["run", "--methods", "simcse-small", "--tasks", "STS12", "--methods"]
    values = [item.value for item in shell.get_completions(given, "simcse-s")]
    assert "simcse-sup" in values and "simcse-small" not in values


ALIASES = {"stsb": "STS-B", "SICKRelatedness": "SICK-R", "sts12": "STS12", "Pocket_Words": "pocket-words"}


@pytest.mark.parametrize("typed", ALIASES)
def test_a_task_has_the_names_that_people_type(typed: str) -> None:
    assert choose_tasks(suite("pocket"), typed) == [ALIASES[typed]]
    assert ALIASES[typed] in suites_for(None, typed)[0].tasks


def test_a_suite_has_the_names_that_people_type(tmp_path: Path, cli: Cli) -> None:
    for typed, name in (("STS", "sts"), ("SentEval", "transfer"), ("Transfer_Fast", "transfer-fast")):
        assert suite(typed).name == name
    file = tmp_path / "own.yaml"
    file.write_text("tasks: [stsb, sickr]\ndev: stsb\n", encoding="utf-8")
    assert (read_suite(file).tasks, read_suite(file).dev) == (("STS-B", "SICK-R"), "STS-B")
    assert "SICK relatedness" in cli("tasks", "SICKRelatedness", "STS").out


def test_no_two_tasks_or_suites_share_a_spelling() -> None:
    rows = [task for _, task in TASKS.load_all() if task is not None]
    aliases = [alias for task in rows for alias in task.aliases]
    spelt = Counter(map(plain_name, [*TASKS.names(), *aliases]))
    spelt += Counter(plain_name(name) for one in all_suites().values() for name in (one.name, *one.aliases))
    assert aliases and spelt.most_common(1)[0][1] == 1


def test_a_model_is_a_method(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every spelling of a folder is one row, and so is a hub id; names of recipes and backbones stay what they are."""
    recipes, home = all_recipes(), tmp_path / "home"
    (home / "models").mkdir(parents=True)
    (home / "models" / "my-folder").symlink_to(tiny_bert)
    (home / "models" / "simcse").symlink_to(tiny_bert)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "models")
    folder = f"{home}/models/my-folder"
    spelt = ("my-folder", "./my-folder", "./my-folder/", "../models/my-folder", "~/models/my-folder", folder)
    for place in (*spelt, *(f"pretrained:model={place}" for place in spelt)):
        (spec,) = parse_methods(f"{place}:pooling=cls", recipes)
        assert spec.name == f"pretrained:model={folder}:pooling=cls"
        assert spec.method == "pretrained" and spec.parameters == {"model": folder, "pooling": "cls"}
    hub = "sentence-transformers/all-MiniLM-L6-v2"
    assert parse_methods(hub, recipes) == parse_methods(f"pretrained:model={hub}", recipes)
    assert [spec.method for spec in parse_methods("simcse,./simcse", recipes)] == ["simcse", "pretrained"]
    assert parse_methods("pretrained:model=zoo-mini", recipes)[0].parameters == {"model": "zoo-mini"}
    (home / "models" / "a: b").symlink_to(tiny_bert)
    (spec,) = parse_methods("./a: b", recipes)
    assert spec.parameters == {"model": f"{home}/models/a: b"}
    assert parse_methods(spec.name, recipes) == [spec]
    with pytest.raises(UsageError, match="named twice"):
        parse_methods(f"./my-folder,{folder}", recipes)


@pytest.mark.parametrize("name", ["x", "My.Recipe-V2", "b.2", "méthode"])
def test_two_files_of_one_name_are_refused_with_both(name: str, tmp_path: Path) -> None:
    recipes, files = all_recipes(), [tmp_path / folder / f"{name}.yaml" for folder in ("a", "b")]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_text(f"extends: random\nparameters: {{dim: {8 + number}}}\n", encoding="utf-8")
    assert [spec.name for file in files for spec in parse_methods(str(file), recipes)] == [name, name]
    with pytest.raises(UsageError, match="rename a file") as caught:
        parse_methods(",".join(map(str, files)), recipes)
    assert all(str(file) in str(caught.value) for file in files)


def test_a_model_s_folder_is_measured_once(tiny_bert: Path, cli: Cli, tmp_path: Path) -> None:
    """By its path and by pretrained:model=..., on the command line and in Python: one row, printed by its last part."""
    words = ("--tasks", "pocket-words", "--results", tmp_path, *FAST)
    assert cli("run", "--methods", f"{tiny_bert}:pooling=mean", *words).code == 0
    again = cli("run", "--methods", f"pretrained:model={tiny_bert}:pooling=mean", *words)
    assert again.code == 0 and "0 cells measured, 1 kept" in again.err
    assert "pretrained:tiny-bert:pooling=mean" in again.out and str(tiny_bert) not in again.out.split("written:")[0]
    assert len(Records(tmp_path).all()) == 1
    options = {"tasks": "pocket-words", "limit": 20, "precision": "fp32", "device": "cpu", "results": tmp_path}
    kept = benchmark.evaluate(f"{tiny_bert}:pooling=mean", **options).outcome
    assert (kept.measured, kept.kept) == (0, 1)
    assert cli("run", "--methods", "random", "--seeds", 1, *words).code == 0
    for row in (f"{tiny_bert}:pooling=mean", "pretrained:tiny-bert:pooling=mean"):
        assert cli("compare", row, "random", "--results", tmp_path, "--tasks", "Pocket_Words").code == 0


@pytest.mark.usefixtures("fakes")
def test_a_run_prints_what_concerns_its_own_rows(cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scores of earlier rows stay in the table; their reasons for n/a, rows without scores and other tables do not."""
    run = ("run", "--results", tmp_path, "--precision", "fp32", "--device", "cpu")
    failed = cli(*run, "--methods", "crash-in-fit,bag:salt=3", "--tasks", "pocket-words", "--seeds", 1)
    assert failed.code == 1 and "n/a: crash-in-fit: pocket-words: 1 of" not in failed.out
    assert "the optimiser exploded" in failed.out + failed.err
    assert cli(*run, "--methods", "bag:salt=2", "--tasks", "pocket-words", "--limit", 20).code == 0
    Records(tmp_path).write(make_record("other", task="a-plugin-s-task"))
    later = cli(*run, "--methods", "bag", "--tasks", "pocket-words")
    assert later.code == 0
    assert "exploded" not in later.out and "crash-in-fit" not in later.out
    assert "bag:salt=3" in later.out and "n/a: bag:salt=3" not in later.out
    assert "TRIAL" not in later.out and "a-plugin-s-task" not in later.out
    full = cli("leaderboard", "--results", tmp_path)
    assert "exploded" in full.out and "TRIAL" in full.out and "a-plugin-s-task" in full.out
    capsys.readouterr()
    benchmark.leaderboard(tmp_path).show({"the key of a row that another machine measured under another key"})
    assert capsys.readouterr().out == full.out


ROOT = Path(__file__).parents[3]
SCRIPT = (
    "import sys\n"
    "from benchmark.cli.main import main\n"
    "try: main([])\n"
    "except SystemExit: pass\n"
    "print(sorted({'torch', 'transformers', 'datasets', 'sklearn', 'accelerate'} & set(sys.modules)))\n"
)


def completed(shell: str, *words: str) -> list[str]:
    """The lines that click gives a shell for the last of the words; the process must not have loaded torch."""
    environment = {**os.environ, "_ZOO_BENCH_COMPLETE": f"{shell}_complete"}
    environment |= {"COMP_WORDS": " ".join(["zoo-bench", *words]), "COMP_CWORD": str(len(words))}
    child = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert child.returncode == 0, child.stderr
    *lines, heavy = child.stdout.splitlines()
    assert heavy == "[]"
    return lines


@pytest.mark.slow
def test_bash_completes_the_names_of_a_list() -> None:
    """Methods after those that are typed already, which are not offered again."""
    names = {name for name in all_recipes() if name.startswith("ptbert")}
    assert completed("bash", "run", "--methods", "ptb") == [f"plain,{name}" for name in sorted(names)]
    small = completed("bash", "run", "--methods", "simcse-small,simcse-su")
    assert small[0] == "plain,simcse-small,simcse-sup" and "plain,simcse-small,simcse-small" not in small


@pytest.mark.slow
def test_a_shell_gets_a_script_to_load() -> None:
    for shell, part in (("zsh", "compdef"), ("fish", "complete --no-files --command zoo-bench")):
        environment = {**os.environ, "_ZOO_BENCH_COMPLETE": f"{shell}_source"}
        child = subprocess.run(
            [sys.executable, "-m", "benchmark"], capture_output=True, text=True, env=environment, cwd=ROOT
        )
        assert part in child.stdout, child.stdout + child.stderr
        if shell == "fish":  # click's own splits at each comma and would offer the first name of a list
            assert 'string split --max 1 "," $completion' in child.stdout


@pytest.mark.parametrize("sign", ["*", "?", "["])
def test_a_glob_is_no_folder(sign: str) -> None:
    assert model_named(f"./no-such{sign}folder", ()) is None
    with pytest.raises(UsageError, match="does not exist"):
        model_named("./no-such-folder", ())


@pytest.mark.parametrize(
    ("typed", "name"), [("sts-b", "STSBenchmark"), ("sick-r", "SICK"), ("sts12", "STS12"), ("mr", "MR")]
)
def test_a_data_set_is_also_named_by_its_task(typed: str, name: str) -> None:
    assert _chosen_data((typed,)) == [name]


@pytest.mark.parametrize("typed", ["./", "../data", "lea", "."])
def test_files_are_offered_where_a_path_begins(typed: str) -> None:
    items = METHODS_LIST.shell_complete(click.Context(main_group), click.Option(["--methods"]), typed)
    assert [item.type for item in items] == ["file"] * bool(items) and all(item.value == typed for item in items)


def test_a_name_of_a_suite_lists_the_suite_alone(cli: Cli) -> None:
    listed = json.loads(cli("tasks", "words", "--json").out)
    assert ([one["name"] for one in listed["suites"]], listed["tasks"]) == (["words"], [])


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_help_of_a_command_ends_with_its_examples(name: str) -> None:
    if name in COMMANDS:
        command = main_group.get_command(click.Context(main_group), name)
        assert command is not None and all(line in (command.epilog or "") for line in EXAMPLES[name])
