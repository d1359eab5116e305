"""Every file that is read again is written by zoo/files.py: atomically, with a sum; other writers are listed here."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_RAW = re.compile(
    r"\.write_text\(|\.write_bytes\(|open\([^)]*[\"'][wax]b?[\"']|json\.dump\(|np\.save|save_file\(|save_pretrained\("
    r"|shutil\.(copy|move)"
)
REASONS = {
    "zoo/files.py": "the primitive itself",
    "zoo/training/folder.py": "a log for people, appended to while training",
    "zoo/engine/backbone.py": "into a folder whose files zoo/api.py sums",
    "zoo/methods/textvectors.py": "an example in a docstring",
    "papers/zoo_bench_papers/pretraining/pretrain.py": "into a folder that write_sums sums",
    "zoo/srl/views.py": "inside atomic_path, with a sum in its first line",
    "zoo/machine.py": "a setting of the system",
    "benchmark/data/sources.py": "inside atomic_path; the catalog holds its sum",
    "benchmark/tuning/trials.py": "the mark of a trial that was begun, which has no score",
    "benchmark/run/executors.py": "plugins, into a temporary folder that is read once",
    "benchmark/run/objects.py": "a given model, into a temporary folder that is read once",
    "benchmark/run/cache.py": "inside atomic_path, with a sum in its metadata",
}


def test_no_other_file_writes_on_its_own() -> None:
    files = [file for room in ("zoo", "benchmark", "papers") for file in sorted((ROOT / room).rglob("*.py"))]
    raw = {str(f.relative_to(ROOT)) for f in files if _RAW.search(f.read_text(encoding="utf-8"))}
    assert raw == set(REASONS), raw ^ set(REASONS)
