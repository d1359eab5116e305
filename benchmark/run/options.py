"""The options of a run, each stated once: for the command line, run files, `evaluate`, and jobs on other machines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import UsageError, did_you_mean
from zoo.files import read_yaml
from zoo.paths import is_file, resource_folder, user_path
from zoo.recipes import RecipeSpec, all_recipes, build, tuned_recipes
from zoo.selection import parts_of

if TYPE_CHECKING:
    from benchmark.run.tracking import Trackers


RESULTS = Path("zoo-bench-results")
# Development pairs that score a trial: none is a test pair of STS12-16 or STS-B.
TUNED_ON = "stsb-dev-disjoint"
PRECISIONS = ("auto", "bf16", "fp16", "fp32")
_MANY = 10**9


def check_values(options: object) -> None:
    """Raise UsageError for an option that is empty, of a wrong type, or out of its bounds; None is always allowed."""
    for option in fields(options):  # type: ignore[arg-type]
        name, kind, value = option.name, option.type, getattr(options, option.name)
        if value is None:
            continue
        if kind.startswith("str") and not isinstance(value, str):
            raise UsageError(f"{name} is {value!r:.100}; give a text, such as names separated by commas.")
        if kind.startswith("int") and type(value) is not int:
            raise UsageError(f"{name} is {value!r:.100}; give a whole number.")
        if isinstance(value, str) and not value.strip() and name != "methods":
            raise UsageError(f"{name} is empty; leave it out, or give it a value.")
        stated = OPTIONS[name].metadata if name in OPTIONS else {}
        low, high = stated.get("bounds") or (0, 0)
        if high and not low <= value <= high:
            raise UsageError(f"{name} is {value:.4g} and must be from {low} to {high:,}.")
        if value not in (stated.get("choices") or (value,)):
            raise UsageError(f"{name} {value!r:.100} is not one of {', '.join(stated['choices'])}.")


@dataclass(frozen=True, kw_only=True)
class NamedRunFile:
    """The run file from which options were read, as records state it."""

    name: str
    sha256: str


def _option(
    text: str,
    value: object = None,
    /,
    *,
    spelled: str | None = None,
    bounds: tuple[float, float] | None = None,
    choices: tuple[str, ...] | None = None,
    several: bool = False,
    **of_command: Any,
) -> Any:
    """Return an option's field; `spelled` is its name on the command line, `several` a list, `of_command` click's."""
    stated = {"help": text, "spelled": spelled, "bounds": bounds, "choices": choices, "several": several}
    return field(default=value, metadata={**stated, "of_command": of_command})


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Methods, tasks, texts, device and folders of a run; None leaves a choice to the suite or to the recipe."""

    methods: str = _option(
        "Recipes, comma-separated: names, globs (simcse*), YAML files. NAME:key=value:key=value changes values of one:"
        " simcse:batch_size=128:learning_rate=1e-5; a list in brackets, null for none, a text with a colon or comma in"
        " quotes. `zoo-bench methods` lists the names.",
        MISSING,
        several=True,
    )
    label: str | None = _option(
        "Names of rows: one for each method, comma-separated [default: as --methods].", several=True
    )
    controls: bool = _option(
        "Beside the methods: random, bag-of-words, and the untrained vectors that each trained method starts from.",
        False,
        spelled="--controls/--no-controls",
        default=True,
        envvar="ZOO_BENCH_CONTROLS",
        show_envvar=True,
    )
    suites: str | None = _option(
        "Lists of tasks, comma-separated: pocket, sts, words, phrases, transfer ...; `zoo-bench tasks` has all; a YAML"
        " file of yours too [default: the suites of --tasks, else pocket].",
        spelled="--suite",
        several=True,
    )
    tasks: str | None = _option("Only these tasks (names or globs, comma-separated).", several=True)
    seeds: int | None = _option("Seeds 0..N-1 for methods that depend on one [default: the suite's].", bounds=(1, 1000))
    backbone: str | None = _option(
        "Bundled name, folder or hub id, for every recipe that leaves it open [default: ZOO_BENCH_BACKBONE, else"
        " zoo-small]."
    )
    revision: str | None = _option("Revision of the hub backbone.")
    corpus: str | None = _option(
        "Text to train on: a catalog name, a file with one sentence per line, a table (csv, tsv, jsonl, parquet), or"
        " `target`, the texts of the tasks themselves (transductive) [default: the suite's]."
    )
    pairs: str | None = _option(
        "Labelled pairs to train on: catalog names, tables (csv, tsv, jsonl, parquet), PPDB packs; joined by +"
        " [default: the suite's]."
    )
    columns: str | None = _option(
        "Columns of the table that --pairs names, else --corpus: texts in order, a score or label; names or numbers.",
        metavar="NAME,NAME,...",
    )
    dev: str | None = _option(
        "Task whose development pairs pick checkpoints: STS-B, or stsb-dev-disjoint, which has no test pair of STS12-16"
        " [default: what the recipes were tuned on, else the suite's]."
    )
    train_sentences: int | None = _option("Draw N sentences of the corpus, the same N each time.", bounds=(1, _MANY))
    train_pairs: int | None = _option("Use the first N of the labelled pairs.", bounds=(1, _MANY))
    data: str | None = _option("Data folder (SentEval layout); default: ZOO_BENCH_DATA, cache, hub.")
    results: Path = _option(  # noqa: RUF009
        "Results folder.", RESULTS, spelled="--results --out"
    )
    device: str = _option("auto, cpu, cuda, cuda:N or mps.", "auto")
    precision: str = _option("", "auto", choices=PRECISIONS)
    cuda_graphs: bool = _option(
        "On a GPU, capture training steps as CUDA graphs; a training that cannot be captured says why.", False
    )
    limit: int | None = _option("Trial: cut every subset to N rows; kept apart in tables.", bounds=(2, _MANY))
    allow_missing: bool = _option("Exit 0 although data or weights were missing.", False)
    allow_pickle: bool = _option("Load weights that exist only as pickle (with weights_only).", False)
    fail_fast: bool = _option("Stop at the first failed cell.", False)
    remeasure: bool = _option(
        "Measure every cell again, and train every encoder again, although it is finished; if it is stopped, the same"
        " command goes on.",
        False,
    )
    embedding_cache: float = _option(
        "Keep the vectors of texts between runs, up to this size; 0 keeps and reads none.",
        4.0,
        bounds=(0, 10**6),
        metavar="GB",
        envvar="ZOO_BENCH_EMBEDDING_CACHE",
        show_envvar=True,
    )
    tracker: str | None = _option(
        "Report trainings to these trackers: tensorboard, wandb, mlflow ... (if installed), or all.", several=True
    )
    tracker_folder: Path | None = _option(  # noqa: RUF009
        "Folder of trackers that write files [default: trackers in the results]; W&B and MLflow then use no server."
    )
    workers: int | None = _option(
        "Processes of this machine that share the plan; auto: one for each core where several trainings on a CPU gain"
        " from it, else one.",
        1,
        bounds=(1, 1024),
        default="auto",
    )
    executor: str | None = _option(
        "The machines of a Ray cluster share the plan: the cluster that runs here, else one of this machine alone, or"
        " the one at ray://HOST:PORT (needs the extra `ray`).",
        metavar="ray[://HOST:PORT]",
    )
    gpus_per_encoder: float = _option("Share of a GPU for each encoder on a Ray cluster.", 1.0, bounds=(0.01, 1))
    shard: str | None = _option("Run the I-th of N parts of the encoders, as a job of an array does.", metavar="I/N")
    file: NamedRunFile | None = None

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def part(self) -> tuple[int, int]:
        """(Index from 0, number of parts) of the part to run; raises UsageError for an invalid shard."""
        if self.shard is None:
            return 0, 1
        number, _, count = self.shard.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise UsageError(f"--shard {self.shard}: give i/n with i from 1 to n, such as 2/8.")
        return int(number) - 1, int(count)

    def check(self, *, objects: bool) -> None:
        """Raise an error for what cannot be: a part, tracker or text, or an executor for encoders that are objects."""
        ray, several = self.executor, self.workers is not None and self.workers > 1
        if ray is not None and ray != "ray" and not (ray.startswith("ray://") and len(ray) > len("ray://")):
            raise UsageError(
                f"--executor {ray}: give ray, or ray://HOST:PORT; --workers N shares the plan on this machine."
            )
        if ray is not None and several:
            raise UsageError(f"--workers {self.workers}: a Ray cluster has its own; give --executor or --workers.")
        if objects and (ray is not None or several):
            raise UsageError("an encoder object is measured in this process; leave out workers and executor.")
        _, _ = self.part, self.trackers()
        # A misspelt text would pass in silence where nothing is trained.
        if not self.allow_missing:
            from benchmark.data.corpora import CORPUS, PAIRS, check_texts

            check_texts(self.corpus, CORPUS)
            check_texts(self.pairs, PAIRS)

    def trackers(self) -> Trackers | None:
        """Return the trackers to report to; raises UsageError or MissingError if a tracker is not available."""
        if self.tracker is None:
            if self.tracker_folder is not None:
                raise UsageError(
                    f"--tracker-folder {self.tracker_folder}: name the tracker too, as --tracker tensorboard."
                )
            return None
        from benchmark.run.tracking import find_trackers

        return find_trackers(self.tracker, self.results / "trackers", self.tracker_folder)

    def recipes(self) -> dict[str, RecipeSpec]:
        """Return all recipes by name, those tuned in the results folder too."""
        return tuned_recipes(self.results) | all_recipes()


OPTIONS: dict[str, Field[Any]] = {option.name: option for option in fields(RunOptions) if option.metadata}


_LISTS = [name for name, option in OPTIONS.items() if option.metadata["several"]]
_PATHS = [name for name, option in OPTIONS.items() if str(option.type).startswith("Path")]


def _checked(content: object) -> None:
    try:
        check_values(content)
    except UsageError as error:
        raise ValueError(str(error)) from error


# The keys of a run file: `about`, which nothing reads, the options of `zoo-bench run` (`suites` is --suite), plugins.
_OPTIONS = [
    (name, "str" if name in _PATHS else str(option.type).removesuffix(" | None"))
    for name, option in OPTIONS.items()
    # The jobs of an array share a file.
    if name != "shard"
]
_Content = make_dataclass(
    "_Content",
    [(name, f"{kind} | None", None) for name, kind in [("about", "str"), *_OPTIONS, ("plugins", "tuple[str, ...]")]],
    namespace={"__post_init__": _checked},
    frozen=True,
    kw_only=True,
)


def read_run_file(name: str) -> tuple[list[dict[str, Any]], NamedRunFile]:
    """Return the runs in a run file, each as fields of `RunOptions`, and the file's identity for records.

    A file with a list `runs` has several; the keys beside the list hold for each. `name` is a path, or the name of a
    shipped file (`sts-main`, `runs/sts-main.yaml`). Raises UsageError for a file that is not there, for an unknown key,
    and for a value of another kind.
    """
    path = run_file_path(name)
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UsageError(
            f"{path}: a run file is a mapping with the keys {', '.join(f.name for f in fields(_Content))}."
        )
    several = content.pop("runs", [{}])
    if not isinstance(several, list) or not several or not all(isinstance(run, dict) for run in several):
        raise UsageError(f"{path}: runs is a list of mappings, each with the keys of a run file.")
    options = [_options_of({**content, **run}, path) for run in several]
    return options, NamedRunFile(name=name, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def _options_of(content: dict[str, Any], path: Path) -> dict[str, Any]:
    if "suite" in content:
        if "suites" in content:
            raise UsageError(f"{path}: suite and suites are one key; keep one of them.")
        content["suites"] = content.pop("suite")
    values = {key: _joined(value) if key in _LISTS else value for key, value in content.items()}
    if values.get("workers") == "auto":
        del values["workers"]
    given: Any = build(_Content, values, str(path))
    options = {f.name: getattr(given, f.name) for f in fields(given) if getattr(given, f.name) is not None}
    options.pop("about", None)
    if "plugins" in options:
        options["plugins"] = tuple(user_path(option) for option in options["plugins"])
    for key in _PATHS:
        if key in options:
            options[key] = user_path(options[key])
    return options


def _joined(value: object) -> object:
    """Return a list of texts in the form of the command line: a text with commas."""
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return ",".join(value)
    return value


def run_file_path(name: str) -> Path:
    """Return the path of a run file: `name` itself if it exists, else the shipped file of that name."""
    path = user_path(name)
    if is_file(path):
        return path
    folder = resource_folder("benchmark", "configs") / "runs"
    shipped = {file.stem: file for file in sorted(folder.glob("*.yaml"))}
    plain = path.parent == Path() or path.parent.name == "runs"
    if plain and path.stem in shipped and path.suffix in ("", ".yaml"):
        return shipped[path.stem]
    if parts_of(name)[0].lower() in all_recipes():
        raise UsageError(f"{name} is a method, not a run file: `zoo-bench run --methods {name}`.")
    raise UsageError(
        f"there is no run file {name}.{did_you_mean(path.stem, shipped)} Shipped ones: {', '.join(shipped)}. Methods"
        " are named with --methods, separated by commas."
    )


def overlaid(chosen: Mapping[str, object], typed: set[str], stated: Mapping[str, object]) -> dict[str, object]:
    """Return the options of a run; typed options override the file's, and these override the defaults."""
    overlay = {key: value for key, value in stated.items() if key not in typed}
    if "methods" in typed:
        overlay.pop("label", None)
    return {**chosen, **overlay}
