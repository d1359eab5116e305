"""Install each extra as README does, in an environment of its own, and run its page's command in an empty folder.

Run by `tox -e extras`, each week or by hand; not in each run of CI. Usage: python tests/extras.py FOLDER [EXTRA ...].
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PART = "--train-sentences 128 --seeds 1 --no-controls --tasks pocket-words"
# Llama of two layers, which is small enough to train in seconds.
DECODER = """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaModel, PreTrainedTokenizerFast
words = ["<unk>", "<s>", "</s>", *"abcdefghijklmnopqrstuvwxyz", *[f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"]]
split = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
split.pre_tokenizer = pre_tokenizers.Whitespace()
special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
PreTrainedTokenizerFast(tokenizer_object=split, **special).save_pretrained("decoder")
sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
LlamaModel(LlamaConfig(vocab_size=len(words), **sizes)).save_pretrained("decoder")
"""
FINISHED = """
from sentence_transformers import SentenceTransformer, sentence_transformer
from zoo.engine.backbone import find_backbone
parts = sentence_transformer.modules
SentenceTransformer(
    modules=[parts.Transformer(str(find_backbone("zoo-small", None).folder)), parts.Pooling(384)], device="cpu"
).save("finished")
"""
MTEB = """
import benchmark
print(benchmark.for_mteb("avg-last").mteb_model_meta.name)
"""
SHEET = """
import pandas
pairs = [("a dog runs", "a dog is running", 5), ("rain in the park", "a red car", 0), ("a man eats", "he eats", 4)] * 12
rows = [(f"{a} {i}", f"{b} {i // 2}", score + i % 2) for i, (a, b, score) in enumerate(pairs)]
pandas.DataFrame(rows, columns=["sentence1", "sentence2", "score"]).to_excel("my.xlsx", index=False)
"""
TABLE = SHEET.replace('to_excel("my.xlsx"', 'to_csv("my.csv"')


def to_onnx() -> str:
    page = (ROOT / "docs" / "methods" / "finished.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(# to_onnx\.py.*?)```", page, re.DOTALL)
    assert program is not None, "the page lost its program"
    return program[1]


# What runs with an extra, in order: words of zoo-bench, a program, or a further package that the page installs.
JOBS: dict[str, tuple[str, ...]] = {
    "srl": (f"run --methods moco-srl {PART}",),
    "vectors": (f"run --methods glove,sif {PART}",),
    "tensorboard": (f"run --methods simcse --tracker tensorboard {PART}",),
    "plots": (TABLE, "choose my.csv --encoders bag-of-words,avg-last --plot plot.png"),
    "excel": (SHEET, "choose my.xlsx --encoders bag-of-words,avg-last"),
    "peft": (DECODER, f"run --methods prompteol-sup:supervised=false --backbone decoder {PART}"),
    "tune": ("tune simcse --trials 2 --train-sentences 128 --dev pocket-pairs",),
    "mteb": (MTEB,),
    "onnx": ("pip onnx", FINISHED, f"import sys\nsys.argv[1:] = ['finished']\n{to_onnx()}", TABLE,
             "choose my.csv --encoders ./finished --backend onnx"),
    "ray": (f"run --methods cls,avg-last --executor ray {PART}",),
}  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_CONSTRAINT")}
    return {**kept, "HF_HUB_OFFLINE": "1", "ZOO_BENCH_CACHE": str(folder / "cache")}


def install(python: Path, requirement: str) -> None:
    words = [python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", requirement]
    subprocess.run(words, check=True, cwd=ROOT)


def tried(base: Path, folder: Path, extra: str) -> str:
    """Copy the environment of the core, install the extra into it, and run its jobs; "" or the last line of an error.

    The copy shares the files of the core by hard links, which pip replaces and does not change.
    """
    place, work = folder / extra / "venv", folder / extra / "empty"
    shutil.rmtree(folder / extra, ignore_errors=True)
    shutil.copytree(base, place, symlinks=True, copy_function=os.link)
    work.mkdir()
    python = place / "bin" / "python"
    try:
        install(python, f"{ROOT}[{extra}]")
        for job in JOBS[extra]:
            if job.startswith("pip "):
                install(python, job.removeprefix("pip "))
                continue
            words = ["-c", job] if "\n" in job else ["-m", "benchmark", *job.split()]
            subprocess.run(
                [python, *words],
                cwd=work,
                env=environment(folder),
                check=True,
                capture_output=True,
                text=True,
                timeout=900,
            )
    except subprocess.CalledProcessError as error:
        return str(error.stderr or error).strip()[-600:] or f"rc {error.returncode}"
    shutil.rmtree(place)
    return ""


def main(folder: Path, chosen: list[str]) -> int:
    base = folder / "core"
    if not base.exists():
        venv.create(base, with_pip=True)
        install(base / "bin" / "python", str(ROOT))
    failed = 0
    for extra in chosen or JOBS:
        reason = tried(base, folder, extra)
        failed += bool(reason)
        print(f"{extra}: {reason or 'works'}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), sys.argv[2:]))
