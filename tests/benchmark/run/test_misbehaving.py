"""Methods that misbehave, files that may not be read, damaged inputs: failed cells and sentences, and no traceback."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Cli

from benchmark.data.corpora import load_corpus
from benchmark.data.sources import DataSource
from benchmark.run.runner import Runner
from zoo import files
from zoo.encoder import Runtime
from zoo.errors import CorruptError, UsageError
from zoo.files import iterate_bytes
from zoo.paths import user_path

PLUGIN = """
from dataclasses import dataclass
import os, sys
import numpy as np
import torch
from zoo.encoder import Encoder, Traits
from zoo.registry import register_method

@dataclass(frozen=True)
class R:
    pass

class Good(Encoder):
    Recipe = R
    dim = 4
    def encode(self, texts):
        return np.array([[len(t), t.count("a"), t.count("e"), 1] for t in texts], np.float32)
    def save(self, folder): pass
    @classmethod
    def load(cls, folder, runtime=None): return cls(R(), runtime)
    def fingerprint(self): return "x"

@register_method("good")
class Plain(Good):
    pass

@register_method("odd")
class Odd(Good):
"""

FAULTS = {
    "facts with a set": ("def facts(self): return {'a': {1}}", "facts(): 'a' is no plain value"),
    "sources raise": ("@classmethod\n    def sources(cls, recipe, runtime): raise KeyError('x')", "KeyError: 'x'"),
    "sources of a set": (
        "@classmethod\n    def sources(cls, recipe, runtime): return {'a': {1}}",
        "sources() must return",
    ),
    "traits raise": ("@classmethod\n    def traits(cls, recipe): raise RuntimeError('no')", "RuntimeError: no"),
    "traits of text": ("@classmethod\n    def traits(cls, recipe): return Traits(needs_corpus='yes')", "needs_corpus"),
    "leaves": ("def encode(self, texts): sys.exit(0)", "SystemExit: 0"),
    "ends the process": ("def encode(self, texts): os._exit(3)", "os._exit(3) was called"),
    "no message": (
        "def encode(self, texts): raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})()",
        "E: its message cannot be read",
    ),
    "costs a set": ("def encoding_stats(self): return {'kinds': {1}}", "it cannot be recorded"),
}
FAST = ("--tasks", "pocket-words", "--seeds", 1, "--precision", "fp32", "--device", "cpu")


def records_of(folder: Path) -> dict[str, Any]:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in (folder / "records").rglob("*.json")]
    return {record["method"]["name"]: record for record in found}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_method_is_a_failed_cell(fault: str, cli: Cli, tmp_path: Path) -> None:
    """The method before it and the one after it have their scores, and the exit code says that one failed."""
    body, words = FAULTS[fault]
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN + "    " + body + "\n\n@register_method('later')\nclass Later(Good):\n    pass\n")
    answer = cli("run", "--plugin", plugin, "--methods", "good,odd,later", "--results", tmp_path / "out", *FAST)
    found = records_of(tmp_path / "out")
    assert answer.code == 1 and "Traceback" not in answer.err + answer.out
    assert found["odd"]["status"] == "failed" and words in found["odd"]["reason"]
    assert found["good"]["scores"]["main"] == found["later"]["scores"]["main"]


def test_a_damaged_model_is_a_failed_cell(cli: Cli, tiny_bert: Path, tmp_path: Path) -> None:
    """The other methods of the sweep have their scores."""
    model, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree(tiny_bert, model)
    (model / "modules.json").write_text("null")
    answer = cli("run", "--methods", f"pretrained:model={model},random", "--results", out, *FAST)
    assert answer.code == 1 and "Traceback" not in answer.err + answer.out
    found = {name.partition(":")[0]: record for name, record in records_of(out).items()}
    assert found["random"]["status"] == "ok" and found["pretrained"]["status"] == "failed"
    assert "modules.json does not list the modules" in found["pretrained"]["reason"]


NO_RECIPES = {
    "None": ("Recipe = None", "Recipe is no dataclass"),
    "a dict": ("Recipe = dict", "Recipe is no dataclass"),
    "a plain class": ("Recipe = type('R', (), {})", "Recipe is no dataclass"),
    "one that raises": (
        "Recipe = dataclass(frozen=True)(type('R', (), {'__post_init__': lambda self: 1 / 0}))",
        "division by zero",
    ),
}


@pytest.mark.parametrize("kind", NO_RECIPES)
def test_a_class_without_a_recipe_is_a_failed_cell(kind: str, cli: Cli, tmp_path: Path) -> None:
    """Like every other fault of a plugin's class: the methods beside it have their scores."""
    body, words = NO_RECIPES[kind]
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN + f"    {body}\n")
    answer = cli("run", "--plugin", plugin, "--methods", "odd,good", "--results", tmp_path / "out", *FAST)
    found = records_of(tmp_path / "out")
    assert answer.code == 1 and "Traceback" not in answer.err + answer.out
    assert found["good"]["status"] == "ok" and found["odd"]["status"] == "failed"
    assert words in found["odd"]["reason"]
    checked = cli("check", "odd", "--plugin", plugin)
    assert checked.code != 0 and words in checked.err + checked.out and "Traceback" not in checked.err


@pytest.mark.parametrize("name", ["sources", "facts", "parameters"])
def test_check_tells_what_records_could_not_say(name: str, cli: Cli, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    mark = "@classmethod\n    " if name == "sources" else ""
    plugin.write_text(PLUGIN + f"    {mark}def {name}(self, *_): raise KeyError('x')\n")
    answer = cli("check", "odd", "--plugin", plugin)
    assert answer.code == 1 and "KeyError: 'x'" in answer.out and "Traceback" not in answer.err


def test_what_a_method_changes_is_put_back(cli: Cli, tmp_path: Path) -> None:
    import torch

    plugin = tmp_path / "plugin.py"
    changes = "torch.set_default_dtype(torch.float64); np.seterr(all='raise'); os.chdir('/'); sys.stderr = None"
    plugin.write_text(
        PLUGIN + f"    def encode(self, texts):\n        {changes}\n        return super().encode(texts)\n"
    )
    before = (torch.get_default_dtype(), np.geterr(), Path.cwd(), sys.stderr)
    answer = cli("run", "--plugin", plugin, "--methods", "odd,good", "--results", tmp_path / "out", *FAST)
    assert answer.code == 0
    assert (torch.get_default_dtype(), np.geterr(), Path.cwd(), sys.stderr) == before
    assert {record["status"] for record in records_of(tmp_path / "out").values()} == {"ok"}


# Root may read every file; without two of its capabilities it may not, and what it owns stays readable.
UNREADABLE = """
import contextlib, ctypes, io, json, os, sys
from benchmark.cli.main import main

if os.geteuid() == 0:
    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
    class Data(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]
    libc, header, data = ctypes.CDLL(None, use_errno=True), Header(0x20080522, 0), (Data * 2)()
    assert libc.capget(ctypes.byref(header), ctypes.byref(data)) == 0
    data[0].effective &= ~(1 << 1 | 1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(ctypes.byref(header), ctypes.byref(data)) == 0
answers = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as leaving:
            code = leaving.code
    answers.append([code, out.getvalue() + err.getvalue()])
print(json.dumps(answers))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="capabilities are Linux's")
def test_files_that_may_not_be_read_are_named(tiny_bert: Path, tmp_path: Path) -> None:
    """A backbone, word vectors, a training text and data sets, as somebody who is not root finds them."""
    model, out, data = tmp_path / "model", tmp_path / "out", tmp_path / "data"
    shutil.copytree(tiny_bert, model)
    vectors, corpus, words = tmp_path / "glove.txt", tmp_path / "corpus.txt", data / "word_sim"
    vectors.write_text("the 1 2\n")
    corpus.write_text("A sentence.\n")
    words.mkdir(parents=True)
    closed = [model / "model.safetensors", vectors, corpus, words]
    for path in closed:
        path.chmod(0)
    fast = [*map(str, FAST), "--out", str(out)]
    commands = [
        ["run", "--methods", f"avg-last:backbone={model}", *fast],
        ["run", "--methods", f"glove:path={vectors}", *fast],
        ["run", "--methods", "simcse", "--backbone", str(tiny_bert), "--corpus", str(corpus), *fast],
        ["run", "--methods", "random", "--data", str(data), *fast],
    ]
    program = [sys.executable, "-c", UNREADABLE, json.dumps(commands)]
    try:
        done = subprocess.run(
            program, capture_output=True, text=True, timeout=300, env=os.environ | {"HF_HUB_OFFLINE": "1"}
        )
    finally:
        for path in closed:
            path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    for path, (code, text) in zip(closed[:3], answers, strict=False):
        assert code != 0 and str(path) in text and "Traceback" not in text, text
    assert answers[3][0] == 0, "the pocket's data is its own"


@pytest.mark.parametrize("damage", ["cut", "flipped", "text"])
def test_a_damaged_compressed_corpus_is_named(damage: str, tmp_path: Path) -> None:
    packed = gzip.compress("\n".join(f"Sentence {n} of them." for n in range(3000)).encode())
    flipped = packed[:200] + bytes([packed[200] ^ 255]) + packed[201:]
    path = tmp_path / "corpus.txt.gz"
    path.write_bytes({"cut": packed[:-100], "flipped": flipped, "text": b"no gzip at all"}[damage])
    with pytest.raises(CorruptError, match=r"corpus\.txt\.gz cannot be read to its end"):
        load_corpus(str(path), DataSource(None, hub=False), None)


def test_a_compressed_corpus_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten megabytes of one letter pack to a thousandth."""
    monkeypatch.setattr(files, "_LEAST_BOUND", 2**20)
    path = tmp_path / "bomb.txt.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(10):
            file.write(b"a" * 999_999 + b"\n")
    with pytest.raises(CorruptError, match="as no text does"):
        for _ in iterate_bytes(path):
            pass


def test_a_path_of_no_user_is_one_sentence() -> None:
    with pytest.raises(UsageError) as error:
        user_path("~no-such-user-here/x")
    assert str(error.value).endswith(".") and not str(error.value).endswith("..")


def test_a_folder_that_vanishes_stops_no_run(tmp_path: Path) -> None:
    """Another process may remove the empty folder of an encoder, or put something there, while this one leaves it."""
    runner = Runner(tmp_path, Runtime())
    for leave in (lambda folder: folder.rmdir(), lambda folder: (folder / "file").touch()):
        with runner._lock(tmp_path / "encoders" / "one", 0.1) as mine:
            leave(tmp_path / "encoders" / "one")
        assert mine


def test_a_damaged_archive_of_the_hub_says_what_to_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    from benchmark.data.catalog import catalog

    archive = tmp_path / "senteval.tar.gz"
    archive.write_bytes(b"no archive")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **__: str(archive))
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    entry, form = next(
        (one, name) for one in catalog().values() for name, form in one.forms.items() if (form.hub or {}).get("file")
    )
    with pytest.raises(CorruptError, match=r"Delete .*senteval\.tar\.gz and fetch it again"):
        DataSource(None, cache=tmp_path / "cache")._fetch_archive(entry, form)


@pytest.mark.slow
def test_an_ascii_terminal_gets_plans_and_checks(tmp_path: Path) -> None:
    recipe = tmp_path / "größe.yaml"
    recipe.write_text("extends: random\nsummary: größer\nparameters: {}\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    program = "import sys; from benchmark.cli.main import main; main(sys.argv[1:])"
    for words in (("run", "--dry-run", "--methods", str(recipe), *map(str, FAST)), ("check", str(recipe))):
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path, timeout=120)
        assert done.returncode == 0, done.stderr
        (done.stdout + done.stderr).decode("ascii")


@pytest.mark.slow
def test_what_is_not_changed_in_torch_is_not_set_again() -> None:
    """Setting it imports PyTorch's compiler; what a method did change is put back."""
    code = (
        "import sys, torch\n"
        "from benchmark.run.stop import contained\n"
        "with contained(): pass\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "with contained(): torch.use_deterministic_algorithms(True, warn_only=True)\n"
        "assert not torch.are_deterministic_algorithms_enabled()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
