"""Where data comes from: the order, the checks, and that nothing wrong is ever kept or used."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.data import catalog as catalog_module
from benchmark.data.catalog import Dataset, Form, dataset
from benchmark.data.corpora import load_pairs
from benchmark.data.readers.pairs import read_hub_rows
from benchmark.data.sources import DataSource, each_cause_once, extract_wanted, in_one
from benchmark.tasks import TASKS
from zoo.errors import CorruptError, MissingError, UsageError, ZooError
from zoo.files import sha256_file
from zoo.methods.simcse import triplets

SUBSETS = tuple(dataset("STS12").form("tokenised").files)


def copy_form(
    data_dir: Path, root: Path, name: str = "STS12", form: str = "tokenised", below: str | None = None
) -> Path:
    """Copy a data set's files to `root`, in its own folder or in `below`; returns the folder."""
    wanted = dataset(name).form(form)
    target = root / (wanted.folder if below is None else below)
    target.mkdir(parents=True)
    for file in wanted.files:
        shutil.copy(data_dir / wanted.folder / file, target)
    return target


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pretend that the hub may be asked, and count the questions; every one fails."""
    asked: list[str] = []
    monkeypatch.delenv("HF_HUB_OFFLINE")

    class Api:
        def dataset_info(self, name: str, **_: object) -> None:
            asked.append(name)
            raise ConnectionError("429 Too Many Requests")

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    return asked


def test_folder_comes_before_cache_and_cache_before_hub(data_dir: Path, tmp_path: Path, online: list[str]) -> None:
    """folder > cache > hub, and the record's `source` says which."""
    folder, cache = tmp_path / "folder", tmp_path / "cache"
    folder.mkdir()
    with pytest.raises(MissingError, match="429"):
        DataSource(folder, cache=cache).locate("STS12", "tokenised")
    assert online == ["princeton-nlp/datasets-for-simcse"]
    in_cache = copy_form(data_dir, cache)
    located = DataSource(folder, cache=cache).locate("STS12", "tokenised")
    assert (located.source, located.files[SUBSETS[0]].parent) == ("cache", in_cache)
    in_folder = copy_form(data_dir, folder)
    located = DataSource(folder, cache=cache).locate("STS12", "tokenised")
    assert (located.source, located.files[SUBSETS[0]].parent) == ("folder", in_folder)
    assert len(online) == 1
    assert {sha256_file(path) for path in located.files.values()} == set(
        dataset("STS12").form("tokenised").files.values()
    )


@pytest.mark.parametrize(
    "below", ["senteval/downstream/STS/STS12-en-test", "downstream/STS/STS12-en-test", "STS/STS12-en-test"]
)
def test_each_layout_of_senteval_is_found(below: str, data_dir: Path, tmp_path: Path) -> None:
    """--data may name the folder above senteval, SentEval's data folder, or its `downstream`."""
    copy_form(data_dir, tmp_path / "data", below=below)
    source = DataSource(tmp_path / "data", hub=False, cache=tmp_path / "cache")
    assert TASKS.get("STS12").load(source).rows == 3108


def test_the_environment_names_the_folder(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ZOO_BENCH_DATA stands for --data; --data wins; a folder that is not there is an error, not ignored."""
    copy_form(data_dir, tmp_path / "env")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("ZOO_BENCH_DATA", str(tmp_path / "env"))
    assert DataSource.from_options(None, hub=False).locate("STS12", "tokenised").source == "folder"
    assert DataSource.from_options(str(tmp_path / "empty")).folder == tmp_path / "empty"
    monkeypatch.setenv("ZOO_BENCH_DATA", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match="gone"):
        DataSource.from_options(None)


@pytest.mark.parametrize("place", ["folder", "cache"])
def test_a_wrong_checksum_is_refused_and_not_passed_over(place: str, data_dir: Path, tmp_path: Path) -> None:
    """Expected and actual are shown, and no other source is used instead."""
    folder, cache = tmp_path / "folder", tmp_path / "cache"
    copy_form(data_dir, folder)
    copy_form(data_dir, cache)
    if place == "cache":
        shutil.rmtree(folder / "senteval")
    damaged = (folder if place == "folder" else cache) / dataset("STS12").form("tokenised").folder / SUBSETS[3]
    damaged.write_bytes(damaged.read_bytes().replace(b"0", b"1", 1))
    with pytest.raises(CorruptError) as error:
        TASKS.get("STS12").load(DataSource(folder, cache=cache))
    assert str(damaged) in str(error.value)
    assert sha256_file(damaged)[:16] in str(error.value)
    assert dataset("STS12").form("tokenised").files[SUBSETS[3]][:16] in str(error.value)


def test_a_missing_file_of_a_set_is_named(data_dir: Path, tmp_path: Path) -> None:
    """A folder that holds a part of the files is not taken for the whole."""
    folder = copy_form(data_dir, tmp_path / "data")
    (folder / SUBSETS[-1]).unlink()
    with pytest.raises(ZooError, match=SUBSETS[-1]):
        DataSource(tmp_path / "data", hub=False, cache=tmp_path / "cache").locate("STS12", "tokenised")


def test_missing_data_says_where_was_looked_and_what_to_do(tmp_path: Path) -> None:
    """Folder, cache, remedy; with the reason where no hub has it."""
    (tmp_path / "data").mkdir()
    source = DataSource(tmp_path / "data", hub=False, cache=tmp_path / "cache")
    for name, form in (("STS12", "tokenised"), ("SICK", "raw")):
        with pytest.raises(MissingError) as error:
            source.locate(name, form)
        for part in (name, str(tmp_path / "data"), str(tmp_path / "cache"), "--data"):
            assert part in str(error.value)
    assert "9,927" in str(error.value), "the hub's SICK is another test set; the message says so"


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["not here", "damaged: half"])), min_size=1))
def test_each_cause_is_told_once_with_all_that_it_is_about(missing: list[tuple[str, str]]) -> None:
    grouped = each_cause_once(f"{name} (raw, at/{name}): {cause}" for name, cause in missing)
    assert set(grouped) == {cause for _, cause in missing}
    for cause, reasons in grouped.items():
        names = list(dict.fromkeys(name for name, other in missing if other == cause))
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        assert in_one(reasons) == ", ".join([f"{names[0]} (raw, at/{names[0]})", *names[1:4]]) + f"{more}: {cause}"


def test_offline_is_immediate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_HUB_OFFLINE means no question, no waiting, for archives and for rows."""
    for value in ("1", "true", "YES"):
        monkeypatch.setenv("HF_HUB_OFFLINE", value)
        for form in ("tokenised", "raw"):
            with pytest.raises(MissingError, match=r"HF_HUB_OFFLINE.*--data"):
                DataSource(None, cache=tmp_path).locate("STS12", form)
    assert list(tmp_path.iterdir()) == []


# Rows from the hub: a local folder that `datasets` reads stands for the hub's.


@pytest.fixture
def hub_pairs(tmp_path: Path, online: list[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set `tiny` of three splits whose hub id is a local folder; returns that folder."""
    import datasets.config

    hub = tmp_path / "hub"
    hub.mkdir()
    for split, count in (("train", 3), ("validation", 2), ("test", 4)):
        rows = [{"score": i, "sentence1": f'{split} "{i}\u2028x', "sentence2": f"é {i}\ty\nz"} for i in range(count)]
        (hub / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    form = Form(
        folder="tiny",
        files={"a.txt": "0" * 64},
        hub={"id": str(hub), "revision": None, "splits": {"train": "train", "dev": "validation", "test": "test"}},
    )
    tiny = Dataset("tiny", "Tiny", "ours", rows={"train": 3, "dev": 2, "test": 4}, forms={"raw": form})
    catalog = {**catalog_module.catalog(), "tiny": tiny}
    monkeypatch.setattr(catalog_module, "catalog", lambda: catalog)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")
    return hub


def test_hub_rows_are_fetched_once_and_checked_when_read(hub_pairs: Path, tmp_path: Path) -> None:
    """First from the hub, then from the cache; texts as they are; a later change of the cached rows is found."""
    source = DataSource(None, cache=tmp_path / "cache")
    located = source.locate("tiny", "raw")
    assert (located.source, located.from_hub_rows) == ("hub", True)
    pairs = read_hub_rows(located.files["test.jsonl"])
    assert pairs.gold.tolist() == [0, 1, 2, 3]
    assert pairs.first[1] == 'test "1\u2028x'
    assert pairs.second[1] == "é 1\ty\nz"
    assert len(read_hub_rows(located.files["dev.jsonl"])) == 2
    shutil.rmtree(hub_pairs)
    again = source.locate("tiny", "raw")
    assert (again.source, again.sha256) == ("cache", located.sha256)
    with located.files["dev.jsonl"].open("a") as file:
        file.write('[5, "a", "b"]\n')
    with pytest.raises(CorruptError, match=r"dev\.jsonl"):
        source.locate("tiny", "raw")


@pytest.mark.slow
def test_wrong_hub_row_counts_are_refused_and_nothing_kept(hub_pairs: Path, tmp_path: Path) -> None:
    """The catalog's counts decide; no file of the refused copy stays in the cache."""
    path = hub_pairs / "train.jsonl"
    path.write_text(path.read_text() + json.dumps({"score": 1, "sentence1": "a", "sentence2": "b"}) + "\n")
    cache = tmp_path / "cache"
    with pytest.raises(CorruptError, match="the catalog expects"):
        DataSource(None, cache=cache).locate("tiny", "raw")
    with pytest.raises(ZooError):
        DataSource(None, hub=False, cache=cache).locate("tiny", "raw")
    assert [p for p in cache.rglob("*") if p.is_file()] == []


# Triples that a user fetches, of which no sha256 is known.

TRIPLES = """sent0,sent1,hard_neg
"A cook, in red, stirs soup.",Somebody is cooking.,Nobody cooks.
The bus is late.,"The ""bus"" has not come yet.",The bus came early.
The dog runs.,,The dog sleeps.
"""


@pytest.fixture
def unknown(tmp_path: Path) -> tuple[Path, DataSource]:
    """Where SynCSE's file is expected, and the source that looks there."""
    file = tmp_path / "data" / "syncse" / "partial" / "train.csv"
    file.parent.mkdir(parents=True)
    return file, DataSource(tmp_path / "data", hub=False, cache=tmp_path / "cache")


def test_triples_of_the_catalog_are_read_and_their_first_file_is_recorded(unknown: tuple[Path, DataSource]) -> None:
    file, source = unknown
    file.write_text(TRIPLES)
    corpus = load_pairs("syncse-partial", source, None)
    assert triplets(corpus) == [
        ("A cook, in red, stirs soup.", "Somebody is cooking.", "Nobody cooks."),
        ("The bus is late.", 'The "bus" has not come yet.', "The bus came early."),
    ]
    file.write_text(TRIPLES.replace("soup", "stew"))
    with pytest.raises(
        CorruptError, match=r"train\.csv is not the file of its first load .*syncse-partial-plain\.json"
    ):
        load_pairs("syncse-partial", source, None)
    (source.cache / "first-load" / "syncse-partial-plain.json").unlink()
    assert "stew" in load_pairs("syncse-partial", source, None).sentences[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sent0,sent1,hard_neg\na b,c d,e\nf,g\n", r"train\.csv:3: 2 fields instead of 3, separated by commas"),
        ('sent0,sent1,hard_neg\na b,"c d,e f\n', r"train\.csv:2: unexpected end of data; a field with a quote"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", r"train\.csv is a pointer of git-lfs"),
    ],
)
def test_a_malformed_file_is_named_and_not_recorded(text: str, message: str, unknown: tuple[Path, DataSource]) -> None:
    file, source = unknown
    file.write_text(text)
    with pytest.raises(ZooError, match=message):
        load_pairs("syncse-partial", source, None)
    file.write_text(TRIPLES)
    assert len(load_pairs("syncse-partial", source, None).sentences) == 8


def test_a_single_file_is_fetched_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    (tmp_path / "download").write_text(TRIPLES)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda place, *_, **__: str(tmp_path / "download"))
    located = DataSource(None, cache=tmp_path / "cache").locate("syncse-scratch", "plain")
    assert (located.source, located.files["train.csv"].read_text()) == ("hub", TRIPLES)


# Archives.


def tar_of(path: Path, members: list[tuple[str, bytes]], extra: tuple[tarfile.TarInfo, ...] = ()) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for info in extra:
            tar.addfile(info)
    return path


@pytest.fixture
def members(data_dir: Path) -> list[tuple[str, bytes]]:
    """The tokenised STS12 as members of SentEval's archive, and some others."""
    wanted = dataset("STS12").form("tokenised")
    content = [(f"{wanted.folder}/{name}", (data_dir / wanted.folder / name).read_bytes()) for name in wanted.files]
    return [("README.md", b"hello"), *content, ("senteval/downstream/STS/STS12-en-test/other.txt", b"x")]


def files_below(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() or p.is_symlink()}


def test_a_good_archive_gives_exactly_the_wanted_files(members: list[tuple[str, bytes]], tmp_path: Path) -> None:
    """Only the catalog's files, under their own names."""
    wanted = dataset("STS12").form("tokenised")
    archive = tar_of(tmp_path / "senteval.tar", members)
    cache = tmp_path / "cache"
    extract_wanted(archive, wanted, cache / wanted.folder)
    assert files_below(cache) == {f"{wanted.folder}/{name}" for name in wanted.files}
    located = DataSource(None, hub=False, cache=cache).locate("STS12", "tokenised")
    assert located.source == "cache"
    assert TASKS.get("STS12").load(DataSource(None, hub=False, cache=cache)).rows == 3108


def hostile(kind: str, members: list[tuple[str, bytes]], tmp_path: Path) -> Path:
    """Write an archive of one kind of malice or damage."""
    path = tmp_path / "senteval.tar"
    name, content = members[1]
    if kind == "wrong sha":
        return tar_of(path, [members[0], (name, content + b"x"), *members[2:]])
    if kind == "file missing":
        return tar_of(path, members[:4] + members[5:])
    if kind == "cut":
        tar_of(path, members)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        return path
    if kind == "parent":
        evil = f"../../../../STS12-en-test/{Path(name).name}"
        return tar_of(path, [members[0], (evil, b"evil"), *members[2:]])
    link = tarfile.TarInfo(name)
    link.type = tarfile.SYMTYPE
    link.linkname = "/etc/passwd"
    return tar_of(path, [members[0], *members[2:]], (link,))


@pytest.mark.parametrize("kind", ["wrong sha", "file missing", "cut", "parent", "symlink"])
def test_a_bad_archive_is_refused_and_writes_nothing_outside(
    kind: str, members: list[tuple[str, bytes]], tmp_path: Path
) -> None:
    """Refused by an error that a person reads; every file lies below the target, none is a link."""
    wanted = dataset("STS12").form("tokenised")
    archive = hostile(kind, members, tmp_path)
    before = files_below(tmp_path)
    with pytest.raises(ZooError, match=r"senteval\.tar"):
        extract_wanted(archive, wanted, tmp_path / "cache" / wanted.folder)
    new = files_below(tmp_path) - before
    assert all(name.startswith(f"cache/{wanted.folder}/") for name in new)
    assert not any((tmp_path / name).is_symlink() for name in new)
    for name in new:
        assert sha256_file(tmp_path / name) == wanted.files[Path(name).name]
