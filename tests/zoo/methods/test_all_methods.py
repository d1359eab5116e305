"""What holds for all methods: capabilities, refusals, starts, fits, seams."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_golden import BUILT_IN, corpus_for, small, stated
from tokenizers import ByteLevelBPETokenizer, SentencePieceUnigramTokenizer, processors
from transformers import AutoModel, PreTrainedTokenizerFast

import zoo
from zoo.check import PROBES
from zoo.encoder import Encoder, FitReport, Run, Runtime
from zoo.errors import Interrupted, UsageError
from zoo.plugins import METHODS
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

# Recipes that cannot be: each is refused with the name of what is wrong.

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("burt", {"objectives": ()}, "objectives"),
    ("burt", {"objectives": ("pi", "pi")}, "objectives"),
    ("burt", {"objectives": ("pi", "nli")}, "objectives"),
    ("burt", {"paraphrases": ()}, "paraphrases"),
    ("burt", {"paraphrases": ("equivalence",)}, "paraphrases"),
    ("burt", {"negatives": 0}, "negatives"),
    ("cot-bert", {"second_template": None}, "template"),
    ("ct", {"batch_size": 20}, "batch_size"),
    ("ct", {"rate_steps": (500, 1000)}, "rate_steps"),
    ("ct", {"rate_steps": (500, 1000, 900, 2000)}, "rate_steps"),
    ("ct", {"steps": 0}, "steps"),
    ("infersent", {"shrink": 1.0}, "shrink"),
    ("infersent", {"dev_share": 0.0}, "dev_share"),
    ("infersent", {"dev_share": 1.0}, "dev_share"),
    ("infersent", {"lstm_dim": 0}, "lstm_dim"),
    ("infersent", {"decay": 0.0}, "decay"),
    ("infersent", {"token_rms": 0.0}, "token_rms"),
    ("isbert", {"kernels": (1, 2)}, "kernels"),
    ("isbert", {"kernels": ()}, "kernels"),
    ("isbert", {"warmup": 1.5}, "warmup"),
    ("moco", {"queue_size": 32}, "queue_size"),
    ("moco", {"momentum": 1.5}, "momentum"),
    ("moco", {"keeps": -1}, "keeps"),
    ("moco", {"key_mlp": "query", "pooler": "avg"}, "key_mlp"),
    ("moco", {"queue_drops": "first"}, "queue_drops"),
    ("moco", {"double_linear": True, "mlp_only_train": False}, "double_linear"),
    ("moco", {"linear_biases": False}, "linear_biases"),
    ("prompt", {"template": "[X] means nothing"}, "[MASK]"),
    ("promptbert", {"supervised": True}, "second_template"),
    ("promptbert", {"head": "none", "mlp_only_train": False}, "mlp_only_train"),
    ("promptbert", {"pooler": "avg"}, "pooler"),
    ("promptbert", {"positives": "neighbours"}, "positives"),
    ("ptbert", {"mlp_only_train": False}, "mlp_only_train"),
    ("ptbert", {"queue_size": 32, "batch_size": 64}, "queue_size"),
    ("sbert", {"warmup": 1.1}, "warmup"),
    ("sbert", {"weight_decay": -1.0}, "weight_decay"),
    ("sbert", {"adam_betas": (0.9,)}, "adam_betas"),
    ("sbert", {"adam_betas": (0.9, 1.0)}, "adam_betas"),
    ("sbert", {"epochs": 0}, "epochs"),
    ("sbert", {"head_rate": 0}, "head_rate"),
    ("sif", {"components": -1}, "components"),
    ("sif", {"a": 0.0}, "a must"),
    ("static", {"frequent": 36}, "remove"),
    ("static", {"remove": "freq", "frequent": 0}, "frequent"),
    ("twoviews", {"cutoff": (0.1,)}, "cutoff"),
    ("twoviews", {"cutoff": (0.1, 1.0)}, "cutoff"),
    ("twoviews", {"bias_correction": False}, "bias_correction"),
    ("twoviews", {"token_cutoff": (0.1, 1.0)}, "token_cutoff"),
    ("twoviews", {"mlp_only_train": False, "train_pooler": "avg"}, "pooler"),
]


@pytest.mark.parametrize(("method", "fields", "named"), WRONG)
def test_a_recipe_that_cannot_be_is_refused_by_name(method: str, fields: dict[str, Any], named: str) -> None:
    with pytest.raises((ValueError, UsageError)) as caught:
        METHODS.get(method).Recipe(**fields)
    assert named in str(caught.value)


# Every method that learns names the untrained vectors that it starts from, and they are those.

TEXTS = ["A small dog runs.", "Why does bread rise?", "rain"]
# Recipes whose encoder, before it is fitted, gives the vectors that training starts from: no head is left at test.
PLAIN = (
    "simcse,ptbert,ptbert-tokens-avg,esimcse,ct,consert,sbert,burt-cls,burt-max,promptbert-repo,optiprompt"
    ",simcse:pooler=avg_first_last,simcse:max_length=8"
)


def test_every_recipe_that_learns_has_an_untrained_start(tiny_bert: Path) -> None:
    for name, spec in all_recipes().items():
        cls, recipe = spec.resolve({"backbone": str(tiny_bert)})
        traits, start = cls.traits(recipe), cls.start(recipe)
        learns = traits.needs_corpus or traits.needs_pairs or traits.transductive
        assert (start is not None) == learns, name
        if start is None:
            continue
        first = METHODS.get(start.method)
        assert type(start.recipe) is first.Recipe, name
        traits = first.traits(start.recipe)
        assert not (traits.needs_corpus or traits.needs_pairs or traits.transductive or traits.stochastic), name


@pytest.mark.parametrize("name", PLAIN.split(","))
def test_training_begins_at_these_vectors(name: str, tiny_bert: Path) -> None:
    (spec,) = parse_methods(name, all_recipes())
    cls, recipe = spec.resolve({"backbone": str(tiny_bert)})
    start = cls.start(recipe)
    assert start is not None
    encoder = cls(recipe, Runtime())
    untrained = METHODS.get(start.method)(start.recipe, Runtime()).encode(TEXTS)
    np.testing.assert_allclose(encoder.encode(TEXTS), untrained, atol=1e-6)


def test_a_transform_starts_where_its_base_does(tiny_bert: Path) -> None:
    """A base that is trained has a start of its own; one that is not is the start."""
    starts = {}
    for spec in parse_methods("simcse-whitening,whitening,whitening:base=cls:fit_on=target", all_recipes()):
        cls, recipe = spec.resolve({"backbone": str(tiny_bert)})
        start = cls.start(recipe)
        assert start is not None and getattr(start.recipe, "backbone", None) == str(tiny_bert)
        starts[spec.name] = (start.method, getattr(start.recipe, "layers", ""))
    assert list(starts.values()) == [("cls", ""), ("avg", "first-last-h1"), ("cls", "")]


# The contract of every method that learns: a stopped fit ends as a whole one, bit for bit, and is saved whole.

SAME = ("steps", "sentences", "final_loss", "dev_scores", "best_step")
# More than the settings of the golden vectors: where a part of the state is not there otherwise.
MORE: dict[str, dict[str, Any]] = {
    "ct": {"steps": 6},
    "flow": {"epochs": 1.0, "learning_rate": 1e-3},
    "moco": {"augment": ("substitute:0.3", "crop:0.2")},  # drawn by step
    "static": {"remove": "freq", "frequent": 5},
    "static-contrastive": {"steps": 6},
    "sif": {"weighting": "usif", "fit_on": "corpus"},
    "sif-tokens": {"fit_on": "corpus"},
}


def learns(name: str) -> bool:
    cls = METHODS.get(name)
    traits = cls.traits(cls.Recipe(**MORE.get(name, {})))
    return traits.needs_corpus or traits.needs_pairs


def make_encoder(name: str, backbone: Path) -> Encoder:
    settings = {**stated()[name].get("settings", {}), **MORE.get(name, {})}
    if "eval_every" in METHODS.get(name).Recipe.__dataclass_fields__:
        settings["eval_every"] = 2
    return small(name, backbone, **settings)


def dev_score(encoder: Encoder) -> float:
    """Any number that depends on the weights."""
    return float(encoder.encode(PROBES[:2])[0].sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BUILT_IN if learns(name)])
def test_a_stopped_fit_ends_as_a_whole_one_and_is_saved(name: str, backbone: Path, tmp_path: Path) -> None:
    full = make_encoder(name, backbone)
    corpus, before, asked = corpus_for(full), full.fingerprint(), 0

    def count() -> None:
        nonlocal asked
        asked += 1

    def fitted(folder: str, stop: Any) -> tuple[Encoder, FitReport]:
        encoder = make_encoder(name, backbone)
        run = Run(tmp_path / folder, seed=3, stop_signal=stop)
        return encoder, encoder.fit(corpus, dev_score=dev_score, run=run)

    full, wanted = fitted("whole", count)
    assert wanted.fitted and full.fingerprint() != before
    result = full
    if wanted.steps:
        for part in (asked // 4, asked // 2):  # of a method with two trainings, one stop is in each
            steps = iter([None] * part)
            with pytest.raises(Interrupted):
                fitted("cut", lambda steps=steps: next(steps, signal.SIGTERM))
        torch.manual_seed(999)  # whatever the new process did before
        result, report = fitted("cut", lambda: None)
        assert {key: getattr(report, key) for key in SAME} == {key: getattr(wanted, key) for key in SAME}
        assert result.fingerprint() == full.fingerprint()
    zoo.save(result, tmp_path / "saved")
    again = zoo.load(tmp_path / "saved")
    assert again.fingerprint() == full.fingerprint() and again.facts() == full.facts()
    np.testing.assert_array_equal(again.encode(PROBES), full.encode(PROBES))


# Templates under tokenizers that join signs of a template and a sentence to one token: rows as released.

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SEAM_TEXTS = ["A dog runs", "'s dog", "It ended .", "(no) dog", '"A dog"', "Is it ?", "", "...", "A dog <mask> runs"]


@pytest.fixture(scope="module", params=["byte-level", "unigram"])
def seamed(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    pocket_sentences: list[str],
    tiny_causal: Path,
    tiny_roberta: Path,
) -> Callable[[bool], Path]:
    """What makes a tiny model with a tokenizer of RoBERTa's or of XLM-R's kind, trained on filled templates."""
    marks, ends = ("", "'", "("), (".", " .", "")
    filled = [
        f'This sentence : "{m}{text}{end}" means.' for text in pocket_sentences[:300] for m in marks for end in ends
    ]
    kind: Any = ByteLevelBPETokenizer() if request.param == "byte-level" else SentencePieceUnigramTokenizer()
    more: dict[str, Any] = {} if request.param == "byte-level" else {"unk_token": "<unk>"}
    kind.train_from_iterator(filled, vocab_size=600, special_tokens=SPECIALS, show_progress=False, **more)

    def folder_of(causal: bool) -> Path:
        folder: Path = tmp_path_factory.mktemp("seamed") / request.param
        inner = kind._tokenizer
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A" if causal else "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
        )
        named = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, mask_token="<mask>", **named)
        model = AutoModel.from_pretrained(tiny_causal if causal else tiny_roberta)
        model.resize_token_embeddings(len(tokenizer))
        for part in (model, tokenizer):
            part.save_pretrained(folder)
        return folder

    return folder_of


def encoder_of(name: str, folder: Path) -> Any:
    cls, recipe = parse_methods(name, all_recipes())[0].resolve({"backbone": str(folder)})
    return cls(recipe, Runtime())


def ended(text: str) -> str:
    return text if not text or text[-1] in ".?\"'" else text + "."


@pytest.mark.parametrize("name", ["prompteol", "prompteol-repo"])
def test_prompteol_tokenises_the_filled_template(
    name: str, seamed: Callable[[bool], Path], pocket_sentences: list[str]
) -> None:
    """As evaluation.py of its code; of its parts nearly every row would be another."""
    encoder = encoder_of(name, seamed(True))
    texts = [*SEAM_TEXTS, *pocket_sentences[:100]]
    shown = [ended(t).replace('"', "'") for t in texts] if name == "prompteol-repo" else texts
    shown = [t[:-1] + "." if name == "prompteol-repo" and t.endswith("?") else t for t in shown]
    table, parts = encoder.token_table(texts), encoder._rows_of_parts(shown)
    for i, text in enumerate(shown):
        wanted = encoder.backbone.tokenizer(encoder.recipe.template.replace("[X]", text))["input_ids"]
        assert table.row(i).tolist() == wanted, text
    assert sum(table.row(i).tolist() != parts.row(i).tolist() for i in range(len(texts))) > 0.3 * len(texts)
    assert encoder.encode(SEAM_TEXTS).shape == (len(SEAM_TEXTS), 32)


@pytest.mark.parametrize("name", ["prompt", "prompt-repo", "prompt-denoise", "promptbert-repo", "optiprompt-repo"])
def test_prompts_are_tokenised_filled_at_test(
    name: str, seamed: Callable[[bool], Path], pocket_sentences: list[str]
) -> None:
    """As evaluation.py of PromptBERT's code; the state that is read is that of the template's mask."""
    encoder = encoder_of(f"{name}:head=mlp" if name == "optiprompt-repo" else name, seamed(False))
    tokenizer, template = encoder.backbone.tokenizer, encoder.recipe.template.replace("[MASK]", "<mask>")
    texts = [*SEAM_TEXTS, *pocket_sentences[:50]]
    table = encoder.token_table(texts)
    for i, text in enumerate(texts):
        shown = ended(text) if encoder.recipe.period else text
        ids = tokenizer(template.replace("[X]", shown))["input_ids"]
        assert table.row(i).tolist() == ids, text
        at = int(encoder.prompt.mask_positions(table.lengths)[i])
        assert at == len(ids) - 1 - ids[::-1].index(tokenizer.mask_token_id)
    assert encoder.encode(SEAM_TEXTS).shape == (len(SEAM_TEXTS), 32)
    long = encoder.token_table(["A dog runs " * 100])
    assert len(long.row(0)) == encoder.length_limit and long.truncated == 1


def test_training_and_an_echo_tokenise_the_parts(seamed: Callable[[bool], Path]) -> None:
    """prepare_features of PromptBERT's code, and the parser of that of echo embeddings."""
    encoder = encoder_of("promptbert-repo", seamed(False))
    tokenizer = encoder.backbone.tokenizer

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    first = encoder.training_prompts[0].table(["'s dog"], 64).row(0).tolist()
    assert first == [0, *ids('This sentence of "'), *ids("'s dog"), *ids('" means<mask>.'), 2]
    row = encoder_of("echo", seamed(True)).token_table(["'s dog"]).row(0).tolist()
    assert row == [0, *ids("Rewrite the sentence:"), *ids(" 's dog"), *ids(", rewritten sentence:"), *ids(" 's dog")]
