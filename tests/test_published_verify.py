"""`verify` on every published folder: no number there is another than its kept item scores make."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmark.analysis.verify import verify

FOLDERS = sorted(path.parent for path in (Path(__file__).parents[1] / "leaderboards").glob("*/records.parquet"))
FEWEST = {  # cells of which each score follows from what is kept; the others keep no item scores, or need an encoder
    "all-MiniLM-L6-v2": 0,
    "smoke": 1,
    "words": 79,
    "zoo-mini": 6_537,
    "zoo-mini-float32": 126,
    "zoo-small": 1_211,
    "zoo-small-course": 0,
    "zoo-small-curve": 252,
    "zoo-small-tuned": 945,
}


def test_every_published_folder_is_verified() -> None:
    assert [folder.name for folder in FOLDERS] == sorted(FEWEST)


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_published_cell_differs(folder: Path, request: pytest.FixtureRequest) -> None:
    """As `zoo-bench verify FOLDER --no-encode --allow-unverified` does, without network and without any training.

    Where the data is not beside the project, scores are computed from the kept items, and gold scores not compared.
    """
    try:
        data: str | None = str(request.getfixturevalue("data_dir"))
    except pytest.skip.Exception:
        data = None
    verified = verify(folder, data, encode=False)
    counts = Counter(one.word for one in verified.verdicts)
    assert [f"{one.cell}: {one.why}" for one in verified.verdicts if one.word == "differs"] == []
    assert verified.exit_code(allow_unverified=True) == 0
    assert data is None or counts["verified"] >= FEWEST[folder.name]
