"""Templates under tokenizers that join signs of a template and a sentence to one token: rows as released."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import ByteLevelBPETokenizer, SentencePieceUnigramTokenizer, processors
from transformers import AutoModel, PreTrainedTokenizerFast

from zoo.encoder import Runtime
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
TEXTS = ["A dog runs", "'s dog", "It ended .", "(no) dog", '"A dog"', "Is it ?", "", "...", "A dog <mask> runs"]


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
    texts = [*TEXTS, *pocket_sentences[:100]]
    shown = [ended(t).replace('"', "'") for t in texts] if name == "prompteol-repo" else texts
    shown = [t[:-1] + "." if name == "prompteol-repo" and t.endswith("?") else t for t in shown]
    table, parts = encoder.token_table(texts), encoder._rows_of_parts(shown)
    for i, text in enumerate(shown):
        wanted = encoder.backbone.tokenizer(encoder.recipe.template.replace("[X]", text))["input_ids"]
        assert table.row(i).tolist() == wanted, text
    assert sum(table.row(i).tolist() != parts.row(i).tolist() for i in range(len(texts))) > 0.3 * len(texts)
    assert encoder.encode(TEXTS).shape == (len(TEXTS), 32)


@pytest.mark.parametrize("name", ["prompt", "prompt-repo", "prompt-denoise", "promptbert-repo", "optiprompt-repo"])
def test_prompts_are_tokenised_filled_at_test(
    name: str, seamed: Callable[[bool], Path], pocket_sentences: list[str]
) -> None:
    """As evaluation.py of PromptBERT's code; the state that is read is that of the template's mask."""
    encoder = encoder_of(f"{name}:head=mlp" if name == "optiprompt-repo" else name, seamed(False))
    tokenizer, template = encoder.backbone.tokenizer, encoder.recipe.template.replace("[MASK]", "<mask>")
    texts = [*TEXTS, *pocket_sentences[:50]]
    table = encoder.token_table(texts)
    for i, text in enumerate(texts):
        shown = ended(text) if encoder.recipe.period else text
        ids = tokenizer(template.replace("[X]", shown))["input_ids"]
        assert table.row(i).tolist() == ids, text
        at = int(encoder.prompt.mask_positions(table.lengths)[i])
        assert at == len(ids) - 1 - ids[::-1].index(tokenizer.mask_token_id)
    assert encoder.encode(TEXTS).shape == (len(TEXTS), 32)
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
