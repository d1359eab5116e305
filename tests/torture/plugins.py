"""Plugins that misbehave: whatever a method does, a run ends in records, sentences and the scores of its neighbours."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.torture.common import Ended, Verdict, command, forked, preload, workplace

HEAD = """
import os, signal, sys, time, zlib
from dataclasses import dataclass
from os import _exit as leave
import numpy as np
import torch
from zoo.encoder import Encoder, FitReport, Runtime, Traits
from zoo.files import read_json, sha256_json, write_json
from zoo.registry import register_method

def hashed(texts, dim=16):
    vectors = np.zeros((len(texts), dim), np.float32)
    for row, text in enumerate(texts):
        for word in ["<s>", *text.lower().split()]:
            vectors[row, zlib.crc32(word.encode("utf-8", "surrogatepass")) % dim] += 1
        vectors[row, 0] += len(text) % 7 / 100
    return vectors

@dataclass(frozen=True, kw_only=True)
class GoodRecipe:
    width: int = 16

class Good(Encoder):
    Recipe = GoodRecipe
    def __init__(self, recipe, runtime):
        super().__init__(recipe, runtime)
        self.dim = 16
    def encode(self, texts):
        return hashed(texts)
    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "good.json", {"width": self.recipe.width})
    @classmethod
    def load(cls, folder, runtime=None):
        return cls(cls.Recipe(**read_json(folder / "good.json")), runtime or Runtime())
    def fingerprint(self):
        return sha256_json([type(self).__qualname__, self.recipe.width])

class Learning(Good):
    @classmethod
    def traits(cls, recipe):
        return Traits(needs_corpus=True, stochastic=True)
    def fit(self, corpus, *, dev_score=None, run):
        return FitReport(fitted=True, steps=1, sentences=1, seconds=0.1)

@register_method("first")
class First(Good):
    pass

@register_method("last")
class Last(Good):
    pass
"""

# Where a fault happens -> what it does: lines of the body of that method.
BAD_VECTORS = (
    "return hashed(texts)[:, :7]",
    "return hashed(texts)[:-1]",
    "return hashed(texts).astype(np.float64)",
    "return hashed(texts).astype(object)",
    "return hashed(texts) * np.nan",
    "return hashed(texts) + np.float32('inf')",
    "return hashed(texts).tolist()",
    "return torch.zeros(len(texts), 16)",
    "return None",
    "return hashed(sorted(texts))",
    "return np.roll(hashed(texts), 1, axis=0)",
    "return hashed(texts) - hashed(texts).mean(axis=0)",
    "return hashed(texts) * len(texts)",
    "return np.ones((len(texts), 16), np.float32)",
    "return np.zeros((len(texts), 16), np.float32)",
    "return np.random.default_rng().normal(size=(len(texts), 16)).astype(np.float32)",
    "return hashed([t for t in texts if 'a' in t])",
    "return np.ma.masked_array(hashed(texts))",
    "return hashed(texts) if len(texts) <= 8 else hashed(texts) * np.nan",
)
RAISES = (
    "sys.exit(0)",
    "sys.exit('leaving')",
    "os._exit(0)",
    "leave(0)",
    "raise SystemExit",
    "raise RuntimeError('exploded\\n' * 40)",
    "raise KeyError(('a', 1))",
    "raise ValueError('caf\\udce9 \\x1b[2J')",
    "raise MemoryError",
    "raise RecursionError",
    "return self_calls()",
    "raise StopIteration",
    "raise OSError(28, 'No space left on device')",
    "raise UnicodeDecodeError('utf-8', b'x', 0, 1, 'odd')",
    "raise type('Own', (Exception,), {'__str__': lambda self: 1 / 0})()",
    "raise AssertionError",
    "raise FloatingPointError",
)
HARMLESS = (
    "print('noise', flush=True); print('noise', file=sys.stderr)",
    "torch.set_default_dtype(torch.float64)",
    "torch.manual_seed(1); np.random.seed(1)",
    "np.seterr(all='raise')",
    "torch.set_grad_enabled(False)",
    "os.chdir('/')",
    "sys.stdout = open(os.devnull, 'w')",
    "os.environ['HOME'] = '/nowhere'",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "sys.setrecursionlimit(200)",
    "torch.use_deterministic_algorithms(True)",
    "time.sleep(0.1)",
    "import warnings; warnings.warn('odd')",
    "import logging; logging.getLogger().error('odd')",
)
FACTS = (
    "{'a': {1, 2}}", "{'a': object()}", "{1: 2}", "{'a': np.ones(3)}", "{'a': float('nan')}", "[1]", "None",
    "{'a': 10**400}",
)  # fmt: skip
TRAITS = (
    "{'needs_corpus': True}", "None", "Traits(precision='fp64')", "Traits(needs_corpus='yes')",
    "Traits(training_passes=1e999)",
)  # fmt: skip
DEATHS = ("os.kill(os.getpid(), signal.SIGKILL)", "os.abort()", "import ctypes; ctypes.string_at(0)")
KINDS = (
    "dies",
    "vectors",
    "raises",
    "harmless",
    "facts",
    "traits",
    "recipe",
    "sources",
    "dim",
    "learning",
    "unfinished",
)
RAISING = (
    "encode(self, texts)", "__init__(self, recipe, runtime)", "traits(cls, recipe)", "sources(cls, recipe, runtime)",
    "code_parts(cls, recipe)", "facts(self)", "covers(self, texts)", "parameters(self)", "encoding_stats(self)",
    "fingerprint(self)", "reads(cls, recipe, corpus)",
)  # fmt: skip
FIT = ("fit(self, corpus, *, dev_score=None, run)", "save(self, folder)", "load(cls, folder, runtime=None)")
RECIPES = (
    "None", "dict", "object", "type('R', (), {'__init__': lambda self, **k: None})", "5",
    "dataclass(type('R', (), {'__post_init__': lambda self: sys.exit(0)}))",
)  # fmt: skip


def plugin(number: int, rng: random.Random) -> tuple[str, str, str]:
    """Return the class of one method, its kind (bad: every cell fails; quiet: some may) and what it does."""
    name = f"odd{number}"
    kind = rng.choice(KINDS)
    body, base, does = "", "Good", ""
    if kind == "vectors":
        does = rng.choice(BAD_VECTORS)
        body = f"    def encode(self, texts):\n        {does}\n"
    elif kind == "dies":
        does = rng.choice(DEATHS)
        when = rng.choice(("True", "len(texts) > 8"))
        body = f"    def encode(self, texts):\n        if {when}:\n            {does}\n        return hashed(texts)\n"
        does = f"{does} if {when}"
    elif kind == "raises":
        where = rng.choice(RAISING)
        does = rng.choice(RAISES)
        mark = "    @classmethod\n" if "(cls" in where else ""
        body = f"{mark}    def {where}:\n        self_calls = lambda: self_calls()\n        {does}\n"
        does = f"{where}: {does}"
        kind = "may fail" if where.startswith(("fingerprint", "reads")) else kind
    elif kind == "harmless":
        does = rng.choice(HARMLESS)
        body = f"    def encode(self, texts):\n        {does}\n        return hashed(texts)\n"
    elif kind == "facts":
        does = rng.choice(FACTS)
        body, kind = f"    def facts(self):\n        return {does}\n", "may fail"
    elif kind == "traits":
        does = rng.choice(TRAITS)
        body, kind = f"    @classmethod\n    def traits(cls, recipe):\n        return {does}\n", "may fail"
    elif kind == "recipe":
        does = rng.choice(RECIPES)
        body = f"    Recipe = {does}\n"
    elif kind == "sources":
        does = rng.choice(
            ("{'a': {1}}", "[1]", "None", "{'backbone': object()}", "{1: {}}", "{'backbone': {'name': 5}}")
        )
        body = f"    @classmethod\n    def sources(cls, recipe, runtime):\n        return {does}\n"
        kind = "may fail"
    elif kind == "dim":
        does = rng.choice(("float('inf')", "None", "-1", "10**20", "'16'", "16.0", "np.int64(16)"))
        body = "    def __init__(self, recipe, runtime):\n        super().__init__(recipe, runtime)\n"
        body += f"        self.dim = {does}\n"
        kind = "may fail"
    elif kind == "learning":
        base, kind = "Learning", "may fail"
        where = rng.choice(FIT)
        does = rng.choice((*RAISES, "return None", "return 5", "return FitReport(fitted=True, facts={'a': {1}})"))
        mark = "    @classmethod\n" if "(cls" in where else ""
        body = f"{mark}    def {where}:\n        self_calls = lambda: self_calls()\n        {does}\n"
        does = f"{where}: {does}"
    else:
        base, does = "Encoder", "a class without save and load"
        body = "    Recipe = GoodRecipe\n    dim = 16\n    def encode(self, texts):\n        return hashed(texts)\n"
    return f"@register_method({name!r})\nclass Odd{number}({base}):\n{body or '    pass'}\n", kind, does


def plugins(count: int, seed: int) -> int:
    """Make so many methods, each in a run between two good ones, and check each."""
    verdict = Verdict("plugins")
    rng = random.Random(seed)
    with workplace() as folder:
        preload(folder / "first")
        place = folder / "one.py"
        place.write_text(HEAD, encoding="utf-8")
        preload(folder / "first", command(*_run(place, "first,last", folder / "rehearsal")))
        clean = forked(command(*_run(place, "first,last", folder / "clean")), folder / "logs")
        wanted = _scores(folder / "clean")
        if clean.code != 0 or len(wanted) != 4:
            verdict.fault(f"the run without a fault: {clean.err[-1000:]}")
            return verdict.end()
        for number in range(count):
            verdict.tried += 1
            text, kind, does = plugin(number, rng)
            verdict.count(kind)
            place = folder / f"plugin{number}.py"
            place.write_text(HEAD + "\n" + text, encoding="utf-8", errors="backslashreplace")
            out = folder / f"out{number}"
            what = f"{kind}, {does}"
            methods = f"first,odd{number},last"
            ended = forked(command(*_run(place, methods, out)), folder / "logs", most_seconds=300)
            if kind == "dies":
                _judge_death(verdict, what, number, wanted, place, folder, ended)
                continue
            for fault in ended.faults():
                verdict.fault(f"{what}: run: {fault}\n{ended.err[-1500:]}")
            _judge(verdict, f"{what}: run", kind, number, wanted, out, ended.code, ended.err)
            checked = forked(command("check", f"odd{number}", "--plugin", place), folder / "logs", most_seconds=300)
            for fault in checked.faults():
                verdict.fault(f"{what}: check: {fault}\n{checked.err[-1500:]}")
            if checked.code == 0 and kind in ("raises", "recipe", "unfinished"):
                verdict.fault(f"{what}: check ends with exit code 0")
    return verdict.end()


def _run(plugin: Path, methods: str, out: Path) -> list[object]:
    return [
        "run", "--plugin", plugin, "--methods", methods, "--tasks", "pocket-pairs,pocket-words", "--seeds", 1,
        "--train-sentences", 20, "--precision", "fp32", "--device", "cpu", "--no-controls",
        "--out", out,
    ]  # fmt: skip


def _scores(out: Path) -> dict[tuple[str, str], Any]:
    found = {}
    for path in sorted((out / "records").rglob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        score = record["scores"]["main"] if record["scores"] else None
        found[record["method"]["name"], record["task"]["name"]] = score
    return found


def _judge_death(
    verdict: Verdict, what: str, number: int, wanted: dict[Any, Any], place: Path, folder: Path, ended: Ended
) -> None:
    """The first run ends with the process; the second one says so, and has the scores of the neighbours."""
    out = folder / f"out{number}"
    if ended.code >= 0:
        verdict.fault(f"{what}: the process did not die: {ended.err[-800:]}")
    again = forked(command(*_run(place, f"first,odd{number},last", out)), folder / "logs", most_seconds=300)
    found = _scores(out)
    if {key: score for key, score in found.items() if key[0] != f"odd{number}"} != wanted:
        verdict.fault(f"{what}: the second run lacks scores of the neighbours: {found}; {again.err[-800:]}")
    if "the process died while it" not in again.err or "Traceback" in again.err:
        verdict.fault(f"{what}: the second run does not tell: {again.err[-800:]}")


def _judge(
    verdict: Verdict, what: str, kind: str, number: int, wanted: dict[Any, Any], out: Path, code: int, err: str
) -> None:
    found = _scores(out)
    neighbours = {key: score for key, score in found.items() if key[0] != f"odd{number}"}
    if neighbours != wanted:
        verdict.fault(f"{what}: the scores of its neighbours are {neighbours}, not {wanted}; {err[-800:]}")
    own = [score for key, score in found.items() if key[0] == f"odd{number}"]
    if len(own) != 2:
        verdict.fault(f"{what}: {len(own)} records of its two cells; exit code {code}; {err[-800:]}")
    if any(score is None for score in own) and code == 0:
        verdict.fault(f"{what}: a cell failed and the exit code is 0")
    if kind == "harmless" and (code != 0 or any(score is None for score in own)):
        verdict.fault(f"{what}: failed: {err[-800:]}")
    if kind == "raises" and any(score is not None for score in own):
        verdict.fault(f"{what}: has a score")
