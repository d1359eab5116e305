"""What a user is told who cannot have a finished encoder: the hub's reason, and the remedy that fits it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import sentence_transformers as st
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.utils import _http as hub
from sentence_transformers.sentence_transformer import modules
from test_pretrained import build, ours
from transformers import AutoTokenizer

from zoo.engine.hub_models import from_hub
from zoo.errors import MissingError, UsageError
from zoo.files import read_json, write_json
from zoo.formats.word_vectors import read

# The hub's client chooses the library of its answers.
httpx: Any = getattr(hub, "httpx2", None) or hub.httpx


@pytest.mark.parametrize(
    ("kind", "reason", "remedy"),
    [
        (
            GatedRepoError,
            "403 Client Error.\n\nAccess to model a/b is restricted.",
            "Accept its licence .*a/b and log in",
        ),
        (RepositoryNotFoundError, "401 Client Error.\nRepository not found.", "private, log in"),
        (OSError, "no route to the host", "where there is a network"),
    ],
)
def test_the_hubs_reason_and_its_remedy(
    kind: type[Exception], reason: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Any:
        if kind is OSError:
            raise OSError(reason)
        raise kind(reason, response=httpx.Response(403, request=httpx.Request("GET", "https://hub")))  # type: ignore[call-arg]

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with pytest.raises(MissingError, match=remedy) as error:
        from_hub("a/b", None)
    assert reason.split()[-1].rstrip(".") in str(error.value)  # the hub's reason is there to its last word


@pytest.mark.parametrize(("status", "remedy"), [(429, "Try again later"), (503, "Try again later"), (404, "network")])
def test_a_hub_that_is_busy_or_down(status: int, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice that the hub's client adds for its caller is left out."""
    answer = httpx.Response(status, request=httpx.Request("GET", "https://hub"))

    def refuse(*_: object, **__: object) -> Any:
        raise HfHubHTTPError("Client Error: limit of 5 reached.\nFor more details see there.", response=answer)

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with pytest.raises(MissingError, match=rf"the hub gave: Client Error: limit of 5 reached\. .*{remedy}"):
        from_hub(f"a/b{status}", None)


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("onnx/model.onnx", r"pip install 'zoo-bench\[onnx\]'`, then .*backend=onnx"),
        ("openvino/openvino_model.xml", "an ONNX file: optimum-intel"),
        ("model.fp16.safetensors", "rename that variant"),
        ("model-q4.gguf", "the model that was quantised"),
        ("tf_model.h5", "convert these weights of TensorFlow"),
    ],
)
def test_weights_in_another_form_are_named(file: str, remedy: str, tiny_bert: Path, tmp_path: Path) -> None:
    folder = build(tmp_path, tiny_bert)
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / "model.safetensors").rename(folder / file)
    if "/" in file:
        (folder / file).with_suffix(".bin").touch()  # as OpenVINO has it
    with pytest.raises(MissingError, match=f"has no model.safetensors in .*{file}.*{remedy}"):
        ours(folder)


@pytest.mark.parametrize("after", [[], [modules.Normalize()], [modules.Dense(32, 8)]], ids=["", "Normalize", "Dense"])
def test_a_folder_without_pooling_is_named(after: list[Any], tiny_bert: Path, tmp_path: Path) -> None:
    build(tmp_path, tiny_bert, *after)
    listed = [module for module in read_json(tmp_path / "modules.json") if "Pooling" not in module["type"]]
    write_json(tmp_path / "modules.json", listed)
    with pytest.raises(UsageError, match=r"modules.json lists Transformer.* and no module that pools"):
        ours(tmp_path)


@pytest.mark.parametrize("content", [b"a b\t1 2\nc\t3 4\n", b"a b\t1\t2\nc\t3\t4\n", b"\xef\xbb\xbfa b\t1 2\nc\t3 4\n"])
def test_vectors_of_texts_with_blanks_tabs_or_a_mark(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "v.tsv").write_bytes(content)
    rows, vectors = read([tmp_path / "v.tsv"])
    assert [*rows] == ["a b", "c"]
    np.testing.assert_array_equal(vectors, [[1, 2], [3, 4]])


@pytest.mark.parametrize("prompt", ["query: ", "query:", "passage : ", "about"])
@pytest.mark.parametrize("kind", ["tiny_bert", "tiny_roberta"])
def test_a_word_that_is_lost_with_the_prompt_is_said(
    prompt: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The row says so exactly where the tokens before the mean are more than the prompt's."""
    bert = modules.Transformer(str(request.getfixturevalue(kind)))
    pooling = modules.Pooling(32, "mean", include_prompt=False)
    st.SentenceTransformer(modules=[bert, pooling], prompts={"query": prompt}, device="cpu").save(str(tmp_path / "m"))
    encoder = ours(tmp_path / "m")
    tokens = [bert.tokenizer.tokenize(text) for text in (prompt, f"{prompt}dog")]
    stated = "first word is left out" in encoder.facts()["roles"]
    assert stated == (tokens[1][: len(tokens[0])] != tokens[0])


ALL = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
USERS = "{% for m in messages if m['role'] == 'user' %}user {{ m['content'] }} {% endfor %}"
NONE = "{% for m in messages if m['role'] == 'system' %}{{ raise_exception('no system') }}{% endfor %}word"


def chat(tiny_causal: Path, folder: Path, template: str, **stated: Any) -> Path:
    """Write a decoder with a chat template, and of what its config states."""
    shutil.copytree(tiny_causal, folder, ignore=shutil.ignore_patterns("SHA256SUMS"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    write_json(folder / "config.json", {**read_json(folder / "config.json"), **stated})
    return folder


def pooled(folder: Path, include: bool, prompts: dict[str, str]) -> Path:
    parts = [modules.Transformer(str(folder)), modules.Pooling(32, "mean", include_prompt=include)]
    st.SentenceTransformer(modules=parts, prompts=prompts, device="cpu").save(str(folder))
    return folder


@pytest.mark.parametrize(
    ("template", "include", "sentence"),
    [
        (ALL, True, "in the folder's chat template"),
        (ALL, False, "in the folder's chat template, and the pooling takes the prompt too"),
        (USERS, False, "in the folder's chat template, which ignores the prompt 'find'"),
    ],
)
def test_what_a_chat_template_does_with_a_prompt_is_said(
    template: str, include: bool, sentence: str, tiny_causal: Path, tmp_path: Path
) -> None:
    """And the library does so: the vector of a text is the same without the prompt, or the same without the pooling."""
    folder = pooled(chat(tiny_causal, tmp_path / "m", template), include, {"query": "find"})
    encoder, library = ours(folder), st.SentenceTransformer(str(folder), device="cpu")
    assert encoder.facts()["roles"].endswith(sentence)
    asked = library.encode_query(["a dog"])
    np.testing.assert_allclose(encoder.encode_query(["a dog"]), asked, atol=1e-6)
    assert np.array_equal(asked, library.encode(["a dog"])) == (template == USERS)
    library[1].include_prompt = True
    np.testing.assert_array_equal(library.encode_query(["a dog"]), asked)


def test_a_chat_template_that_refuses_a_prompt_is_named(tiny_causal: Path, tmp_path: Path) -> None:
    folder = pooled(chat(tiny_causal, tmp_path / "m", NONE), True, {"query": "find"})
    with pytest.raises(UsageError, match=r"chat template refuses the prompt 'find' \(no system\): leave .*prompt=''"):
        ours(folder)
    assert ours(folder, prompt="").encode_query(["a dog"]).shape == (1, 32)


@pytest.mark.parametrize("template", ["", ALL])
@pytest.mark.parametrize(
    ("name", "causal"), [("LlamaForCausalLM", None), ("LlamaForCausalLM", False), ("GPT2LMHeadModel", None)]
)
def test_a_decoder_whose_class_name_decides_the_librarys_pooling(
    name: str, causal: bool | None, template: str, tiny_causal: Path, tmp_path: Path
) -> None:
    """The row says so exactly where the library pools the last token."""
    stated = {} if causal is None else {"is_causal": causal}
    folder = chat(tiny_causal, tmp_path / "m", template, architectures=[name], **stated)
    sentence = ours(folder, pooling="mean").facts().get("roles", "")
    last = st.SentenceTransformer(str(folder), device="cpu")[1].pooling_mode == "lasttoken"
    assert last == (f"would pool the last token ({name})" in sentence) and last == (
        (name, causal) == ("LlamaForCausalLM", None)
    )
    assert ("chat template" in sentence) == (last and bool(template))
