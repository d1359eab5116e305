"""A configuration that states more than its weights hold is refused before anything of its size is built."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, check_backbone, find_backbone, mlm_head_rows
from zoo.engine.model_folder import check_weights, config_of
from zoo.errors import CorruptError
from zoo.formats.sentence_transformers import load_with_library

# The sizes of each architecture under its own names, small; T5's tied embeddings are three tables until they are tied.
SMALL: dict[str, dict[str, Any]] = {
    "bert": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32},
    "roberta": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32},
    "mpnet": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32},
    "electra": {
        "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 32,
    },
    "deberta-v2": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
    "albert": {
        "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 150, "num_attention_heads": 2,
        "intermediate_size": 32,
    },
    "modernbert": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2},
    "t5": {"d_model": 16, "num_layers": 2, "d_kv": 8, "num_heads": 2, "d_ff": 32},
}  # fmt: skip
VOCABULARY = 100
TOO_LARGE = [
    ("bert", "vocab_size", 10_000_000),
    ("bert", "num_hidden_layers", 3000),
    ("bert", "num_hidden_layers", 10**12),
    ("bert", "intermediate_size", 3_000_000),
    ("bert", "hidden_size", 768_000),
    ("bert", "max_position_embeddings", 100_000_000),
    ("bert", "type_vocab_size", 10_000_000),
    ("bert", "num_labels", 10_000_000),
    ("roberta", "vocab_size", 10_000_000),
    ("mpnet", "intermediate_size", 3_000_000),
    ("electra", "embedding_size", 1_000_000),
    ("deberta-v2", "num_hidden_layers", 3000),
    ("distilbert", "dim", 768_000),
    ("distilbert", "n_layers", 3000),
    ("distilbert", "hidden_dim", 3_000_000),
    ("distilbert", "max_position_embeddings", 100_000_000),
    ("albert", "embedding_size", 1_000_000),
    ("albert", "num_hidden_groups", 3000),
    ("modernbert", "num_hidden_layers", 3000),
    ("modernbert", "num_hidden_layers", 10**9),
    ("modernbert", "intermediate_size", 3_000_000),
    ("gpt2", "n_layer", 3000),
    ("gpt2", "n_positions", 10_000_000),
    ("t5", "num_layers", 3000),
    ("t5", "num_decoder_layers", 3000),
    ("t5", "d_ff", 3_000_000),
]


def written(folder: Path, architecture: str, **options: Any) -> Path:
    sizes = {"vocab_size": VOCABULARY, "pad_token_id": 0, **SMALL[architecture]}
    config = transformers.AutoConfig.for_model(architecture, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(folder, **options)
    return folder


def state(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **values}), encoding="utf-8")


@pytest.fixture
def devices() -> Iterator[list[torch.device]]:
    """Where each weight was put that was built meanwhile."""
    from torch.nn.modules import module

    found: list[torch.device] = []
    handle = module.register_module_parameter_registration_hook(
        lambda _, __, tensor: found.append(tensor.device) if tensor is not None else None
    )
    yield found
    handle.remove()


@pytest.mark.parametrize("architecture", SMALL)
def test_what_belongs_together_is_read(architecture: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "m", architecture)
    assert config_of("backbone", folder).model_type == architecture


@pytest.mark.parametrize(("architecture", "key", "value"), TOO_LARGE)
def test_a_size_beyond_the_weights_is_told(
    architecture: str, key: str, value: int, tmp_path: Path, devices: list[torch.device]
) -> None:
    folder = written(tmp_path / "m", architecture)
    state(folder, layer_types=None, **{key: value})  # a list of them would contradict the number of layers
    devices.clear()
    told = rf"^backbone: {re.escape(str(folder / 'config.json'))} says [^:]*{key} {value:,}.* fetch the folder again"
    with pytest.raises(CorruptError, match=told) as caught:
        config_of("backbone", folder)
    assert len(str(caught.value).splitlines()) == 1
    assert {device.type for device in devices} <= {"meta"}, "memory was taken for weights"
    assert len(devices) < 5000


def test_the_architectures_own_name_is_told(tmp_path: Path) -> None:
    folder = written(tmp_path / "m", "distilbert")
    state(folder, n_layers=0)
    with pytest.raises(CorruptError, match=r"config\.json says n_layers 0 "):
        config_of("backbone", folder)


def test_sizes_too_large_together_are_told(tmp_path: Path) -> None:
    folder = written(tmp_path / "m", "bert")
    state(folder, hidden_size=500, intermediate_size=510, num_attention_heads=2, num_hidden_layers=60)
    with pytest.raises(CorruptError, match=r"says .*intermediate_size 510.* 37 tensors|says .*tensors"):
        config_of("backbone", folder)


@pytest.mark.parametrize("options", [{"max_shard_size": "10KB"}, {}])
def test_sharded_and_half_weights_are_counted(options: dict[str, Any], tmp_path: Path) -> None:
    folder = written(tmp_path / "m", "bert", **options)
    assert len(list(folder.glob("*.safetensors"))) == (1 if not options else len(set(index(folder).values())))
    transformers.AutoModel.from_pretrained(folder, dtype=torch.bfloat16).save_pretrained(tmp_path / "half", **options)
    for place in (folder, tmp_path / "half"):
        check_weights("backbone", place, allow_pickle=False)
        assert config_of("backbone", place).vocab_size == VOCABULARY
        state(place, vocab_size=10_000_000)
        with pytest.raises(CorruptError, match="vocab_size 10,000,000"):
            config_of("backbone", place)


def index(folder: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
    return dict(found["weight_map"])


@pytest.mark.parametrize("zipped", [True, False])
def test_weights_as_pickle_are_counted_too(tmp_path: Path, zipped: bool) -> None:
    folder = written(tmp_path / "m", "bert")
    model = transformers.AutoModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    assert config_of("backbone", folder).vocab_size == VOCABULARY
    for key, value in (("vocab_size", 10_000_000), ("num_hidden_layers", 3000)):
        state(folder, vocab_size=VOCABULARY, num_hidden_layers=2)
        state(folder, **{key: value})
        with pytest.raises(CorruptError, match=f"{key} {value:,}"):
            config_of("backbone", folder)


def test_a_model_that_is_larger_than_small_ones_is_read(tmp_path: Path) -> None:
    """Beyond the sizes that are never looked at: 40 million weights, in 2 bytes each, shared by input and output."""
    config = transformers.BertConfig(
        vocab_size=140_000, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024
    )
    model = transformers.BertForMaskedLM(config).to(torch.float16)
    assert sum(weight.numel() for weight in model.parameters()) > 2**25
    model.save_pretrained(tmp_path / "m")
    assert config_of("backbone", tmp_path / "m").hidden_size == 256


def test_numbers_that_build_nothing_are_no_matter(copied: Path) -> None:
    """RoPE's base, positions without a table, token ids: any number may stand there."""
    state(copied, rope_theta=10**9, max_length=10**9, chunk_size_feed_forward=10**9, sliding_window=10**7)
    assert config_of("backbone", copied).vocab_size > 0


def test_every_way_to_a_model_meets_the_check(copied: Path) -> None:
    source = find_backbone(str(copied))
    state(copied, vocab_size=10_000_000)
    ways = (
        lambda: check_backbone(str(copied), None, Runtime()),
        lambda: Backbone.load(str(copied), None, Runtime()),
        lambda: mlm_head_rows(source, Runtime()),
    )
    for way in ways:
        with pytest.raises(CorruptError, match="vocab_size 10,000,000"):
            way()


def test_the_package_does_not_meet_it_either(copied: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="pip install 'zoo-bench[st]'")
    source = find_backbone(str(copied))
    state(copied, vocab_size=10_000_000)
    with pytest.raises(CorruptError, match="vocab_size 10,000,000"):
        load_with_library(source, str(copied), None, Runtime(), "a module of its own")


def test_weights_of_other_shapes_are_told(copied: Path) -> None:
    state(copied, intermediate_size=48)
    with pytest.raises(CorruptError, match=r"weights of other shapes than its config\.json states") as caught:
        Backbone.load(str(copied), None, Runtime())
    assert "ignore_mismatched_sizes" not in str(caught.value)


@pytest.mark.slow
def test_a_bomb_takes_no_memory(tiny_bert: Path, tmp_path: Path) -> None:
    """The peak of a whole process that loads it, most of which is the libraries."""
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "m"))
    state(folder, vocab_size=10_000_000, num_hidden_layers=3000, intermediate_size=3_000_000, num_labels=10**6)
    # Not ru_maxrss, which begins with the peak of the process that started this one.
    program = (
        "import re, sys\nfrom pathlib import Path\n"
        "from zoo.encoder import Runtime\nfrom zoo.engine.backbone import Backbone\n"
        "from zoo.errors import CorruptError\n"
        "try:\n    Backbone.load(sys.argv[1], None, Runtime())\n"
        "except CorruptError as error:\n"
        "    print(error, re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=True)
    assert int(ended.stdout.split()[-1]) < 1_000_000, ended.stdout  # KiB
