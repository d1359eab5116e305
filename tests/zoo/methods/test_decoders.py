"""Decoder-only models: templates and the last token's state."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from tools.fidelity import decoders
from zoo.encoder import Runtime
from zoo.errors import UsageError
from zoo.methods.causal import Causal
from zoo.methods.eol import EOL, layers_of, prepending
from zoo.modules import rewrites
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

GOLDEN = {
    "causal": {"version": 2, "values": [-0.7016, 0.1246, -0.6379, 1.0, 0.9272, -0.2798, 0.2664, 1.0]},
    "eol": {"version": 2, "values": [0.1163, -0.3804, -0.7197, 1.0, -0.327, -0.1412, 1.0, 0.3187]},
}


# Decoder-only encoders: rows and vectors of a causal model of two layers, against its own forward on one text.

TEXTS = ["the cat sees a dog", "a bird", "the river is near the old town and the tree"]


def encoder_of(name: str, folder: Path, **fields: Any) -> Causal:
    cls, recipe = parse_methods(name, all_recipes())[0].resolve({"backbone": str(folder)})
    assert cls is Causal
    return Causal(dataclasses.replace(recipe, **fields), Runtime())


def states_of(encoder: Causal, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        return encoder.backbone.model(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()


def test_prompteol_is_the_state_of_the_last_token(tiny_causal: Path) -> None:
    encoder = encoder_of("prompteol", tiny_causal)
    tokenizer = encoder.backbone.tokenizer
    for text, vector in zip(TEXTS, encoder.encode(TEXTS), strict=True):
        ids = tokenizer(f'This sentence : "{text}" means in one word:"')["input_ids"][:-1]  # without the end token
        assert encoder.token_table([text]).row(0).tolist() == ids
        np.testing.assert_allclose(vector, states_of(encoder, ids)[-1], atol=1e-5)


def test_the_released_code_ends_a_sentence_in_a_period(tiny_causal: Path) -> None:
    """The strings of evaluation.py under the template of run_icl.sh for OPT-125M, with blanks for underscores."""
    encoder = encoder_of("prompteol-repo", tiny_causal)
    shown = (
        'This_sentence_:_"A_man_is_smoking."_means_in_one_word:"Smoking".This_sentence_:_"*sent_0*"_means_in_one_word:"'
    )
    template = shown.replace("_", " ").replace("*sent 0*", "{}")
    texts = {
        "the cat sees a dog": "the cat sees a dog.",
        "a bird .": "a bird .",
        "is the river near ?": "is the river near .",
        'the "old" town': "the 'old' town.",
        'a "bird"': "a 'bird'",
    }
    for (text, wanted), vector in zip(texts.items(), encoder.encode(list(texts)), strict=True):
        ids = encoder.backbone.tokenizer(template.format(wanted))["input_ids"][:-1]
        assert encoder.token_table([text]).row(0).tolist() == ids, text
        np.testing.assert_allclose(vector, states_of(encoder, ids)[-1], atol=1e-5)


def test_an_echo_is_the_mean_over_the_second_copy(tiny_causal: Path) -> None:
    encoder = encoder_of("echo", tiny_causal)
    tokenizer = encoder.backbone.tokenizer
    for text, vector in zip(TEXTS, encoder.encode(TEXTS), strict=True):
        ids = tokenizer(f"Rewrite the sentence: {text}, rewritten sentence: {text}")["input_ids"][:-1]
        assert encoder.token_table([text]).row(0).tolist() == ids
        size = len(tokenizer(f" {text}", add_special_tokens=False)["input_ids"])
        np.testing.assert_allclose(vector, states_of(encoder, ids)[-size:].mean(0), atol=1e-5)


def test_only_an_echo_s_first_state_knows_the_end(tiny_causal: Path) -> None:
    """The state of the sentence's first word: in one copy it cannot tell what follows, in the second copy it can."""
    for name, differs in (("causal-mean", False), ("echo", True)):
        encoder = encoder_of(name, tiny_causal)
        first = []
        for text in ("the cat sleeps", "the cat runs"):
            row = encoder.token_table([text]).row(0).tolist()
            size = (len(row) - encoder.fixed) // (len(encoder.parts_of_row) - 1)
            first.append(states_of(encoder, row)[len(row) - size])
        assert (not np.allclose(*first, atol=1e-5)) is differs


def test_a_bidirectional_backbone_is_refused(tiny_bert: Path, tiny_roberta: Path) -> None:
    for name, folder in (("prompteol", tiny_bert), ("echo", tiny_roberta), ("causal-mean", tiny_bert)):
        pattern = f"needs a decoder-only backbone, but in '{folder.name}' .* `zoo-bench pretrain tiny-causal"
        with pytest.raises(UsageError, match=pattern):
            encoder_of(name, folder)


def test_a_long_text_is_cut_and_the_template_is_not(tiny_causal: Path) -> None:
    long = "the cat sees a dog " * 200
    for name in ("prompteol", "echo"):
        encoder = encoder_of(name, tiny_causal)
        table = encoder.token_table([long, ""])
        assert encoder.fixed < len(table.row(0)) <= 512 and len(table.row(1)) >= encoder.fixed
        assert np.isfinite(encoder.encode([long, ""])).all() and table.truncated == 1
    with pytest.raises(UsageError, match="no room for a sentence"):
        encoder_of("prompteol", tiny_causal, max_length=8)
    with pytest.raises(ValueError, match="once or twice"):
        Causal.Recipe(template="no place")


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "gpt2", "gpt_neo"])
def test_a_bidirectional_mask_lets_each_state_see_the_sentence(kind: str, tiny_causal: Path, tmp_path: Path) -> None:
    """Padded or alone, also after saving; where the library has no such mask (GPT Neo), it is refused."""
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 1000}
    inner = {"gpt2": {}, "gpt_neo": {"attention_types": [[["global"], 2]]}}.get(kind, {"intermediate_size": 48})
    heads = {"num_key_value_heads": 1} if kind in ("mistral", "qwen2") else {}
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **shape, **inner, **heads, initializer_range=0.3)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_causal).save_pretrained(tmp_path)
    if kind == "gpt_neo":
        with pytest.raises(UsageError, match="no bidirectional mask for a gpt_neo"):
            encoder_of("llm2vec-bi", tmp_path)
        return
    encoder, plain = encoder_of("llm2vec-bi", tmp_path), encoder_of("causal-mean", tmp_path)
    vectors = encoder.encode([*TEXTS, ""])
    np.testing.assert_allclose(vectors[:3], np.concatenate([encoder.encode([text]) for text in TEXTS]), atol=1e-5)
    assert np.abs(vectors[:3] - plain.encode(TEXTS)).max() > 1e-2
    rows = [encoder.token_table([text]).row(0).tolist() for text in ("the cat sleeps", "the cat runs")]
    firsts = [[states_of(each, row)[1] for row in rows] for each in (plain, encoder)]
    assert np.allclose(*firsts[0], atol=1e-5) and not np.allclose(*firsts[1], atol=1e-2)
    encoder.backbone.model.config.save_pretrained(tmp_path)
    np.testing.assert_allclose(encoder_of("llm2vec-bi", tmp_path).encode([*TEXTS, ""]), vectors, atol=1e-6)
    with pytest.raises(UsageError, match="a decoder-only backbone"):
        encoder_of("causal-mean", tmp_path)


# Token Prepending, MetaEOL and GenEOL beside their released codes, whose vectors tools/fidelity/decoders.py wrote.

DUMP = Path(__file__).parent / "dumps" / "decoders" / "vectors.safetensors"
PAGE = Path(__file__).parents[3] / "docs" / "fidelity.md"
TWO_LAYERS = "prepend_until=3"  # of the dumps' four
NAMES = {
    "token-prepending": f"token-prepending:{TWO_LAYERS}",
    "token-prepending-last": f"token-prepending:{TWO_LAYERS}:layer=4",
    "token-prepending-cot": f"pretended-cot:layer=-1:{TWO_LAYERS}",
    "token-prepending-metaeol": f"metaeol:{TWO_LAYERS}",
    "metaeol": "metaeol",
    "prompteol": "prompteol:period=true",
    "geneol": "geneol",
}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = decoders.write_llama(tmp_path_factory.mktemp("decoders") / "llama")
    return folder


def eol_encoder(name: str, folder: Path, **fields: Any) -> Any:
    cls, recipe = parse_methods(name, all_recipes())[0].resolve({"backbone": str(folder), **fields})
    return cls(recipe, Runtime())


def with_template(folder: Path, out: Path) -> Path:
    """A decoder for chats: the same weights with a chat template."""
    AutoModelForCausalLM.from_pretrained(folder).save_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} . {% endfor %}"
    tokenizer.save_pretrained(out)
    return out


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_those_of_the_release(name: str, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = eol_encoder(NAMES[name], llama)
    if name == "geneol":
        monkeypatch.setattr(encoder, "_rewrites", decoders.REWRITES.__getitem__)
    with safe_open(DUMP, framework="np") as file:
        theirs, releases = file.get_tensor(name), json.loads(file.metadata()["releases"])
    np.testing.assert_allclose(encoder.encode(decoders.TEXTS), theirs, rtol=0, atol=1e-5)
    assert releases == decoders.RELEASES and all(commit in PAGE.read_text() for commit in releases.values())
    distances = np.abs(theirs - theirs.mean(axis=0)).max(axis=1)
    assert distances.min() > 1e-3, "sentences that differ have other vectors, so that a wrong row is noticed"


def test_prepending_gives_a_state_to_its_place_and_leaves_no_hook(llama: Path) -> None:
    model = eol_encoder("prompteol", llama).backbone.model
    layers = layers_of(model)
    seen: list[torch.Tensor] = []
    ids = torch.tensor([[1, 5, 6, 7], [1, 8, 9, 10]])
    at, last = torch.tensor([1, 2]), torch.tensor([3, 3])
    with torch.no_grad():
        with prepending(layers[2:3], at, last):
            hook = layers[2].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
            changed = model(input_ids=ids).last_hidden_state
            hook.remove()
        plain = model(input_ids=ids).last_hidden_state
    assert torch.equal(seen[0][[0, 1], at], seen[0][[0, 1], last])
    assert torch.equal(changed[:, 0], plain[:, 0]) and not torch.allclose(changed[:, 3], plain[:, 3], atol=1e-3)
    assert not any(layer._forward_pre_hooks for layer in layers)


def test_a_text_with_the_token_s_name_and_a_long_one_are_encoded(llama: Path) -> None:
    texts = ["the <PST> cat", "the cat sees a dog " * 200, "", "the cat"]
    for name in ("token-prepending", "metaeol", "geneol"):
        encoder = eol_encoder(name, llama)
        together, alone = encoder.encode(texts), np.concatenate([encoder.encode([text]) for text in texts])
        np.testing.assert_allclose(together, alone, atol=1e-5)
        assert np.isfinite(together).all()


def test_rewrites_are_drawn_from_the_generator_and_depend_on_the_text_alone(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrites, "LONGEST", 8)
    chat = with_template(llama, tmp_path / "chat")
    encoder = eol_encoder("geneol:rewrites=1", llama, generator=str(chat))
    first = encoder.encode(["a tree", "cloud"])
    drawn = encoder._rewrites("cloud")
    assert len(drawn) == 4 and len(set(drawn)) == 4
    again = eol_encoder("geneol:rewrites=1", llama, generator=str(chat))
    np.testing.assert_allclose(again.encode(["cloud"])[0], first[1], atol=1e-5)
    alone = eol_encoder("geneol", llama)
    np.testing.assert_allclose(first[1], alone.encode(["cloud", *drawn]).mean(0), atol=1e-5)
    assert encoder.fingerprint() != eol_encoder("geneol:rewrites=1", llama, generator=str(llama)).fingerprint()
    assert EOL.sources(encoder.recipe, Runtime())["generator"]["name"] == "chat"
    with pytest.raises(UsageError, match="has no chat template"):
        eol_encoder("geneol", llama, generator=str(llama)).encode(["a tree"])


def test_what_cannot_be_is_refused(llama: Path, tiny_bert: Path) -> None:
    with pytest.raises(UsageError, match=r"layer 27: 'llama' has states 0 to 4"):
        eol_encoder("token-prepending:layer=27", llama)
    with pytest.raises(UsageError, match="a decoder-only backbone"):
        eol_encoder("metaeol", tiny_bert)
    for fields, message in (
        ({"prepend_from": 7}, "must be below prepend_until"),
        ({"further": ("no place",)}, "once or twice"),
        ({"template": "[X] is", "mean_of_end": True}, "with which a template ends"),
    ):
        with pytest.raises(ValueError, match=message):
            EOL.Recipe(**fields)


@pytest.mark.parametrize("kind", ["gpt2", "opt", "mistral", "gemma2"])
def test_the_hook_is_between_the_layers_of_other_decoders(kind: str, llama: Path, tmp_path: Path) -> None:
    """Their layers and positions are others; the states of a sentence's first tokens know its end."""
    shape = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "vocab_size": 32000}
    inner = {"opt": {"ffn_dim": 48, "word_embed_proj_dim": 32}, "gpt2": {}}.get(kind, {"intermediate_size": 48})
    heads = {"num_key_value_heads": 1, "head_dim": 16} if kind in ("mistral", "gemma2") else {}
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(
        AutoConfig.for_model(kind, **shape, **inner, **heads, initializer_range=0.3)
    ).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(llama).save_pretrained(tmp_path)
    vectors = [
        eol_encoder(name, tmp_path).encode(decoders.TEXTS)
        for name in ("token-prepending:layer=-1", "token-prepending:layer=-1:prepend_until=0")
    ]
    assert np.isfinite(vectors).all() and np.abs(vectors[0] - vectors[1]).max() > 1e-2
    encoder = eol_encoder("token-prepending:layer=-1", tmp_path)
    firsts = []
    for text in ("the cat sees", "the cat tree"):
        states: list[torch.Tensor] = []
        hook = encoder.layers[2].register_forward_pre_hook(lambda _, inputs, kept=states: kept.append(inputs[0]))
        ids = torch.from_numpy(encoder.token_table([text]).row(0).astype(np.int64))[None]
        with torch.no_grad():
            encoder.forward(ids, torch.ones_like(ids))
        hook.remove()
        place = int((ids[0] == encoder.place).int().argmax())
        firsts.append(states[0][0, place : place + 3])
    # <PST>, the quotation mark and the first word, which both texts have.
    assert ((firsts[0] - firsts[1]).abs().amax(dim=1) > 1e-3).all()
