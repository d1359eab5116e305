"""Template search: scores against a plain forward and scipy, the greedy order, resuming, bad input, generation."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import Cli
from scipy.stats import spearmanr
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from benchmark.data.sources import DataSource
from benchmark.tasks import TASKS
from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, find_backbone
from zoo.errors import UsageError
from zoo.files import read_signed, write_signed
from zoo.paths import resource_folder
from zoo.progress import Bar, Progress
from zoo_bench_papers.template_search import generate as search_generate
from zoo_bench_papers.template_search.generate import Definition, GapFiller, generate_templates, load_seq2seq
from zoo_bench_papers.template_search.scores import DevScorer, Search, spearman_of
from zoo_bench_papers.template_search.search import Lists, Parts, greedy, read_lists, read_templates

PAPER = 'This sentence : "[X]" means [MASK] .'
LISTS = """
relationships: ["", means, is]
prefixes: ["", "This sentence :"]
quotes: ["[X]", '"[X]"']
endings: [".", "!"]
"""


def scorer_on(name: str, task: str, data: str | None, limit: int, runtime: Runtime | None = None) -> DevScorer:
    """A scorer on the first pairs of a task's development split."""
    runtime = runtime or Runtime()
    loaded = TASKS.get(task).load(DataSource.from_options(data, hub=False), limit)
    return DevScorer(Backbone.load(name, None, runtime), loaded, runtime)


def plain_states(folder: Path, template: str, texts: list[str]) -> np.ndarray[Any, Any]:
    """[MASK] states by transformers alone: the filled template tokenised whole, one text at a time."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    states = []
    for text in texts:
        filled = template.replace("[X]", text).replace("[MASK]", tokenizer.mask_token)
        batch = tokenizer(filled, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state[0]
        (at,) = (batch["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
        states.append(hidden[at].double().numpy())
    return np.stack(states)


def plain_score(states: dict[str, Any], data: Any) -> float:
    """Spearman by scipy of the gold scores and the cosines of `plain_states`, by text."""
    first, second = (np.stack([states[text] for text in side]) for side in (data.dev.first, data.dev.second))
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return float(spearmanr((first * second).sum(1) / norms, data.dev.gold).statistic)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backbone", "templates"),
    [
        ("tiny_bert", [PAPER, "[X] [MASK] .", "Also called [MASK]. [X]", "( [X] ) is the [MASK]"]),
        # Quotes that touch the sentence merge with its last mark in a byte-level vocabulary; table 13 keeps them apart.
        ("tiny_roberta", ["This sentence : ' [X] ' means [MASK] .", "[X] means [MASK] ."]),
    ],
)
def test_score_is_scipys_of_a_plain_forward(
    backbone: str, templates: list[str], request: pytest.FixtureRequest
) -> None:
    """Tokenised apart and batched by length, a template has the states and the score of the whole string alone."""
    folder = request.getfixturevalue(backbone)
    scorer = scorer_on(str(folder), "pocket-pairs", None, 30, Runtime(token_budget=300))
    scores = []
    for template in templates:
        plain = plain_states(folder, template, scorer.texts)
        assert np.allclose(scorer.vectors(template)(scorer.texts), plain, atol=2e-5), template
        scores.append(scorer(template))
        # Two cosines equal up to float32's noise may change places: one swap of 30 is worth 0.0004.
        wanted = plain_score(dict(zip(scorer.texts, plain, strict=True)), scorer.data)
        assert scores[-1] == pytest.approx(wanted, abs=2e-3), template
    assert len({round(score or 0.0, 2) for score in scores}) == len(templates)  # so that no mix-up goes unseen


@pytest.mark.slow
def test_shipped_lists_are_the_papers_templates(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    """Table 4's eight and section 4.2's one, against the published scores; --period is another search."""
    _, published = read_lists()
    folder = resource_folder("zoo_bench_papers", "configs") / "search"
    shipped = [read_templates(folder / f"promptbert-{name}.txt") for name in ("table4", "section4.2")]
    assert [len(one) for one in shipped] == [8, 1] and [t for one in shipped for t in one] == list(published)
    arguments = ("search-templates", "--backbone", tiny_bert, "--dev", "pocket-pairs", "--limit-pairs", 12)
    for more in ((), ("--period",)):
        answer = cli(*arguments, "--templates", "promptbert-table4", "--out", tmp_path, *more)
        assert answer.code == 0, answer.err
    tables = [path.read_text(encoding="utf-8") for path in (tmp_path / "template-search").glob("*/listed.md")]
    assert len(tables) == 2 and {"a period" in text for text in tables} == {True, False}
    assert "39.34" in tables[0] and "73.44" in tables[0]


def make_search(folder: Path, scorer: Any, conditions: str = "these") -> Search:
    return Search(folder, {"conditions": conditions}, {}, scorer, Progress.silent())


def test_greedy_order_against_a_hand_count(tmp_path: Path) -> None:
    """Relationships first, then prefixes x quotes with the best of them, then endings; each template once."""
    worth = {"": 0.0, "is": 0.2, "means": 0.3, "This": 0.05, "This sentence :": 0.1, "[X]": 0.0, '"[X]"': 0.03}
    worth |= {".": 0.0, "!": -0.01, "?": 0.02}
    lists = Lists(
        relationships=("", "is", "means"),
        prefixes=("", "This", "This sentence :"),
        quotes=("[X]", '"[X]"'),
        endings=(".", "!", "?"),
    )
    value = {
        Parts(r, p, q, e).text: worth[r] + worth[p] + worth[q] + worth[e]
        for r in lists.relationships
        for p in lists.prefixes
        for q in lists.quotes
        for e in lists.endings
    }
    asked: list[str] = []

    def scorer(template: str) -> float:
        asked.append(template)
        return value[template]

    stages = greedy(make_search(tmp_path, scorer), lists, keep=1)
    assert asked == [
        "[X] [MASK] .",
        "[X] is [MASK] .",
        "[X] means [MASK] .",
        '"[X]" means [MASK] .',
        "This [X] means [MASK] .",
        'This "[X]" means [MASK] .',
        "This sentence : [X] means [MASK] .",
        'This sentence : "[X]" means [MASK] .',
        'This sentence : "[X]" means [MASK] !',
        'This sentence : "[X]" means [MASK] ?',
    ]
    assert [len(rows) for rows in stages.values()] == [3, 5, 2]
    assert max(value, key=lambda text: value[text]) == asked[-1]


def test_keep_finds_what_one_relationship_misses(tmp_path: Path) -> None:
    """The second best relationship is the best one with a prefix: `keep` 2 finds it, 1 (the paper's) does not."""
    lists = Lists(relationships=("is", "means"), prefixes=("", "This"))
    value = {"[X] is [MASK] .": 0.5, "[X] means [MASK] .": 0.4, "This [X] is [MASK] .": 0.3}

    def best(keep: int) -> str:
        search = make_search(tmp_path / str(keep), lambda template: value.get(template, 0.9))
        greedy(search, lists, keep)
        return str(search.best(search.results.values())[0]["template"])

    assert (best(1), best(2)) == ("[X] is [MASK] .", "This [X] means [MASK] .")


def test_a_killed_search_goes_on(tmp_path: Path) -> None:
    """Killed in the fourth template, the next run scores only the rest; damage and other conditions are noticed."""
    templates = [f"[X] {word} [MASK] ." for word in "a b c d e f".split()]
    asked: list[str] = []

    def scorer(template: str, dies_at: str | None = None) -> float:
        asked.append(template)
        if template == dies_at:
            raise KeyboardInterrupt
        return len(asked) / 10

    with pytest.raises(KeyboardInterrupt):
        make_search(tmp_path, lambda template: scorer(template, templates[3])).score(templates, Bar())
    asked.clear()
    results = make_search(tmp_path, scorer).score(templates, Bar())
    assert asked == templates[3:]
    assert [r["spearman"] for r in results] == [0.1, 0.2, 0.3, 0.1, 0.2, 0.3]
    records = sorted((tmp_path / "records").iterdir())
    assert len(records) == 6
    records[0].write_text(records[0].read_text(encoding="utf-8")[:40], encoding="utf-8")
    changed = json.loads(records[1].read_text(encoding="utf-8"))
    records[1].write_text(json.dumps({**changed, "spearman": "high"}), encoding="utf-8")
    asked.clear()
    make_search(tmp_path, scorer).score(templates, Bar())
    assert len(asked) == 2
    asked.clear()
    make_search(tmp_path, scorer, "others").score(templates, Bar())
    assert asked == templates


@pytest.mark.slow
def test_command_tables_and_second_run(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    """Tables in three forms agree with the records; the second run scores nothing and writes the same rows."""
    (tmp_path / "own.yaml").write_text(LISTS, encoding="utf-8")
    arguments = ("search-templates", "--backbone", tiny_bert, "--dev", "pocket-pairs", "--limit-pairs", 12)
    arguments += ("--lists", tmp_path / "own.yaml", "--precision", "fp32", "--out", tmp_path / "out")
    answer = cli(*arguments)
    assert answer.code == 0, answer.err
    assert "7 templates: 7 scored" in answer.err
    (folder,) = (tmp_path / "out" / "template-search").iterdir()
    table = json.loads((folder / "greedy.json").read_text(encoding="utf-8"))
    assert [row["stage"] for row in table["rows"]] == ["Relationship tokens"] * 3 + ["Prefix tokens"] * 3 + [
        "Punctuation"
    ]
    by_template = {row["template"]: row for row in table["rows"]}
    for record in (folder / "records").iterdir():
        kept = json.loads(record.read_text(encoding="utf-8"))
        assert by_template[kept["template"]]["spearman"] == pytest.approx(100 * kept["spearman"])
        assert kept["conditions"]["data"]["pairs"] == 12
    best = max(table["rows"], key=lambda row: row["spearman"])
    markdown = (folder / "greedy.md").read_text(encoding="utf-8")
    assert f"| `{best['template']}` | **{best['spearman']:.2f}** |" in markdown
    assert "| 39.34 |" in markdown
    csv = (folder / "greedy.csv").read_text(encoding="utf-8").splitlines()
    assert len(csv) == 8
    assert f"{best['spearman']:.2f}" in answer.out.splitlines()[0]
    again = cli(*arguments)
    assert "0 scored" in again.err
    assert "7 kept" in again.err
    assert json.loads((folder / "greedy.json").read_text(encoding="utf-8"))["rows"] == table["rows"]


WORDS = ["▁also", "▁called", "▁is", ".", "▁a", "▁dog", "▁pet", "▁round", "▁fruit", "▁orange"]
DEFINITIONS = [Definition("dog", "a pet"), Definition("orange", "a round fruit"), Definition("pet", "a dog")]


@pytest.fixture(scope="module")
def tiny_t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random one-layer T5 whose tokenizer knows ten words and three sentinels."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    folder = tmp_path_factory.mktemp("seq2seq") / "tiny-t5"
    pieces = [(token, 0.0) for token in ("<pad>", "</s>", "<unk>")] + [(word, -2.0) for word in WORDS]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    sentinels = [f"<extra_id_{i}>" for i in range(3)]
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>", *sentinels])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=24,  # more rows than tokens, as in the released models
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_beam_search_against_every_filling(tiny_t5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A beam wide enough is exact: the same fillings, in the same order, as scoring each by teacher forcing."""
    monkeypatch.setattr(search_generate, "MAX_TOKENS", 4)
    monkeypatch.setattr(search_generate, "_ROWS", 64)
    model, tokenizer = load_seq2seq(find_backbone(str(tiny_t5)), Runtime())
    inputs = [f"{d.text} <extra_id_0> {d.word} <extra_id_1>" for d in DEFINITIONS]
    vocabulary = tokenizer.get_vocab()
    first, second, third = (vocabulary[f"<extra_id_{i}>"] for i in range(3))
    words = [vocabulary[word] for word in WORDS]
    gaps = [(a, b) for a in range(3) for b in range(3) if a + b <= 2]
    fillings = [
        [first, *between, second, *right, end]
        for a, b in gaps
        for between in itertools.product(words, repeat=a)
        for right in itertools.product(words, repeat=b)
        for end in (third, vocabulary["</s>"])
    ]
    expected = np.zeros(len(fillings))
    for text in inputs:  # alone, so without padding
        batch = tokenizer(text, return_tensors="pt")
        for length in (3, 4, 5):
            rows = [number for number, filling in enumerate(fillings) if len(filling) == length]
            labels = torch.tensor([fillings[row] for row in rows])
            with torch.no_grad():
                logits = model(**{name: ids.repeat(len(rows), 1) for name, ids in batch.items()}, labels=labels).logits
            steps = logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
            expected[rows] += steps[:, 1:].sum(1).numpy() / len(inputs)  # <extra_id_0> is given, not chosen
    filled = GapFiller(model, tokenizer, Runtime()).fill(inputs, width=20_000, bar=Bar())  # wide enough to drop none
    assert np.allclose([value for *_, value in filled], np.sort(expected)[::-1], atol=1e-4)
    best = fillings[int(expected.argmax())]
    middle = best.index(second)
    parts = (best[1:middle], best[middle + 1 : -1])
    texts = ["".join(tokenizer.convert_ids_to_tokens(part)).replace("▁", " ") for part in parts]
    assert list(filled[0][:2]) == texts


@pytest.mark.slow
def test_generated_templates(tiny_t5: Path) -> None:
    """Both forms, no template twice, best first, no more than asked for."""
    model, tokenizer = load_seq2seq(find_backbone(str(tiny_t5)), Runtime())
    generated = generate_templates(model, tokenizer, DEFINITIONS, count=20, runtime=Runtime())
    texts = [one.template for one in generated]
    assert 10 <= len(texts) == len(set(texts)) <= 20
    assert all(text.count("[X]") == text.count("[MASK]") == 1 and "▁" not in text for text in texts)
    assert {text.startswith("[X]") for text in texts} == {True, False}
    values = [one.log_probability for one in generated]
    assert values == sorted(values, reverse=True)


@pytest.mark.slow
def test_command_generates_once(
    cli: Cli, tiny_bert: Path, tiny_t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--generate scores what the model writes; run again, it neither writes nor scores anything."""
    rows = "".join(f"{d.word}\t{d.text}\n" for d in DEFINITIONS)
    (tmp_path / "words.tsv").write_text(rows, encoding="utf-8")
    arguments = ("search-templates", "--backbone", tiny_bert, "--dev", "pocket-pairs", "--limit-pairs", 4)
    arguments += ("--generate", tmp_path / "words.tsv", "--seq2seq", tiny_t5, "--count", 6, "--precision", "fp32")
    answer = cli(*arguments, "--out", tmp_path / "out")
    assert answer.code == 0, answer.err
    (path,) = (tmp_path / "out" / "template-search").glob("*/generated.json")
    table = json.loads(path.read_text(encoding="utf-8"))["rows"]
    (kept,) = (tmp_path / "out" / "template-search").glob("generated-*.json")
    written = json.loads(kept.read_text(encoding="utf-8"))["templates"]
    assert {row["template"] for row in table} == {one["template"] for one in written}
    monkeypatch.setattr("zoo_bench_papers.template_search.search.generate_templates", None)
    again = cli(*arguments, "--out", tmp_path / "out")
    assert (again.code, "0 scored" in again.err) == (0, True), again.err


@pytest.mark.parametrize(
    "change", [{"spearman": 1.5}, {"spearman": None}, {"template": "another"}, {"key": "0" * 64}, {"status": "failed"}]
)
def test_a_record_that_is_not_of_this_template_is_scored_again(tmp_path: Path, change: dict[str, Any]) -> None:
    """Signed by its writer, but of other conditions, failed, or with a correlation that is none."""
    make_search(tmp_path, lambda _: 0.5).score(["[X] a [MASK]"], Bar())
    (path,) = (tmp_path / "records").iterdir()
    write_signed(path, {**read_signed(path), **change})
    (result,) = make_search(tmp_path, lambda _: 0.25).score(["[X] a [MASK]"], Bar())
    assert result["spearman"] == 0.25 and read_signed(path)["spearman"] == 0.25


def test_the_best_template_has_a_score(tmp_path: Path) -> None:
    """Highest first; of equal ones the first tried; a failed one is none, and has its reason."""
    values = {"a": 0.1, "b": 0.7, "c": None, "d": -0.2, "e": 0.7}

    def scorer(template: str) -> float | None:
        if template == "f":
            raise UsageError("no [MASK].")
        return values[template]

    search = make_search(tmp_path, scorer)
    results = {r["template"]: r for r in search.score(list("abcdef"), Bar())}
    assert [r["template"] for r in search.best(results.values())] == list("bead")
    assert results["f"]["reason"] == "no [MASK]." and results["c"]["status"] == "failed" and results["c"]["reason"]
    assert search._note().endswith("best 70.00: b") and search.scored == 6


def test_a_template_without_a_correlation_is_the_last() -> None:
    scores: list[Any] = [{"spearman": 0.1}, {"spearman": None}, {"spearman": -0.9}]
    assert sorted(map(spearman_of, scores)) == [-math.inf, -0.9, 0.1]
