"""Results at an address, on fsspec's memory://: the mirror and the address agree, and leases divide the encoders."""

from __future__ import annotations

import time
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
from benchmark.records.remote import Remote, mirrored
from zoo.errors import MissingError, UsageError, ZooError
from zoo.paths import address_of, is_address

PAIRS = np.linspace(0, 1, 280, dtype="float32"), np.linspace(1, 0, 280, dtype="float32")
NAMES = [f"bag-{number:016x}" for number in range(12)]

Machine = Callable[..., Remote]


@pytest.fixture
def memory() -> Iterator[Any]:
    """The store, which is empty before and after."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()


@pytest.fixture
def machine(memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return the mirror that a machine of this name has of an address; leases end after 1.2 s."""
    monkeypatch.setenv("ZOO_BENCH_LEASE", "1.2")

    def make(name: str, address: str = "memory://bucket/study") -> Remote:
        return Remote(tmp_path / name / "addresses" / quote(address, safe=""), address)

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
    assert (a.unsent(), a.send(), a.unsent(), a.send()) == (3, 4, 0, 0)
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
    assert machine("a").owner == a.owner != b.owner  # a later run of a machine has its leases at once


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
    assert (a.send(), b.send()) == (2, 0)
    assert scores(a) == scores(b) == {"pocket-pairs": 0.1}
    Records(b.folder).write(make_record(main=0.3), PAIRS[::-1])  # measured again, knowing the first: --remeasure
    b.send()
    a.fetch()
    assert scores(a) == {"pocket-pairs": 0.3}


def test_a_score_replaces_a_failure_and_not_the_other_way(machine: Machine) -> None:
    a, b, c = machine("a"), machine("b"), machine("c")
    Records(a.folder).write(failed(make_record(), "no memory"))
    Records(b.folder).write(make_record(main=0.2), PAIRS)
    Records(c.folder).write(failed(make_record(), "no disk"))
    assert (a.send(), b.send(), c.send()) == (1, 2, 0)
    a.fetch()
    assert scores(a) == scores(c) == {"pocket-pairs": 0.2}


def test_a_record_removed_at_the_address_is_gone(machine: Machine, memory: Any) -> None:
    a = machine("a")
    path = Records(a.folder).write(make_record(), PAIRS)
    a.send()
    memory.rm("/bucket/study/records", recursive=True)
    (a.folder / "pocket.md").write_text("a table")
    a.fetch()
    assert not path.exists() and path.with_name(path.name + ".gone").exists() and scores(a) == {}
    Records(a.folder).write(make_record(main=0.4), PAIRS)
    a.send()
    assert memory.exists(f"/bucket/study/{path.relative_to(a.folder).as_posix()}")


def test_damage_is_not_sent_and_a_lost_state_is_made_again(machine: Machine, memory: Any) -> None:
    a = machine("a")
    path = Records(a.folder).write(make_record(main=0.1), PAIRS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert a.send() == 0 and not memory.find("/bucket")
    path.write_bytes(whole)
    a.send()
    (a.folder / ".mirror.json").write_text("{")
    a.fetch()
    assert a.send() == 0 and scores(a) == {"pocket-pairs": 0.1}


@pytest.mark.flaky(reruns=2)
def test_an_encoder_is_leased_until_its_records_are_sent(machine: Machine) -> None:
    a, b = machine("a"), machine("b")
    assert a.take(NAMES[0], last=True)
    assert not b.take(NAMES[0], last=True) and b.take(NAMES[1], last=True)
    Records(a.folder).write(make_record(), PAIRS)
    with a.at_work(lambda text: None):
        time.sleep(1.5)  # renewed meanwhile
        assert not b.take(NAMES[0], last=True)
        a.give_back(NAMES[0], done=True)
    assert b.take(NAMES[0], last=True) and scores(b) == {"pocket-pairs": 0.5}  # fetched with the lease


@pytest.mark.flaky(reruns=2)
def test_the_lease_of_a_dead_run_ends(machine: Machine) -> None:
    a, b = machine("a"), machine("b")
    assert a.take(NAMES[0], last=True) and not b.take(NAMES[0], last=True)
    end = time.monotonic() + 5
    while not b.take(NAMES[0], last=True):
        assert time.monotonic() < end
    assert not a.take(NAMES[0], last=True)


@pytest.mark.flaky(reruns=2)
def test_owners_keep_to_their_parts_while_the_store_is_away(machine: Machine, memory: Any) -> None:
    said: list[str] = []
    a, b = machine("a"), machine("b")
    a.renew()
    b.renew()
    taken = [[one.take(name, last=False) for name in NAMES] for one in (a, b)]
    assert all(x != y for x, y in zip(*taken, strict=True)) and all(map(any, taken))
    for one in (a, b):
        for name in NAMES:
            one.give_back(name, done=False)
        one.fs, one._say = Away(), said.append
    assert [[one.take(name, last=False) for name in NAMES] for one in (a, b)] == taken
    assert len(said) == 2 and "is away (ConnectionError: nobody answers)" in said[0]
    theirs = NAMES[taken[1].index(True)]
    began = time.monotonic()
    while not a.take(theirs, last=True):  # nothing else is left: once b's leases must have ended, a goes on
        assert time.monotonic() < began + 5
    assert time.monotonic() - began > 1
    a.fs = b.fs = memory
    a.give_back(theirs, done=True)
    b._send_all()  # renews what b took while the store was away
    a._send_all()
    assert not a.take(NAMES[taken[1].index(True)], last=True)
    assert said[-1] == "memory://bucket/study is back"


def test_what_was_not_sent_is_sent_by_the_next_run(machine: Machine, memory: Any) -> None:
    a, unsent = machine("a"), list[tuple[str, str]]()
    with a.at_work(lambda text: None, 0.2, unsent):
        a.fs = Away()
        Records(a.folder).write(make_record(), PAIRS)
    ((address, reason),) = unsent
    assert address == "memory://bucket/study" and reason.startswith("1 file could not be sent (ConnectionError")
    assert str(a.folder) in reason
    again = machine("a")
    with again.at_work(lambda text: None, 0.2, unsent):
        pass
    assert len(unsent) == 1 and len(memory.find("/bucket/study/records")) == 2
    assert not memory.find("/bucket/study/leases")


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
    memory.pipe_file("/bucket/study/records.zip", (tmp_path / "plain" / "records.zip").read_bytes())
    a = machine("a")
    a.fetch()
    assert scores(a) == {"pocket-pairs": 0.5}


def test_addresses_and_settings_that_are_none(memory: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert address_of(tmp_path) is None and not is_address("plain/folder") and not is_address("C:\\folder")
    assert address_of(tmp_path / "addresses" / "s3%3A%2F%2Fb%2Fp") == "s3://b/p"
    with pytest.raises(UsageError, match="240 characters"):
        mirrored("memory://" + "a" * 240)
    with pytest.raises(UsageError, match=r"nosuch://b cannot be opened .*Addresses are s3://BUCKET/PATH"):
        mirrored("nosuch://b")
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(MissingError, match=r"gs:// is missing .*zoo-bench\[cloud\]"):
        mirrored("gs://b/p")
    monkeypatch.setenv("ZOO_BENCH_LEASE", "soon")
    with pytest.raises(ZooError, match="ZOO_BENCH_LEASE is 'soon'; give seconds, such as 120"):
        mirrored("memory://never/opened")
