"""Results at an address, on fsspec's memory://: the mirror and the address agree, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fsspec
import numpy as np
import pytest
from fakes import Cli, failed, make_record

from benchmark.records import mirror
from benchmark.records.folder import Records
from benchmark.records.pack import pack
from benchmark.records.remote import Remote, fetch_encoder, remote_of, sending

PAIRS = np.linspace(0, 1, 280, dtype="float32"), np.linspace(1, 0, 280, dtype="float32")

Machine = Callable[..., Remote]


@pytest.fixture
def memory() -> Iterator[Any]:
    """The store, which is empty before and after."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()


@pytest.fixture
def machine(memory: Any, tmp_path: Path) -> Machine:
    """Return the mirror that a machine of this name has of an address."""

    def make(name: str, address: str = "memory://bucket/study") -> Remote:
        return remote_of(tmp_path / name / "addresses" / quote(address, safe=""))

    return make


class Away:
    """A file system that cannot be reached."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError("nobody answers")


def scores(of: Remote) -> dict[str, float]:
    """The score of each cell in a mirror, whose pair scores can be read."""
    store = Records(of.folder)
    found = {record["task"]["name"]: record for record in store.all()}
    assert not store.corrupt and not store.damaged_pairs(list(found.values()))
    return {task: record["scores"]["main"] if record["scores"] else None for task, record in found.items()}


def test_what_one_machine_sends_another_fetches(machine: Machine, memory: Any) -> None:
    a, b = machine("a"), machine("b")
    Records(a.folder).write(make_record(task="pocket-pairs"), PAIRS)
    Records(a.folder).write(make_record(task="pocket-words"))
    (a.folder / "pocket.md").write_text("a table")
    (a.folder / "notes.lock").write_text("no result")
    assert memory.find("/bucket/study/records")  # each record is sent when it is written
    assert a.unsent() == 1
    a.send()
    assert a.unsent() == 0
    b.fetch()
    ours, theirs = (
        {path.relative_to(one.folder): path.read_bytes() for path in (one.folder / "records").rglob("*.*")}
        for one in (a, b)
    )
    assert ours == theirs and len(ours) == 3
    assert (
        not any("lock" in path or ".mirror" in path for path in memory.find("/"))
        and not (b.folder / "pocket.md").exists()
    )


def test_nothing_is_fetched_to_another_place_or_read_twice(machine: Machine, memory: Any, monkeypatch: Any) -> None:
    for name in ("records/../../../evil.json", "records/bag/.hidden.json", "/evil.json", "records/bag/a/b.json"):
        memory.pipe_file(f"/bucket/study/{name}", b"{}")
    a, b = machine("a"), machine("b")
    Records(a.folder).write(make_record(), PAIRS)
    a.send()
    b.fetch()
    assert sorted(path.name for path in b.folder.rglob("*.*") if ".mirror" not in path.name) == sorted(
        path.name for path in (a.folder / "records").rglob("*.*")
    )
    monkeypatch.setattr(mirror.Mirror, "read", lambda self, places: {} if not places else pytest.fail(str(places)))
    b.fetch()


def test_of_two_scores_of_a_cell_the_first_is_kept(machine: Machine) -> None:
    a, b = machine("a"), machine("b")
    Records(a.folder).write(make_record(main=0.1), PAIRS)
    Records(b.folder).write(make_record(main=0.2), PAIRS[::-1])
    assert scores(a) == scores(b) == {"pocket-pairs": 0.1}
    Records(b.folder).write(make_record(main=0.3), PAIRS[::-1])  # measured again, knowing the first: --remeasure
    a.fetch()
    assert scores(a) == {"pocket-pairs": 0.3}


def test_a_score_replaces_a_failure_and_not_the_other_way(machine: Machine) -> None:
    a, b, c = machine("a"), machine("b"), machine("c")
    Records(a.folder).write(failed(make_record(), "no memory"))
    Records(b.folder).write(make_record(main=0.2), PAIRS)
    Records(c.folder).write(failed(make_record(), "no disk"))
    a.fetch()
    assert scores(a) == scores(c) == {"pocket-pairs": 0.2}


def test_a_record_removed_at_the_address(machine: Machine, memory: Any) -> None:
    """During a run it is sent again; between two commands a user has removed it, and it is measured again."""
    a, said = machine("a"), list[str]()
    with sending(a.folder, said.append) as unsent:
        path = Records(a.folder).write(make_record(), PAIRS)
        memory.rm("/bucket/study/records", recursive=True)
    assert len(memory.find("/bucket/study/records")) == 2 and unsent == []
    memory.rm("/bucket/study/records", recursive=True)
    a.fetch(first=True)
    assert not path.exists() and path.with_name(path.name + ".gone").exists() and scores(a) == {}


def test_a_finished_encoder_is_sent_without_temporary_files(machine: Machine, memory: Any) -> None:
    a, record = machine("a"), make_record()
    folder = Records(a.folder).encoder_folder("bag", record["encoder_key"])
    for name in ("encoder/weights", "fit.json", "log.jsonl", ".checkpoint.abcdefgh.tmp"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    Records(a.folder).write(record)
    there = [Path(path).name for path in memory.find("/bucket/study/encoders")]
    assert sorted(there) == ["fit.json", "log.jsonl", "weights"]
    b = machine("b")
    fetch_encoder(Records(b.folder).encoder_folder("bag", record["encoder_key"]))
    assert (b.folder / "encoders" / folder.name / "encoder" / "weights").read_text() == "encoder/weights"


def test_what_was_not_sent_is_sent_by_the_next_run(machine: Machine, memory: Any, monkeypatch: Any) -> None:
    a, said = machine("a"), list[str]()
    monkeypatch.setenv("ZOO_BENCH_WAIT", "0.2")
    with sending(a.folder, said.append) as unsent:
        files, a.fs = a.fs, Away()
        Records(a.folder).write(make_record(), PAIRS)
    ((address, reason),) = unsent
    assert address == "memory://bucket/study" and reason.startswith("1 file could not be sent (ConnectionError")
    assert str(a.folder) in reason
    assert said == [f"{address}: {reason}"]
    a.fs = files
    with sending(a.folder, said.append) as unsent:
        pass
    assert unsent == [] and len(memory.find("/bucket/study/records")) == 2


def test_commands_read_an_address_and_write_tables_there(
    cli: Cli, memory: Any, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = machine("a")
    for task in ("pocket-pairs", "pocket-words"):
        Records(a.folder).write(make_record(task=task), PAIRS)
    a.send()
    monkeypatch.setenv("ZOO_BENCH_CACHE", str(tmp_path / "cache"))
    address = "memory://bucket/study/"
    assert "bag" in cli("leaderboard", "--results", address, "--out", tmp_path / "tables").out
    assert not memory.exists("/bucket/study/pocket.md") and (tmp_path / "tables" / "pocket.md").exists()
    assert cli("leaderboard", "--results", address).code == 0
    assert memory.cat_file("/bucket/study/pocket.md") == (tmp_path / "tables" / "pocket.md").read_bytes()
    empty = cli("leaderboard", "--results", "memory://bucket/other")
    assert empty.code == 1 and "no scores in memory://bucket/other; make some" in empty.err
    refused = cli("pack", "--results", address)
    assert refused.code == 2 and "pack works on a folder of this machine, not on memory://bucket/study" in refused.err


def test_a_packed_folder_can_be_read_at_an_address(memory: Any, machine: Machine, tmp_path: Path) -> None:
    Records(tmp_path / "plain").write(make_record(), PAIRS)
    pack(tmp_path / "plain")
    for name in ("records.parquet", "pairs.parquet", "SHA256SUMS"):
        memory.pipe_file(f"/bucket/study/{name}", (tmp_path / "plain" / name).read_bytes())
    a = machine("a")
    a.fetch()
    assert scores(a) == {"pocket-pairs": 0.5}
