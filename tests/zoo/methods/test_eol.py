"""Token Prepending, MetaEOL and GenEOL beside their released codes, whose vectors tools/fidelity/decoders.py wrote."""

from __future__ import annotations

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
from zoo.methods.eol import EOL, layers_of, prepending
from zoo.modules import rewrites
from zoo.recipes import all_recipes
from zoo.selection import parse_methods

GOLDEN = {"eol": {"version": 2, "values": [0.1163, -0.3804, -0.7197, 1.0, -0.327, -0.1412, 1.0, 0.3187]}}
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


def encoder_of(name: str, folder: Path, **fields: Any) -> Any:
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
    encoder = encoder_of(NAMES[name], llama)
    if name == "geneol":
        monkeypatch.setattr(encoder, "_rewrites", decoders.REWRITES.__getitem__)
    with safe_open(DUMP, framework="np") as file:
        theirs, releases = file.get_tensor(name), json.loads(file.metadata()["releases"])
    np.testing.assert_allclose(encoder.encode(decoders.TEXTS), theirs, rtol=0, atol=1e-5)
    assert releases == decoders.RELEASES and all(commit in PAGE.read_text() for commit in releases.values())
    distances = np.abs(theirs - theirs.mean(axis=0)).max(axis=1)
    assert distances.min() > 1e-3, "sentences that differ have other vectors, so that a wrong row is noticed"


def test_prepending_gives_a_state_to_its_place_and_leaves_no_hook(llama: Path) -> None:
    model = encoder_of("prompteol", llama).backbone.model
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
        encoder = encoder_of(name, llama)
        together, alone = encoder.encode(texts), np.concatenate([encoder.encode([text]) for text in texts])
        np.testing.assert_allclose(together, alone, atol=1e-5)
        assert np.isfinite(together).all()


def test_rewrites_are_drawn_from_the_generator_and_depend_on_the_text_alone(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrites, "LONGEST", 8)
    chat = with_template(llama, tmp_path / "chat")
    encoder = encoder_of("geneol:rewrites=1", llama, generator=str(chat))
    first = encoder.encode(["a tree", "cloud"])
    drawn = encoder._rewrites("cloud")
    assert len(drawn) == 4 and len(set(drawn)) == 4
    again = encoder_of("geneol:rewrites=1", llama, generator=str(chat))
    np.testing.assert_allclose(again.encode(["cloud"])[0], first[1], atol=1e-5)
    alone = encoder_of("geneol", llama)
    np.testing.assert_allclose(first[1], alone.encode(["cloud", *drawn]).mean(0), atol=1e-5)
    assert encoder.fingerprint() != encoder_of("geneol:rewrites=1", llama, generator=str(llama)).fingerprint()
    assert EOL.sources(encoder.recipe, Runtime())["generator"]["name"] == "chat"
    with pytest.raises(UsageError, match="has no chat template"):
        encoder_of("geneol", llama, generator=str(llama)).encode(["a tree"])


def test_what_cannot_be_is_refused(llama: Path, tiny_bert: Path) -> None:
    with pytest.raises(UsageError, match=r"layer 27: 'llama' has states 0 to 4"):
        encoder_of("token-prepending:layer=27", llama)
    with pytest.raises(UsageError, match="a decoder-only backbone"):
        encoder_of("metaeol", tiny_bert)
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
        encoder_of(name, tmp_path).encode(decoders.TEXTS)
        for name in ("token-prepending:layer=-1", "token-prepending:layer=-1:prepend_until=0")
    ]
    assert np.isfinite(vectors).all() and np.abs(vectors[0] - vectors[1]).max() > 1e-2
    encoder = encoder_of("token-prepending:layer=-1", tmp_path)
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
