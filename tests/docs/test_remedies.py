"""Each command that a message prints runs here, or is listed with the reason; each `pip install` goes with the pins."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from fakes import Cli

from benchmark.cli.main import commands as commands_of_ours
from benchmark.cli.main import main_group
from benchmark.run.tracking import _PACKAGES, known_trackers
from zoo.errors import ZooError
from zoo.formats.word_vectors import GLOVE_PACKAGE
from zoo.selection import LABELLED_PACKAGES

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("zoo", "benchmark", "choose", "papers", "docs", "examples", "tools", "speed")
# What the code puts into the place of a name.
FILLED = {
    "{GLOVE_PACKAGE}": [GLOVE_PACKAGE],
    "{name}": [*LABELLED_PACKAGES],
    "-U {_PACKAGES.get(name, name)}": [_PACKAGES.get(name, name) for name in known_trackers()],
    "{package}": [_PACKAGES.get(name, name) for name in known_trackers()],
    "-U {name}": [],
    "zoo-bench[{extra}]": [],  # the next test reads the calls
}
OURS = {"zoo-bench": ".", "zoo-bench-papers": "./papers", "papers": "./papers"}
# The index of PyTorch, and an action that names the version of a release.
OPTIONS = re.compile(r"(-c +\S+|-e|--extra-index-url +\S+) +")


def commands() -> Iterator[str]:
    """Yield what stands behind `pip install`, up to the end of the command."""
    pages = [page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"]
    files = [*pages, *(path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in (".py", ".md"))]
    for path in files:
        for match in re.finditer(r"pip install +([^`\"\n]+)", path.read_text(encoding="utf-8", errors="replace")):
            command = OPTIONS.sub("", re.split(r" &&| +#|, or | adds | may ", match[1])[0]).strip()
            yield re.sub(r"(?<=\S)[.,;)]+$", "", command)


def requirements() -> dict[str, list[str]]:
    """Return each printed command as the arguments that a clone gives pip."""
    known: dict[str, list[str]] = {}
    for command in commands():
        for filled in FILLED.get(command.strip("'"), [command]):
            parts = []
            for part in shlex.split(filled):
                name, bracket, extra = re.sub(r"==0\.1\.0$", "", part).partition("[")
                parts.append(OURS.get(name, name) + bracket + extra)
            known[" ".join(parts)] = parts
    return known


def test_every_command_is_understood() -> None:
    """No placeholder is left, and what lies in this clone is there."""
    known = requirements()
    assert len(known) >= 15 and {".", ".[onnx]", ".[mteb]", "./papers", GLOVE_PACKAGE} <= known.keys()
    for parts in known.values():
        for part in parts:
            assert re.fullmatch(r"\.{0,2}[\w./-]+(\[[\w,-]+\]|>=\d+)?", part) or part == ".", part
            if part.startswith("./"):
                assert (ROOT / part / "pyproject.toml").is_file(), part


@pytest.mark.slow
@pytest.mark.parametrize("parts", requirements().values(), ids=" ".join)
def test_it_resolves_with_the_tested_versions(parts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # MLflow's newest release takes an older pyarrow than the tested one; tox gives the pins to each pip of a test.
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    pins = [] if parts[0].startswith("mlflow") else ["-c", "constraints.txt"]
    words = [sys.executable, "-m", "pip", "install", "--dry-run", "-q", *pins, *parts]
    # A clone's own packages need each other.
    words += ["."] if parts[0].startswith("./") else []
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    if re.search(
        r"Temporary failure in name resolution|Connection|No matching distribution found for hatchling", done.stderr
    ):
        pytest.skip("the registry cannot be reached")
    assert done.returncode == 0, done.stderr[-2000:]


# What stands in a message in the place of words, and a command of ours; quotes and the sentence's end are no part.
WORDS = r"`((?:zoo-bench|python -m|hf|git|ray|mteb) [^`]*)`"
BARE = rf"(?<!`)(zoo-bench (?:{'|'.join(map(re.escape, sorted(commands_of_ours())))})\b[^`]*)"


def strings(path: Path) -> Iterator[str]:
    """Yield the texts of a module that a person may read, with {expression} where code fills in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    silent |= {id(part) for node in joined for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) in silent:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"  # type: ignore[attr-defined]
                for part in node.values
            )


def messages() -> set[str]:
    rooms = ("zoo", "benchmark", "choose", "papers")
    return {text for room in rooms for path in (ROOT / room).rglob("*.py") for text in strings(path)}


def printed() -> set[str]:
    """Return the commands that are no `pip install`."""
    read = [re.finditer(pattern, text) for text in messages() for pattern in (WORDS, BARE)]
    return {re.sub(r"( \.\.\.|[).,;]+)$", "", match[1].strip()) for matches in read for match in matches}


# Run in this order in the world below; "" for the words as they are printed, else what stands for their names.
RUN = {
    "zoo-bench run --methods ptbert,simcse": "zoo-bench run --methods ptbert,simcse --train-sentences 96 --seeds 2",
    "zoo-bench run --methods {shlex.quote(methods)} --seeds 3": "zoo-bench run --methods cls --seeds 2",
    "zoo-bench run --methods {name}": "zoo-bench run --methods simcse --train-sentences 96 --seeds 2",
    "zoo-bench run --methods {spec.name}": "zoo-bench run --methods avg-last --seeds 2",
    "zoo-bench run {option}--methods": "zoo-bench run --suite pocket --methods avg-last --seeds 2",
    "zoo-bench methods": "",
    "zoo-bench methods 'simcse*'": "",
    "zoo-bench methods ptbert --show": "",
    "zoo-bench methods simcse --show": "",
    "zoo-bench methods {name} --show": "zoo-bench methods ptbert --show",
    "zoo-bench {kind}s": "zoo-bench tasks",
    "zoo-bench tasks": "",
    "zoo-bench tasks sts-raw": "",
    "zoo-bench tasks STS12 --show": "",
    "zoo-bench data --schemas": "",
    "zoo-bench data list": "",
    "zoo-bench data texts": "zoo-bench data texts --suite pocket --out texts.txt",
    "zoo-bench doctor": "",
    "zoo-bench leaderboard": "",
    "zoo-bench leaderboard --methods 'simcse*,ptbert' --baseline simcse --out paper": "",
    "zoo-bench leaderboard FOLDER": "zoo-bench leaderboard zoo-bench-results",
    "zoo-bench compare ptbert simcse": "",
    "zoo-bench compare ptbert simcse --suite sts --results leaderboards/zoo-small": "",
    "zoo-bench ablation BASE": "zoo-bench ablation ptbert simcse",
    "zoo-bench ablation promptbert-repo --results leaderboards/zoo-small": "",
    "zoo-bench ablation promptbert-repo --tex ablation.tex --results leaderboards/zoo-small": "",
    "zoo-bench others scores.csv": "",
    "zoo-bench others scores.csv A B": "",
    "zoo-bench others {self.folder}": "zoo-bench others scores.csv",
    "zoo-bench cite": "",
    "zoo-bench cite FOLDER": "zoo-bench cite zoo-bench-results",
    "zoo-bench cite --suite sts --results leaderboards/zoo-small": "",
    "zoo-bench claims --paper PT-BERT --results leaderboards/zoo-small": "",
    "zoo-bench claims --beside simcse --plot beats.png --results leaderboards/zoo-small": "",
    "zoo-bench export simcse FOLDER": "zoo-bench export simcse my-simcse",
    "zoo-bench export '*' FOLDER --scores": "zoo-bench export '*' scores --scores",
    "zoo-bench new method my-method": "",
    "zoo-bench doctor my-method --plugin my_method.py": "",
    "zoo-bench new method my-loss --loss": "",
    "zoo-bench choose my.csv --encoders A,B --max-ms 20 --floor AUC=85": (
        "zoo-bench choose my.csv --encoders bag-of-words,avg-last --max-ms 100000 --floor Spearman=1"
    ),
    "zoo-bench diff BEFORE AFTER": "zoo-bench diff zoo-bench-results zoo-bench-results",
    "zoo-bench diff BEFORE AFTER --fail-if-worse": (
        "zoo-bench diff zoo-bench-results zoo-bench-results --fail-if-worse"
    ),
    "zoo-bench reproduce --list": "",
    "zoo-bench analyze anisotropy --methods cls,simcse": (
        "zoo-bench analyze anisotropy --methods cls,simcse --results zoo-bench-results --suite pocket"
        " --corpus pocket-text --sentences 200"
    ),
    "zoo-bench analyze anisotropy --methods {_AVERAGE} --backbone {at.backbone} --out {results}/analyses": (
        "zoo-bench analyze anisotropy --methods avg-last --backbone zoo-small --out zoo-bench-results/analyses"
        " --suite pocket --corpus pocket-text --sentences 200"
    ),
    "zoo-bench verify zoo-bench-results": "",
    "zoo-bench verify FOLDER --data DATA --allow-unverified": "zoo-bench verify zoo-bench-results --allow-unverified",
    "zoo-bench pack": "",
}
_HOURS, _HUB, _NAMED = "takes hours", "asks the hub", "a command's name in a sentence"
# Those of ours are parsed at least.
NOT_RUN = {
    "git lfs pull": "another program",
    "hf auth login": _HUB,
    "hf download {name}": _HUB,
    "hf download {recipe.model}": _HUB,
    "hf upload {repository} {folder}": _HUB,
    "mteb available-tasks": "prints thousands of tasks; the next test asks for its help",
    "ray start": "starts a cluster that stays; tests/benchmark/run has one of its own",
    "ray start --head": "starts a cluster that stays; tests/benchmark/run has one of its own",
    "python -m tools.pretrain_vectors {MADE_VECTORS[path]} --text wiki": _HOURS,
    "zoo-bench adapt FOLDER --encoder sentence-transformers/all-MiniLM-L6-v2 --methods simcse,tsdae --budget 1h": (
        _HOURS
    ),
    "zoo-bench adapt my-texts.txt --pairs my-pairs.csv": "tests/choose runs it",
    "zoo-bench analyze": _NAMED,
    "zoo-bench doctor NAME": _NAMED,
    "zoo-bench choose my.csv --encoders sentence-transformers/all-MiniLM-L6-v2,bag-of-words": _HUB,
    "zoo-bench data fetch": "downloads gigabytes",
    "zoo-bench data verify --data FOLDER": "the data are not in the project",
    "zoo-bench export": _NAMED,
    "zoo-bench pretrain": _NAMED,
    "zoo-bench pretrain tiny-causal --out FOLDER": _HOURS,
    "zoo-bench pretrain {name} {text_options(options['texts'])} --out {out.name or 'model'}": _HOURS,
    "zoo-bench pretrain {name} {texts} --out {cached}": _HOURS,
    "zoo-bench reproduce ptbert-table3": _HOURS,
    "zoo-bench reproduce ptbert-table3 --data FOLDER": _HOURS,
    "zoo-bench run": _NAMED,
    "zoo-bench run --methods ./my-model,bag-of-words --suite sts --data FOLDER": "the data are not in the project",
    "zoo-bench run --remeasure --embedding-cache 0": "tests/benchmark/run/test_embedding_cache.py runs it",
    "zoo-bench run FILE": "tests/papers/test_plan.py runs a plan's file",
    "zoo-bench run {path}": "tests/papers/test_plan.py runs a plan's file",
    "zoo-bench run pocket-main": "tests/benchmark/cli runs it",
    "zoo-bench search-templates --limit-pairs 300 --keep 3": _HOURS,
    "zoo-bench tune simcse --trials 12": _HOURS,
    "zoo-bench tune simcse,ptbert --space learning_rate=1e-5..3e-4:log --minutes 60": _HOURS,
    "zoo-bench {name}": _NAMED,
}


def test_each_printed_command_is_run_or_listed() -> None:
    assert (printed() - RUN.keys() - NOT_RUN.keys(), RUN.keys() & NOT_RUN.keys()) == (set(), set())
    assert (RUN.keys() | NOT_RUN.keys()) - printed() == set(), "no message has these any more"


def parsed(words: list[str]) -> click.Context:
    """Let click read the words of a command as `zoo-bench` would, without running it."""
    command: click.Command = main_group
    context = click.Context(main_group, info_name="zoo-bench")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        command = command.get_command(context, name) or pytest.fail(name)
        context = click.Context(command, parent=context, info_name=name)
    return command.make_context(context.info_name, words, parent=context.parent)


@pytest.mark.parametrize("text", [text for text in sorted({*RUN, *NOT_RUN}) if text.startswith("zoo-bench")])
def test_it_is_read_by_our_own_parser(text: str, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    line = re.sub(r"\{texts\}|\{text_options\(.*?\)\}", "--text wiki", RUN.get(text) or text)
    words = shlex.split(re.sub(r"\{[^}]*\}", "zoo-mini" if " pretrain " in line else "claims", line))[1:]
    # A command's name alone lacks its arguments.
    if NOT_RUN.get(text) != _NAMED:
        parsed(words)
    else:
        assert words[0] in commands_of_ours()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands name."""
    from benchmark.data.sources import DataSource
    from benchmark.records.query import scored_pairs
    from benchmark.tasks.loaded import load_tasks

    (task,) = load_tasks(["pocket-pairs"], DataSource(None, hub=False), None)
    pairs = scored_pairs(task, "test")
    rows = list(zip(pairs.first, pairs.second, pairs.gold, strict=True))[:60]
    lines = ["sentence1,sentence2,score", *(",".join(str(cell).replace(",", " ") for cell in row) for row in rows)]
    folder = tmp_path_factory.mktemp("world")
    for name in ("my.csv", "my-pairs.csv"):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "scores.csv").write_text("model,t1,t2,t3\nA,61,72,53\nB,60,70,54\nC,40,52,31\n", encoding="utf-8")
    (folder / "my-texts.txt").write_text("\n\n".join(pairs.first), encoding="utf-8")
    for name in ("FOLDER", "DATA", "BEFORE", "AFTER"):
        (folder / name).mkdir()
    return folder


@pytest.mark.slow
def test_each_runs_in_one_world(cli: Cli, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    shutil.copytree(ROOT / "leaderboards" / "zoo-small", "leaderboards/zoo-small")
    refused = {}
    for text, words in RUN.items():
        answer = cli(*shlex.split(words or text)[1:])
        if answer.code:
            refused[text] = answer.err[-500:]
        assert answer.out.strip(), text
    assert refused == {}


@pytest.mark.slow
@pytest.mark.parametrize("text", [text for text in sorted(NOT_RUN) if not text.startswith(("zoo-bench", "git"))])
def test_another_program_has_that_command(text: str) -> None:
    name, *words = [word for word in shlex.split(text) if word[0] not in "-{" or word == "-m"]
    words = words[:2] if name == "python" else [word for word in words if word not in ("wiki", "x")]
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([path, *words, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr


def options_of(command: click.Command) -> Iterator[str]:
    context = click.Context(command)
    yield from (name for param in command.params for name in (*param.opts, *param.secondary_opts))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from options_of(command.get_command(context, name) or pytest.fail(name))


def test_each_option_that_a_message_names_is_one() -> None:
    known = {*options_of(main_group), "--help", "--version"}
    # Of pip, and of the shells whose completions are written.
    others = {"--extra-index-url", "--retries", "--max", "--no-deps", "--head"}
    named = {option for text in messages() for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]\b(?!-)", text)}
    assert named - known - others == set()


def test_each_extra_that_code_asks_for_installs_that_package() -> None:
    """`optional(package, extra, ...)` names an extra of pyproject.toml with that package."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    calls = set()
    for room in ("zoo", "benchmark", "choose", "papers"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "optional":
                    package, extra = (ast.literal_eval(value) for value in node.args[:2])
                    calls.add(extra)
                    assert any(re.match(rf"{package}\b", required) for required in extras[extra]), (path, package)
    assert {"peft", "onnx", "tune", "plots", "mteb", "ray", "excel", "srl"} == calls


@pytest.mark.parametrize("extra", ["plots", "tune"])
def test_a_broken_package_is_named_before_any_work(
    extra: str, cli: Cli, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world)
    package = {"plots": "matplotlib", "tune": "optuna"}[extra]
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / f"{package}.py").write_text("raise RuntimeError('built for another NumPy')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    words = {
        "plots": ("choose", "my.csv", "--encoders", "bag-of-words", "--plot", "a.png"),
        "tune": ("tune", "simcse", "--trials", "1"),
    }[extra]
    answer = cli(*words)
    assert answer.code == 1 and answer.out == "", answer
    assert (
        answer.err.strip()
        .splitlines()[-1]
        .endswith(
            f"needs {package}, which cannot be loaded (RuntimeError: built for another NumPy): pip install -U {package}"
        )
    ), answer.err


def test_a_tracker_that_cannot_be_imported_stops_the_run_before_its_first_cell(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelerate.tracking.get_available_trackers", lambda: ["mlflow"])
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    (tmp_path / "mlflow.py").write_text("from google.protobuf import no_such_service", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    answer = cli("run", "--methods", "simcse", "--tracker", "mlflow", "--results", tmp_path / "results")
    assert answer.code == 1 and not (tmp_path / "results" / "records").exists()
    assert "--tracker mlflow cannot start (ImportError: " in answer.err
    assert "pip install -U 'mlflow>=3' may help, or leave it out." in answer.err


def test_vectors_that_gensim_writes_as_the_message_says_are_read(tmp_path: Path) -> None:
    """Also where a word stands twice, so that a header would count too many."""
    import numpy as np

    from zoo.formats.word_vectors import read_word_vectors

    models = pytest.importorskip("gensim.models", reason="pip install 'zoo-bench[vectors]'")
    vectors = models.KeyedVectors(3)
    vectors.add_vectors(["dog", "cat"], np.eye(2, 3, dtype=np.float32))
    # As pickles of older gensim may hold it.
    vectors.index_to_key.append("dog")
    vectors.vectors = np.vstack([vectors.vectors, vectors.vectors[:1]])
    vectors.save(str(tmp_path / "vectors.kv"))
    with pytest.raises(ZooError, match="KeyedVectors") as refused:
        read_word_vectors(str(tmp_path / "vectors.kv"))
    call = re.search(r"KeyedVectors\.(load\(FILE\)\.save_word2vec_format\(.*\))\.$", str(refused.value))
    assert call is not None, refused.value
    code = call[1].replace("FILE", repr(str(tmp_path / "vectors.kv")))
    code = code.replace("'vectors.txt'", repr(str(tmp_path / "vectors.txt")))
    eval(f"models.KeyedVectors.{code}", {"models": models})
    words, matrix = read_word_vectors(str(tmp_path / "vectors.txt"))
    assert (list(words), matrix.shape) == (["dog", "cat"], (2, 3))


def test_a_count_has_its_noun_from_one_function() -> None:
    """So that no message says "1 cells"; `counted` takes the noun in the singular."""
    counted = re.compile(r"\{[^{}]*\} (cells|encoders|cards|trials|claims|result files|more \w+s)\b")
    parts = {match[0] for text in messages() for match in counted.finditer(text)}
    assert {part for part in parts if " of {" not in part} == set()
