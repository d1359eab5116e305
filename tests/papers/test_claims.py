"""The papers' claims: references are checked at loading, and verdicts agree with ones computed by hand."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from fakes import Cli, make_record
from msgspec.structs import replace

from benchmark.metrics.items import accuracy_of, items_part
from benchmark.records.folder import Records
from benchmark.records.names import typed_recipe
from benchmark.records.record import scores_of
from benchmark.report.conditions import recipes
from benchmark.report.table import read_completed
from benchmark.stats.compare import compare
from benchmark.tasks import TASKS
from zoo_bench_papers import answers
from zoo_bench_papers.answers import AT_SCALE, CONFIRMED, NOT_MEASURED, REVERSED, SMALLER, SO_FAR, UNDECIDED, UNTESTABLE
from zoo_bench_papers.claim_rows import Folder
from zoo_bench_papers.claims import CODE, READING, TEXT, Claim, all_claims, open_points, read_claims, tasks_of
from zoo_bench_papers.comparisons import Place
from zoo_bench_papers.ledger import changes, markdown
from zoo_bench_papers.verdicts import Verdict, verdicts

ROOT = Path(__file__).parents[2]
SOURCES = [
    ROOT / "papers" / "configs" / "claims" / f"{name}.yaml"
    for name in ("ptbert", "burt", "promptbert", "cited", "later")
]
CELL = {"table": "3", "a": "PT-BERT", "b": "SimCSE-BERT", "columns": ["Avg"]}
GOOD: dict[str, Any] = {
    "id": "one",
    "where": "section 4.4",
    "says": "PT-BERT is above SimCSE.",
    "kind": "above",
    "on": ["sts"],
    "contrasts": [["ptbert", "simcse"]],
    "published": [CELL],
}


def read(path: Path, **changes: Any) -> Claim:
    entry = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    file = path / "claims.yaml"
    file.write_text(yaml.safe_dump({"paper": "PT-BERT", "claims": [entry]}), encoding="utf-8")
    (claim,) = read_claims(file)
    return claim


def test_every_claim_has_a_cell_or_a_place() -> None:
    claims = all_claims()
    assert len(claims) >= 180
    assert len({one.id for one in claims}) == len(claims)
    for claim in claims:
        assert claim.published or any(
            word in claim.where.lower() for word in ("section", "table", "figure", "abstract")
        )
        assert claim.says.endswith(".")
        assert claim.untestable or claim.evidence or claim.needs or (claim.on and claim.pairs())
        assert {len(pair) for pair in (*claim.contrasts, *claim.controls)} <= {2, 4}
        rows = {name for _, of in claim.procedures() for pair in (*of.pairs(), *of.controls) for name in pair}
        assert {typed_recipe(name)[0] for name in rows} <= set(recipes()), claim.id
        assert all(task in TASKS for place in claim.on for task in tasks_of(place)), claim.id
        assert (claim.kind in ("not-below", "equal")) == (claim.margin > 0) == bool(claim.margin_from), claim.id
        assert len(claim.gains) in (0, len(claim.pairs()) if len(claim.pairs()) > 1 else len(claim.on)), claim.id
    raw = [entry for path in SOURCES for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["claims"]]
    cells = [cell for entry in raw for cell in entry.get("published", [])]
    assert len(cells) > 150
    assert all(set(cell) <= {"paper", "table", "backbone", "setting", "metric", "a", "b", "columns"} for cell in cells)


def test_the_printed_difference_is_computed(tmp_path: Path) -> None:
    (cell,) = read(tmp_path).published
    assert cell.value == pytest.approx(77.74 - 76.25)
    source = "50 seeds of SimCSE, simple-simcse, results/bert-base-uncased.csv"
    assert cell.spread() == (0.84, source)  # not the ten seeds of PromptBERT's table 10, 0.86
    assert cell.text() == (f"+1.49 (PT-BERT, table 3, Avg: PT-BERT, SimCSE-BERT; 1.8 standard deviations of {source})")


def test_a_claim_has_the_rows_of_the_released_code_first(tmp_path: Path) -> None:
    """Where paper and code differ. Overrides and sizes are kept; a claim on other rows has one reading."""
    both = {"ptbert": "ptbert-repo", "ptbert-l64": "ptbert-repo:pseudo_tokens=64"}
    claim = read(tmp_path, contrasts=[["ptbert:queue_size=64", "ptbert-l64"]], released=both)
    (first, code), (second, text) = claim.procedures()
    assert (first, second) == (CODE, READING), "the paper leaves points of ptbert open, which we fill"
    assert code.contrasts == (("ptbert-repo:queue_size=64", "ptbert-repo:pseudo_tokens=64"),)
    assert text is claim
    assert read(tmp_path, contrasts=[["simcse", "clear"]], released=both).procedures()[0][0] == ""


def test_the_paper_decides_only_where_it_leaves_nothing_open() -> None:
    """A recipe's own overrides close a point; the code's recipe has none open."""
    assert open_points(["ptbert", "ptbert-repo", "simcse"]) == {"ptbert": 5}
    assert open_points(["ptbert:mlp=false", "clear"]) == {"ptbert": 4, "clear": 3}
    claims = {one.id: one for one in all_claims()}

    def names(claim: Claim) -> list[str]:
        return [name for name, _ in claim.procedures()]

    assert names(claims["ptbert-above-simcse-sts"]) == [CODE, READING]
    stated = replace(claims["mixcse-above-simcse"], contrasts=(("simcse", "cls"),), released={"simcse": "simcse-dcl"})
    assert names(stated) == [CODE, TEXT]


@pytest.mark.parametrize(
    ("low", "high", "line", "printed", "expected"),
    [
        (0.2, 0.9, 0, 0.5, CONFIRMED),
        (0.2, 0.9, 0, None, CONFIRMED),
        (0.6, 0.9, 0, 0.5, CONFIRMED),  # larger than printed
        (0.2, 0.9, 0, -0.5, CONFIRMED),  # printed against the claim
        (-0.22, 0.72, 0, 1.49, SMALLER),
        (0.1, 0.72, 0, 1.49, SMALLER),
        (-0.9, -0.1, 0, 1.49, REVERSED),
        (-0.9, -0.1, 0, None, REVERSED),
        (-0.9, 0.1, 0, None, UNDECIDED),
        (-0.9, 1.5, 0, 1.49, UNDECIDED),
        (0.0, 0.0, 0, None, UNDECIDED),  # equal rows
        (-0.26, 0.62, -1, 0.29, CONFIRMED),  # no loss of more than a point
        (-0.8, -0.2, -1, 0.29, SMALLER),
        (-1.8, 0.5, -1, 0.29, UNDECIDED),
        (-1.8, 0.2, -1, 0.29, SMALLER),
        (-1.8, -1.1, -1, 0.29, REVERSED),
        (-0.8, -0.2, -1, -3.4, CONFIRMED),
    ],
)
def test_one_interval_decides_the_word(
    low: float, high: float, line: float, printed: float | None, expected: str
) -> None:
    assert answers.word(low, high, line, printed) == expected


def test_a_claim_about_all_has_the_word_of_the_one_that_fails() -> None:
    assert answers.of_all([CONFIRMED, UNDECIDED, SMALLER]) == SMALLER
    assert answers.of_all([CONFIRMED, REVERSED, SMALLER]) == REVERSED
    assert answers.of_all([CONFIRMED, UNDECIDED]) == UNDECIDED
    assert answers.of_all([CONFIRMED, CONFIRMED]) == CONFIRMED


def test_few_updates_say_no_more_than_so_far() -> None:
    assert [answers.scale(share, small) for share, small in ((0.049, True), (0.05, True), (None, True))] == [
        SO_FAR,
        AT_SCALE,
        AT_SCALE,
    ]
    assert answers.scale(1.0, small=False) == ""


def test_a_contrast_has_the_printed_difference_of_its_rows_and_place() -> None:
    """Of its own cells, in its direction; of a text; of one contrast whose rows are printed under other names."""
    claims = {one.id: dict(one.procedures()) for one in all_claims()}

    def printed(id: str, pair: tuple[str, ...], place: str, of: str = "") -> float | None:
        value = claims[id][of].printed(pair, place)
        return None if value is None else round(value, 2)

    assert printed("ptbert-above-simcse-sts", ("ptbert-repo", "simcse"), "sts", CODE) == 1.49
    assert printed("ptbert-above-simcse-sts", ("simcse", "ptbert-repo"), "sts", CODE) == -1.49
    assert printed("sickr-not-improved", ("simcse", "ptbert-repo"), "SICK-R", CODE) == 0.29
    assert printed("diffcse-above-simcse", ("diffcse", "simcse"), "sts") == 2.3
    assert printed("rankcse-above-simcse-and-diffcse", ("rankcse", "diffcse"), "sts") == 1.87
    assert printed("sif-above-plain-average", ("sif", "glove"), "STS15") == 19.0, "by place"
    words = "infersent-above-averaged-word-vectors", ("infersent-glove", "glove")
    assert printed(*words, "transfer") == 4.07
    assert printed(*words, "sts") == 3.69, "a gain that is left out is that of the cells"
    assert printed("clear-below-simcse", ("simcse", "clear"), "sts") == 14.45
    four = ("simcse-sup", "simcse", "promptbert-sup-repo", "promptbert-repo")
    assert printed("unsupervised-supervised-gap-narrows", four, "sts") == 1.89
    assert printed("all-objectives-keep-sentences", ("burt", "burt-nli"), "STS12,STS13,STS14,STS15,STS16") == 0.2
    assert printed("sentences-above-all-baselines", ("burt", "glove"), "sts") is None, "another protocol"


SEEDS = (None, 0, 1, 2)


CASES = {
    "unsupervised-bert-above-simcse": UNTESTABLE,  # an untrained template is below the average
    "simcse-plus-plus-above-simcse": SMALLER,  # above 0, and not by the abstract's 1.8
    "static-average-above-last-layer": UNTESTABLE,  # labelled ancestry
    "ptbert-above-simcse-sts": SMALLER,  # the released code's rows come first
}


@functools.cache  # seconds for each folder
def of_published(name: str) -> list[Verdict]:
    return of_folder(ROOT / "leaderboards" / name)


def of_folder(folder: Path, seeds: tuple[int | None, ...] = SEEDS) -> list[Verdict]:
    store = Records(folder)
    return verdicts(folder, store, [record for record in read_completed(store) if record["seed"] in seeds])


def test_one_comparison_that_is_reversed_refutes_the_claim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Supervised SimCSE is above SimCSE, and PromCSE below it."""
    claim = read(tmp_path, contrasts=[["simcse-sup", "simcse"], ["promcse", "simcse"]], published=None)
    monkeypatch.setattr("zoo_bench_papers.verdicts.all_claims", lambda: (claim,))
    (verdict,) = of_folder(ROOT / "leaderboards" / "zoo-small")
    assert verdict.text().startswith(
        "reversed so far on 1 of 2 comparisons; 1 confirmed; trained 2 % as long as the paper"
    )
    assert "unequal evaluation interval" in verdict.text()
    assert (verdict.above, verdict.as_large) == ("1 yes, 1 no", "")


@pytest.mark.slow
def test_tuned_rows_are_compared_with_tuned_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A verdict under each condition; the table of both names what tuning changed."""
    monkeypatch.setattr(
        "zoo_bench_papers.verdicts.all_claims", lambda: (read(tmp_path, contrasts=[["ptbert-tokens", "simcse"]]),)
    )
    paper, tuned = of_folder(ROOT / "leaderboards" / "zoo-small-tuned")
    assert paper.condition.endswith("the papers' settings")
    assert tuned.condition.endswith("tuned (12 trials on stsb-dev-disjoint)")
    assert (paper.word, tuned.word) == (REVERSED, SMALLER)
    assert paper.compared[0].difference == pytest.approx(-1.87, abs=0.01)
    assert tuned.compared[0].difference == pytest.approx(0.12, abs=0.01)
    assert changes([paper, tuned]) == [["`one`", paper.text(), tuned.text()]]
    assert "Of 1 verdicts under both settings 1 changed: `one`." in markdown([paper, tuned])


def test_pearson_is_the_mean_over_subsets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SIF's metric, from the records; in it SIF is above GloVe's average on STS12, where Spearman over all is below."""
    sif = {"on": ["STS12"], "contrasts": [["sif", "glove"]], "published": None}
    pearson, spearman = (read(tmp_path, **sif, metric=metric) for metric in ("pearson", None))
    monkeypatch.setattr("zoo_bench_papers.verdicts.all_claims", lambda: (pearson, spearman))
    first, second = of_folder(ROOT / "leaderboards" / "zoo-small")
    store = Records(ROOT / "leaderboards" / "zoo-small")
    of = {r["method"]["name"]: r for r in read_completed(store) if r["task"]["name"] == "STS12"}
    means = [
        np.mean([part["pearson"] for part in scores_of(of[name])["subsets"].values()]) for name in ("sif", "glove")
    ]
    assert first.compared[0].difference == pytest.approx(100 * (means[0] - means[1]))
    assert second.compared[0].difference < 0 < first.compared[0].low  # type: ignore[operator]


@pytest.mark.slow
def test_one_seed_is_not_measured() -> None:
    by_claim = {one.claim.id: one for one in of_folder(ROOT / "leaderboards" / "zoo-small", (None, 0))}
    claim = by_claim["unsupervised-bert-above-simcse"]
    assert (claim.word, claim.deciding) == (NOT_MEASURED, [])
    assert claim.reason == "one seed of promptbert-repo, one seed of simcse"
    assert claim.command.startswith("zoo-bench run --results")
    assert claim.command.endswith(
        "--precision bf16 --seeds 3 --backbone zoo-small --corpus wiki --train-sentences 20000 --pairs nli+ppdb2-human"
        " --train-pairs 20000 --suite sts --methods promptbert-repo,simcse"
    )
    assert by_claim["static-average-above-last-layer"].compared[0].difference is not None  # rows without seeds


@pytest.mark.slow
def test_the_command_writes_the_tables(tmp_path: Path, cli: Cli) -> None:
    import shutil

    folder = tmp_path / "results"
    shutil.copytree(ROOT / "leaderboards" / "zoo-small", folder)
    for name in ("claims.md", "claims.json"):
        (folder / name).unlink(missing_ok=True)
    done = cli("claims", "--results", folder, "--paper", "PromptBERT")
    assert not list(folder.glob("claims.*")), "a look writes nothing"
    assert "unsupervised-bert-above-simcse (PromptBERT" in done.out
    heads = re.findall(r"^(\w[\w ]+): \d+ claims?$", done.out, re.M)
    assert "Confirmed" not in heads[:-1] and len({*heads}) == len(heads) > 1
    names = re.findall(r"^([\w-]+) \(PromptBERT\)$", done.out, re.M)
    assert len(names) == len({*names}) > 5, "each claim once"
    assert "(SimCSE" not in done.out
    cli("claims", "--results", folder)
    text = (folder / "claims.md").read_text(encoding="utf-8")
    assert "### SimCSE" in text and str(tmp_path) not in text and f"--results {folder.name} " in text
    written = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    assert {one["id"] for at in written for one in at["claims"]} == {one.id for one in all_claims()}


def test_a_difference_of_two_differences(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is in both differences cancels, also in the error: (simcse - cls) - (x - cls) is simcse - x."""
    four = read(tmp_path, contrasts=[["simcse", "cls", "ptbert-tokens", "cls"], ["simcse", "ptbert-tokens"]])
    monkeypatch.setattr("zoo_bench_papers.verdicts.all_claims", lambda: (four,))
    (verdict,) = of_folder(ROOT / "leaderboards" / "zoo-small")
    first, second = verdict.compared
    assert (first.a, first.b) == ("(simcse - cls)", "(ptbert-tokens - cls)")
    assert first.difference == pytest.approx(second.difference)
    assert (first.low, first.high) == pytest.approx((second.low, second.high), rel=0.2)  # other degrees of freedom
    assert first.seen / second.seen == pytest.approx(1, rel=0.2)


def _of_accuracies(
    store: Records, name: str, versions: tuple[int, ...] = (1,), bits: bool = True, version: int = 1
) -> None:
    """Write a row of three seeds on MR, each with a bit per item; `version` is its method's."""
    for seed in range(3):
        right = np.random.default_rng([seed, len(name)]).random(400) < (0.8 if name == "simcse" else 0.6)
        items = items_part(right, range(400))
        scores = {"main": accuracy_of(items), "main_metric": "accuracy", "reason": None}
        kept = {"items": items} if bits else {}
        record = make_record(name, "MR", seed, scores=scores, training={"steps": 9}, **kept)
        record["task"]["version"] = versions[seed % len(versions)]
        if version > 1:
            record["method"]["version"] = version
            record |= {key: 8 * f"{version}" + record[key][8:] for key in ("key", "row_key", "encoder_key")}
        store.write(record)


def test_claims_on_accuracies_rest_on_the_items(tmp_path: Path) -> None:
    """The interval is that of `compare` for the same two rows."""
    store = Records(tmp_path)
    for name in ("simcse", "clear"):
        _of_accuracies(store, name)
    read_all = store.all()
    folder = Folder(tmp_path, store, read_all)
    place = Place(folder, "MR", [("simcse", "clear")], folder.conditions[0])
    comparison = place.compare(("simcse", "clear"), read(tmp_path), {})
    a, b = ([record for record in read_all if record["method"]["name"] == name] for name in ("simcse", "clear"))
    (line,) = compare("", ["MR"], a, b, store).lines
    assert comparison.difference == pytest.approx(line.difference) and line.low is not None and line.high is not None
    assert [comparison.low, comparison.high] == pytest.approx([line.low, line.high], abs=0.4)


@pytest.mark.parametrize(
    ("versions", "bits", "why"),
    [
        ((1,), False, "no item scores, so no interval"),
        ((1, 2), True, "clear: it was measured by two versions of its task"),
        ((1, 1, 2), False, "clear: it was measured by two versions of its task"),
    ],
)
def test_a_claim_says_why_a_row_has_no_interval(
    tmp_path: Path, versions: tuple[int, ...], bits: bool, why: str
) -> None:
    store = Records(tmp_path)
    _of_accuracies(store, "simcse")
    _of_accuracies(store, "clear", versions, bits)
    folder = Folder(tmp_path, store, store.all())
    place = Place(folder, "MR", [("simcse", "clear")], folder.conditions[0])
    comparison = place.compare(("simcse", "clear"), read(tmp_path), {})
    assert comparison.difference is None and comparison.reason.startswith(why)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_of_a_row_that_two_versions_of_its_method_measured_the_newest_counts(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    """Here the older one has no bits of items, so it would have no interval."""
    store = Records(tmp_path)
    _of_accuracies(store, "simcse")
    for version in order:
        _of_accuracies(store, "clear", bits=version > 1, version=version)
    folder = Folder(tmp_path, store, store.all())
    row = folder.row("clear", ("MR",), folder.conditions[0])
    assert not isinstance(row, str) and row[0].version == 2 and len(row[1]["MR"]) == 3


def test_a_claim_says_why_its_row_failed(tmp_path: Path) -> None:
    store = Records(tmp_path)
    _of_accuracies(store, "simcse")
    record = make_record("echo", "MR", None, status="failed", reason="it needs a decoder.")
    store.write(record | {"scores": None})
    folder = Folder(tmp_path, store, store.all())
    assert folder.row("echo", ("MR",), folder.conditions[0]) == "echo failed: it needs a decoder"
    assert folder.row("echo", ("CR",), folder.conditions[0]) == "no row echo"
