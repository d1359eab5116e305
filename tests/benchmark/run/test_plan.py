"""Content keys: whatever a score depends on changes the key, and nothing else does."""

from __future__ import annotations

import copy
import dataclasses
import shutil
import typing
from pathlib import Path
from typing import Any

import pytest
from fakes import Bag, hexes, planned_run

from benchmark.data.sources import DataSource
from benchmark.keys import PROTOCOL_VERSION
from benchmark.run.options import RunOptions
from benchmark.run.plan import Inputs, Run, TrainingTexts
from benchmark.run.rows import Row
from benchmark.tasks.loaded import LoadedTask, load_tasks
from zoo.encoder import Corpus, Runtime, Traits
from zoo.errors import UsageError
from zoo.plugins import METHODS, load_plugin_file
from zoo.progress import Progress
from zoo.recipes import RecipeSpec, all_recipes

pytestmark = pytest.mark.usefixtures("fakes")

CORPUS = Corpus("text", ["one sentence", "another sentence"])


def tasks(*names: str) -> list[LoadedTask]:
    return load_tasks(names or ("pocket-words", "pocket-pairs"), DataSource(None, hub=False), None)


def plan_of(name: str = "picking", **changes: Any) -> Run:
    """Plan one method on two tasks; any input can be changed."""
    spec = changes.pop("spec", None) or RecipeSpec(name, name, "", "", "test", changes.pop("parameters", {}))
    loaded = changes.pop("tasks", None) or tasks()
    defaults = changes.pop("defaults", {})
    texts = {kind: changes.pop(kind, CORPUS if kind == "corpus" else None) for kind in ("corpus", "pairs")}
    why = {kind: changes.pop(f"no_{kind}", None) for kind in ("corpus", "pairs")}
    seeds = changes.pop("seeds", [0])
    settings: dict[str, Any] = {
        "runtime": Runtime(),
        "texts": {kind: TrainingTexts(texts[kind], why[kind]) for kind in texts},
        "dev": tasks("pocket-pairs")[0],
    }
    options = RunOptions(methods=name, limit=changes.pop("limit", None))
    return planned_run(options, [spec], loaded, seeds=seeds, defaults=defaults, **{**settings, **changes})


def keys(plan: Run) -> list[str]:
    """The keys of the cells of the first encoder."""
    return [cell.key for cell in plan.encoders[0].cells]


def other_identity(task: LoadedTask, **changes: Any) -> LoadedTask:
    assert task.data is not None
    if "version" in changes:
        return dataclasses.replace(task, task=dataclasses.replace(task.task, **changes))
    data = copy.copy(task.data)
    data.located = dataclasses.replace(task.data.located, sha256=changes["sha256"])
    return dataclasses.replace(task, data=data)


CHANGES: dict[str, Any] = {
    "recipe": {"parameters": {"salt": 1}},
    "recipe width": {"parameters": {"width": 65}},
    "corpus": {"corpus": Corpus("text", ["one sentence", "another sentence."])},
    "corpus order": {"corpus": Corpus("text", ["another sentence", "one sentence"])},
    "precision": {"runtime": Runtime(precision="bf16")},
    "limit": {"limit": 10},
    "another limit": {"limit": 11},
    "seed": {"seeds": [1]},
    "no dev": {"dev": None},
    "method": {"name": "fitted"},
}


def test_every_input_changes_the_key_of_every_cell() -> None:
    """For what an encoder depends on: all keys of all variants are different."""
    by_change = {"base": keys(plan_of())}
    by_change |= {name: keys(plan_of(**change)) for name, change in CHANGES.items()}
    dev = tasks("pocket-pairs")[0]
    by_change["dev data"] = keys(plan_of(dev=other_identity(dev, sha256=hexes("x"))))
    by_change["dev version"] = keys(plan_of(dev=other_identity(dev, version=2)))
    by_change["dev task"] = keys(plan_of(dev=tasks("pocket-words")[0]))
    every = [key for both in by_change.values() for key in both]
    assert len(set(every)) == len(every) == 2 * len(by_change)


def test_the_protocol_version_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other code, other data or another protocol: each is a cell of its own."""
    before = keys(plan_of())
    monkeypatch.setattr("benchmark.keys.PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    assert not set(before) & set(keys(plan_of()))


def test_a_task_s_data_and_version_change_its_own_cell_only() -> None:
    """New data or a new version of a task is a new cell; the encoder and other tasks keep theirs."""
    loaded = tasks()
    words, pairs = keys(plan_of())
    for change in ({"sha256": hexes("other")}, {"version": 2}):
        plan = plan_of(tasks=[other_identity(loaded[0], **change), loaded[1]])
        assert keys(plan)[0] != words
        assert keys(plan)[1] == pairs
        assert plan.encoders[0].key == plan_of().encoders[0].key


def test_seeds_share_the_row_and_nothing_else() -> None:
    """One row of the table, one encoder and one cell a seed."""
    plan = plan_of(seeds=[0, 1, 2])
    assert [encoder.seed for encoder in plan.encoders] == [0, 1, 2]
    assert len({encoder.inputs.row_key for encoder in plan.encoders}) == 1
    assert len({encoder.key for encoder in plan.encoders}) == 3
    assert len({cell.key for encoder in plan.encoders for cell in encoder.cells}) == 6
    assert keys(plan_of(seeds=[2]))[0] == plan.encoders[2].cells[0].key


@pytest.mark.slow
def test_nothing_else_changes_the_key() -> None:
    """Speed, place, labels and what other methods do are no part of a score."""
    base = keys(plan_of())
    runtime = Runtime(token_budget=99, allow_pickle=True, progress=Progress())
    assert keys(plan_of(runtime=runtime)) == base
    assert keys(plan_of(tasks=tasks()[::-1])) == base[::-1]
    assert keys(plan_of(defaults={"backbone": "unused", "revision": "unused"})) == base
    assert keys(plan_of(parameters={"salt": 0})) == base
    spec = RecipeSpec("another name", "picking", "another summary", "a paper", "another file")
    assert keys(plan_of(spec=spec)) == base


def test_what_a_method_does_not_use_does_not_change_its_key() -> None:
    """No corpus, no dev task, no seed: one cell whatever is given."""
    base = plan_of("bag")
    assert [encoder.seed for encoder in base.encoders] == [None]
    for change in (
        {"corpus": None},
        {"corpus": Corpus("x", ["y"])},
        {"dev": None},
        {"seeds": range(5)},
        {"seeds": [3]},
    ):
        plan = plan_of("bag", **change)
        assert len(plan.encoders) == 1
        assert keys(plan) == keys(base)
    without_dev = keys(plan_of("fitted"))
    assert keys(plan_of("fitted", dev=None)) == without_dev
    assert keys(plan_of("fitted", corpus=Corpus("text", ["x"]))) != without_dev


def _another(value: Any, hint: Any) -> Any:
    arguments = [a for a in typing.get_args(hint) if a is not type(None)]
    if typing.get_origin(hint) is typing.Literal:
        return next(a for a in arguments if a != value)
    if arguments and typing.get_origin(hint) is not tuple:
        return _another(value, arguments[0])
    if hint is bool:
        return not value
    if hint in (int, float):
        return (value or 1) * 2
    if hint is str:
        return f"{value}x"
    return (*value, "x")


BUILT_IN = sorted({spec.method: spec.name for spec in all_recipes().values()}.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_field_of_every_recipe_changes_the_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backbone, revision, pooling, max_length ... (fails for a field left out)."""
    spec = all_recipes()[name]
    cls, recipe = spec.resolve()
    identity = {"backbone": {"name": "same", "revision": None, "sha256": hexes("same")}}

    def sources(recipe: Any, runtime: Runtime) -> dict[str, Any]:
        named = getattr(recipe, "backbone", None) or getattr(recipe, "model", None)
        if named is None:
            return {}
        return {"backbone": {**identity["backbone"], "name": named, "revision": getattr(recipe, "revision", None)}}

    monkeypatch.setattr(cls, "sources", sources)
    monkeypatch.setattr(cls, "traits", lambda recipe: Traits(needs_corpus=True))
    hints = typing.get_type_hints(cls.Recipe)
    seen = {keys(plan_of(spec=spec))[0]: "the recipe itself"}
    for field in dataclasses.fields(cls.Recipe):
        value = _another(getattr(recipe, field.name), hints[field.name])
        parameters = {**spec.parameters, field.name: value}
        try:
            key = keys(plan_of(spec=dataclasses.replace(spec, parameters=parameters)))[0]
        except UsageError:
            continue  # the method itself refuses this combination
        assert key not in seen, f"{field.name}={value!r} has the key of {seen[key]}"
        seen[key] = field.name
    assert len(seen) > min(2, len(dataclasses.fields(cls.Recipe)))


def test_the_backbone_s_files_decide_not_their_place(tiny_bert: Path, tmp_path: Path) -> None:
    """The same files in another folder are the same backbone; one changed file is another."""
    copy = tmp_path / tiny_bert.name
    shutil.copytree(tiny_bert, copy)
    base = keys(plan_of("cls", spec=all_recipes()["cls"], defaults={"backbone": str(tiny_bert)}))
    assert keys(plan_of("cls", spec=all_recipes()["cls"], defaults={"backbone": str(copy)})) == base
    config = copy / "config.json"
    config.write_text(config.read_text().replace('"gelu"', '"relu"'))
    assert not set(keys(plan_of(spec=all_recipes()["cls"], defaults={"backbone": str(copy)}))) & set(base)


PLUGIN = """
from fakes import Bag
from zoo.plugins import register_method

@register_method({name!r})
class Mine(Bag):
    def encode(self, texts):
        vectors = super().encode(texts)
        vectors[:, :8] *= {factor}
        return vectors
"""


def load_plugin(path: Path, name: str, factor: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(PLUGIN.format(name=name, factor=factor))
    assert load_plugin_file(path, [METHODS]) is None


def test_a_plugin_s_file_is_its_key(tmp_path: Path) -> None:
    """Moving its file changes nothing; another factor in it does."""
    load_plugin(tmp_path / "a" / "mine.py", "mine", 1)
    base = keys(plan_of("mine"))
    METHODS._entries.pop("mine")
    load_plugin(tmp_path / "b" / "mine.py", "mine", 1)
    assert keys(plan_of("mine")) == base
    METHODS._entries.pop("mine")
    load_plugin(tmp_path / "c" / "mine.py", "mine", 2)
    assert not set(keys(plan_of("mine"))) & set(base)


def test_a_method_is_given_and_keyed_by_the_pairs_that_it_reads() -> None:
    nli = Corpus("nli", ["a", "b", "c", "d"], ["entailment", "neutral"])
    joined = Corpus("nli+ppdb", [*nli.sentences, "e", "f"], ["entailment", "neutral", "ppdb:independent"])
    other = Corpus("nli+ppdb", [*nli.sentences, "g", "h"], ["entailment", "neutral", "ppdb:independent"])

    def planned(name: str, pairs: Corpus) -> Inputs:
        return plan_of(spec=all_recipes()[name], pairs=pairs).encoders[0].inputs

    whitening, joint = planned("whitening-nli", joined), planned("burt", joined)
    assert whitening.corpus is not None and whitening.corpus.sentences == nli.sentences
    assert whitening.corpus_identity == {**nli.identity(), "name": "NLI pairs of nli+ppdb"}
    assert joint.corpus is joined and joint.corpus_identity == joined.identity()
    assert planned("whitening-nli", other).row_key == whitening.row_key  # the phrases are none of its business
    assert planned("burt", other).row_key != joint.row_key
    assert planned("whitening-nli", nli).corpus_identity == nli.identity()


def test_plugins_of_the_same_file_name_have_their_own_keys(tmp_path: Path) -> None:
    """Two plugins called methods.py in different folders: each key follows its class."""
    load_plugin(tmp_path / "a" / "methods.py", "mine", 1)
    load_plugin(tmp_path / "b" / "methods.py", "theirs", 1)
    ours, theirs = keys(plan_of("mine")), keys(plan_of("theirs"))
    (tmp_path / "a" / "methods.py").write_text(PLUGIN.format(name="mine", factor=3))
    assert not set(keys(plan_of("mine"))) & set(ours)
    assert keys(plan_of("theirs")) == theirs and not set(ours) & set(theirs)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ((), ""),
        (("needs_corpus",), "corpus"),
        (("needs_corpus", "needs_neighbours"), "neighbours"),
        (("needs_corpus", "reads_target", "needs_neighbours"), "target"),
        (("needs_pairs", "needs_corpus"), "pairs"),
    ],
)
def test_the_kind_of_text_follows_from_the_traits(fields: tuple[str, ...], kind: str) -> None:
    assert Row("m", Bag, None, Traits(**dict.fromkeys(fields, True)), "m").text_kind == kind
