"""Records of before whose score is rounding noise are read as n/a."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import make_record

from benchmark.records.meaning import judged, without_meaning
from benchmark.records.store import Records, read_records


def fitted_record(rank: int, k: int, texts: int, transductive: bool = True) -> Any:
    record = make_record("whitening-target", "MC-30", facts={"rank": rank, "k": k, "dimensions": k})
    record["coverage"] = {"texts": texts, "covered": texts, "missing": []}
    record["method"]["traits"]["transductive"] = transductive
    return record


@pytest.mark.parametrize(
    ("rank", "k", "texts", "meaningless"),
    [(38, 256, 39, True), (48, 256, 49, True), (255, 256, 277, False), (38, 20, 39, False), (255, 256, 256, True)],
)
def test_a_full_rank_fit_to_the_texts_has_no_score(rank: int, k: int, texts: int, meaningless: bool) -> None:
    """MC-30 and RG-65 on zoo-mini, a half of WS-353, fewer dimensions kept, and as many texts as directions."""
    record = fitted_record(rank, k, texts)
    (read,) = judged([record])
    assert (read["status"], read["scores"] is None) == (("n/a", True) if meaningless else ("ok", False))
    if meaningless:
        assert f"{texts} distinct texts has rank {min(rank, k)}" in read["reason"]
    assert record["status"] == "ok"


def test_other_records_keep_their_scores() -> None:
    """Fitted elsewhere, fitted by no linear map, failed, or judged when it was measured."""
    later = {**fitted_record(38, 256, 39), "adapt": {"seconds": 1.0, "texts": 80, "rank": 38}}
    flow = fitted_record(38, 256, 39)
    del flow["facts"]["rank"]
    bare = {**fitted_record(38, 256, 39), "coverage": None}
    for record in (fitted_record(38, 256, 39, transductive=False), flow, later, bare, make_record()):
        assert without_meaning(record) is None


def test_whoever_reads_a_folder_reads_them_judged(tmp_path: Path) -> None:
    """Tables, `compare` and `analyze` read through one door; the file keeps what was measured."""
    store = Records(tmp_path)
    path = store.write(fitted_record(38, 256, 39))
    (read,) = read_records(store)
    assert read["status"] == "n/a" and '"status": "ok"' in path.read_text(encoding="utf-8")
