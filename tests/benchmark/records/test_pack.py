"""Packing loses nothing: two Parquet files hold what the loose files held, and damage to them is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fakes import Cli, make_record
from pack_fakes import contents, fill

from benchmark.records import pack as packing
from benchmark.records.folder import Records
from benchmark.records.pack import pack
from benchmark.records.packed import PAIRS, RECORDS
from zoo.errors import CorruptError, MissingError
from zoo.files import SUMS

GOLD = np.arange(30) / 10
SCRIPT = "import sys; from pathlib import Path; from benchmark.records.pack import pack; pack(Path(sys.argv[1]))"


def test_packed_records_are_the_loose_ones(tmp_path: Path, cli: Cli) -> None:
    """Records and pair scores are equal, bit by bit; the loose files are gone, and packing again adds what is new."""
    fill(tmp_path)
    before = contents(tmp_path)
    answer = cli("pack", "--results", tmp_path)
    assert answer.code == 0 and f"{len(before)} records, {len(before)} of them new" in answer.out
    assert [path for path in (tmp_path / "records").rglob("*") if path.is_file()] == []
    assert contents(tmp_path) == before
    Records(tmp_path).write(make_record("later"), (GOLD[::-1], GOLD))
    more = contents(tmp_path)
    assert pack(tmp_path).added == 1
    assert contents(tmp_path) == more and len(more) == len(before) + 1


def test_pandas_reads_them(tmp_path: Path) -> None:
    """The columns of both files are joined by key and method."""
    store = fill(tmp_path)
    wanted = {(r["method"]["name"], r["key"]): r for r in store.all()}
    scores = {name: store.pair_scores(r) for name, r in wanted.items() if store.has_pairs(r)}
    pack(tmp_path)
    records, pairs = pd.read_parquet(tmp_path / RECORDS), pd.read_parquet(tmp_path / PAIRS)
    assert {(r.method, r.key): (r.task, r.status) for r in records.itertuples()} == {
        name: (r["task"]["name"], r["status"]) for name, r in wanted.items()
    }
    assert len(pairs) == len(scores)
    for row in pairs.itertuples():
        predicted, gold = scores[row.method, row.key]
        assert np.array_equal(row.predicted, predicted) and np.array_equal(row.gold, gold)


def test_what_killed_packings_left_is_removed(tmp_path: Path) -> None:
    """Of the packed files at once, because no other packing is at work; of records an hour later."""
    store = fill(tmp_path)
    place = store.place(store.all()[0])[0]
    names = [f".{name}.0a1b2c3d.tmp" for name in (RECORDS, PAIRS, SUMS)] + [f"records/{place}/.a.json.4e5f6071.tmp"]
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    pack(tmp_path)
    assert [name for name in names if (tmp_path / name).exists()] == names[3:]
    os.utime(tmp_path / names[3], (0, 0))
    pack(tmp_path)
    assert not (tmp_path / names[3]).exists()


@pytest.mark.slow
def test_two_packings_at_once_lose_nothing(tmp_path: Path) -> None:
    """The lock lies beside the records, so that commands with other cache folders share it."""
    fill(tmp_path)
    before = contents(tmp_path)
    running = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], env={"ZOO_BENCH_CACHE": str(tmp_path / name)})
        for name in ("one", "two", "three")
    ]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    assert contents(tmp_path) == before


def test_a_contradicting_record_stays_loose(tmp_path: Path) -> None:
    """A copied record with another score is named; one that a run wrote over the packed one takes its place."""
    store, record = Records(tmp_path), make_record("bag", main=0.5)
    path = store.write(record)
    pack(tmp_path)
    copied = make_record("bag", main=0.25)
    Records(tmp_path / "other").write(copied)
    source = Records(tmp_path / "other").path("bag", copied["task"]["name"], copied["key"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.read_bytes())
    (reason,) = pack(tmp_path).skipped
    assert str(path) in reason and path.exists()
    path.unlink()
    store.write(copied)  # states which packed record it replaces
    assert pack(tmp_path).skipped == []
    assert [r["scores"]["main"] for r in Records(tmp_path).all()] == [0.25]


def test_a_record_that_is_written_while_packing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, real = Records(tmp_path), packing.write_packed
    path = store.write(make_record("bag", main=0.5))

    def write_packed(*given: Any) -> None:
        real(*given)
        store.write(make_record("bag", main=0.25))

    monkeypatch.setattr(packing, "write_packed", write_packed)
    pack(tmp_path)
    assert '"main": 0.25' in path.read_text(encoding="utf-8")


def test_a_damaged_record_stays_where_it_is(tmp_path: Path) -> None:
    store = fill(tmp_path)
    damaged = sorted((tmp_path / "records").rglob("*.json"))[0]
    damaged.write_text("{")
    done = pack(tmp_path)
    assert damaged.exists() and len(done.skipped) == 1 and str(damaged) in done.skipped[0]
    assert done.records == len(store.all())


@pytest.mark.slow
@pytest.mark.parametrize("place", [SUMS, RECORDS, PAIRS])
def test_a_packing_killed_between_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Each file is whole, and the sums name what lies there."""
    fill(tmp_path)
    pack(tmp_path)
    Records(tmp_path).write(make_record("later"), (GOLD[::-1], GOLD))
    before, real = contents(tmp_path), Path.replace

    def replace(path: Path, target: Path) -> Path:
        if target.name == place:
            raise KeyboardInterrupt
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            pack(tmp_path)
    assert contents(tmp_path) == before
    pack(tmp_path)
    assert contents(tmp_path) == before and len((tmp_path / SUMS).read_text().splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", [RECORDS, PAIRS, SUMS])
def test_a_flipped_byte_is_named(tmp_path: Path, name: str, cli: Cli) -> None:
    """At twelve places of the file, its footer too: an error that names the file whose sum is another."""
    fill(tmp_path)
    pack(tmp_path)
    path = tmp_path / name
    intact = path.read_bytes()
    for place in np.linspace(0, len(intact) - 1, 12).astype(int):
        content = bytearray(intact)
        content[place] ^= 1 << int(place % 8)
        path.write_bytes(content)
        with pytest.raises(CorruptError, match=f"{RECORDS}|{PAIRS}" if name == SUMS else name):
            contents(tmp_path)
    path.write_bytes(intact)
    path = path.with_name(RECORDS) if name == SUMS else path
    intact = path.read_bytes()
    path.write_bytes(intact[: len(intact) // 2])
    answer = cli("leaderboard", "--results", tmp_path, "--out", tmp_path / "out", "--strict")
    assert answer.code != 0 and str(path) in answer.err and "Traceback" not in answer.err


def test_nothing_to_pack(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no record to pack"):
        pack(tmp_path)
    with pytest.raises(MissingError, match="does not exist"):
        pack(tmp_path / "nowhere")


@pytest.mark.parametrize("how", ["a letter", "a line", "a byte"])
def test_a_damaged_list_of_sums_is_named_itself(tmp_path: Path, how: str) -> None:
    """No file of results is called damaged for what may be damage of the list."""
    fill(tmp_path)
    pack(tmp_path)
    sums = tmp_path / SUMS
    text = sums.read_text("utf-8")
    line = next(line for line in text.splitlines() if line.endswith(RECORDS))
    changed = {"a letter": ("0" if line[0] != "0" else "1") + line[1:], "a line": "", "a byte": "\x07" + line[1:]}
    sums.write_text(text.replace(line, changed[how]), "utf-8")
    with pytest.raises(CorruptError) as refused:
        Records(tmp_path).all()
    assert "one of the two is damaged" in str(refused.value) or str(refused.value).startswith(f"{sums} is damaged")
    assert how == "a letter" or str(refused.value).startswith(f"{sums} is damaged")
