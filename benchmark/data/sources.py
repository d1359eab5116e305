"""Finds data in the user's folder, the cache, then the hub. Every file is checked by its sha256."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.data.catalog import POCKET, Dataset, Form, catalog, dataset
from zoo.errors import CorruptError, MissingError, UsageError
from zoo.files import atomic_path, read_signed, reading, sha256_file, sha256_json, write_signed, write_text
from zoo.paths import cache_folder, is_dir, is_file, user_path

# Data sets that a line names beside the first.
_NAMED = 3


@dataclass(frozen=True)
class Located:
    """A data set's verified files; `source` is folder, cache, hub or bundled."""

    dataset: Dataset
    form: str
    source: str
    files: dict[str, Path]
    sha256: str
    # Rows of a hub copy, which have no subsets, and its revision.
    from_hub_rows: bool = False
    revision: str | None = None


@dataclass
class DataSource:
    """Finds data; `folder` is `--data` or ZOO_BENCH_DATA (SentEval layout), `hub` allows downloads."""

    folder: Path | None = None
    hub: bool = True
    cache: Path = field(default_factory=lambda: cache_folder() / "data")

    @classmethod
    def from_options(cls, folder: str | None, hub: bool = True) -> DataSource:
        named = folder or os.environ.get("ZOO_BENCH_DATA")
        path = user_path(named) if named else None
        if path is not None and not is_dir(path):
            what = "is no folder" if is_file(path) else "does not exist"
            raise UsageError(f"data folder {path} {what}; check --data or ZOO_BENCH_DATA.")
        return cls(path, hub)

    def locate(self, name: str, form: str) -> Located:
        """Find verified files; raises MissingError with the places searched, CorruptError for a wrong checksum."""
        entry = dataset(name)
        wanted = entry.form(form)
        if wanted.folder == "pocket":
            return self._verified(entry, form, "bundled", POCKET)
        if self.folder is not None:
            for root in _layouts(self.folder, wanted):
                if is_file(root / next(iter(wanted.files))):
                    return self._verified(entry, form, "folder", root)
        if all(is_file(self.cache / wanted.folder / name) for name in wanted.files):
            return self._verified(entry, form, "cache", self.cache / wanted.folder)
        rows = self.cache / "hub-rows" / f"{name}-{form}"
        if (rows / "done.json").is_file():
            return _hub_rows(entry, form, rows, "cache")
        what = f"{name} ({form}, {wanted.folder})"
        if self.folder is not None and (place := _nearby(self.folder, wanted)) is not None:
            raise MissingError(f"{what}: not under {self.folder}, but under {place}: give --data {place}.")
        given = "" if self.folder is None else f"not under {self.folder}, "
        looked = f"{what}: {given}not in the cache {self.cache}"
        if wanted.hub is None:
            why = f" ({wanted.hub_note})" if wanted.hub_note else ""
            raise MissingError(f"{looked}, and no hub has it{why}. {_FOLDER}.")
        if not self.hub:
            raise MissingError(f"{looked}. {_FOLDER}, or run `zoo-bench data fetch`.")
        return self.fetch(name, form, looked)

    def fetch(self, name: str, form: str, looked: str = "") -> Located:
        """Download into the cache; raises MissingError at once if the hub is out of reach."""
        entry = dataset(name)
        wanted = entry.form(form)
        if wanted.hub is None:
            raise MissingError(f"{name} ({form}) is on no hub. {wanted.hub_note}".strip())
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
            raise MissingError(f"{looked or name}, and HF_HUB_OFFLINE is set. {_REMEDY}")
        try:
            if "file" in wanted.hub:
                return self._fetch_archive(entry, form)
            return self._fetch_rows(entry, form)
        except (CorruptError, MissingError):
            raise
        except Exception as error:
            # The hub's clients raise many types; each means that the data is not available now.
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise MissingError(
                f"{looked or name}, and {wanted.hub['id']} on the hub gave: {reason}. {_REMEDY}"
            ) from error

    def _fetch_archive(self, entry: Dataset, form: str) -> Located:
        from huggingface_hub import HfApi, hf_hub_download

        wanted = entry.form(form)
        assert wanted.hub is not None
        # The hub is asked first, because the download itself retries for long if it cannot be reached.
        place, revision = wanted.hub["id"], wanted.hub["revision"]
        name = wanted.hub["file"]
        HfApi().dataset_info(place, revision=revision, timeout=5)
        archive = hf_hub_download(place, name, repo_type="dataset", revision=revision, etag_timeout=5)
        try:
            if name in wanted.files:
                with atomic_path(self.cache / wanted.folder / name) as temporary:
                    shutil.copyfile(archive, temporary)
            else:
                extract_wanted(Path(archive), wanted, self.cache / wanted.folder)
        except CorruptError as error:
            raise CorruptError(f"{error} Delete {Path(archive).resolve()} and fetch it again.") from error
        return self._verified(entry, form, "hub", self.cache / wanted.folder)

    def _fetch_rows(self, entry: Dataset, form: str) -> Located:
        from datasets import load_dataset
        from huggingface_hub import HfApi

        hub = entry.form(form).hub
        assert hub is not None
        if not Path(hub["id"]).is_dir():
            HfApi().dataset_info(hub["id"], revision=hub["revision"], timeout=5)
        folder = self.cache / "hub-rows" / f"{entry.name}-{form}"
        splits: dict[str, list[list[Any]]] = {}
        for ours, theirs in hub.get("splits", {"test": hub.get("split", "test")}).items():
            rows = load_dataset(hub["id"], revision=hub["revision"], split=theirs)
            splits[ours] = [[float(r["score"]), r["sentence1"], r["sentence2"]] for r in rows]
        counts = {name: len(rows) for name, rows in splits.items()}
        if counts != dict(entry.rows):
            raise CorruptError(f"{hub['id']} has the rows {counts}, the catalog expects {dict(entry.rows)}; refused.")
        outside = [row[0] for rows in splits.values() for row in rows if not 0 <= row[0] <= 5]
        if outside:
            raise CorruptError(f"{hub['id']} has {len(outside)} scores outside 0..5, first {outside[0]}; refused.")
        for name, rows in splits.items():
            write_text(folder / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        hashes = {f"{name}.jsonl": sha256_file(folder / f"{name}.jsonl") for name in splits}
        write_signed(folder / "done.json", {"hub": hub["id"], "revision": hub["revision"], "files": hashes})
        return _hub_rows(entry, form, folder, "hub")

    def _verified(self, entry: Dataset, form: str, source: str, root: Path) -> Located:
        wanted = entry.form(form)
        record = self._first_load(entry, form)
        first = read_signed(record) if is_file(record) else {}
        files, hashes = {}, {}
        for name, known in wanted.files.items():
            path = root / name
            if not is_file(path):
                raise MissingError(f"{entry.name} ({form}): {path} is missing, though other files of it are there.")
            actual = hashes[name] = sha256_file(path)
            expected = known or first.get(name, actual)
            if actual != expected:
                whose = "the file of the catalog" if known else f"the file of its first load (recorded in {record})"
                raise CorruptError(
                    f"{path} is not {whose}: sha256 {actual[:16]}... instead of {expected[:16]}...;"
                    " restore it or remove its folder."
                )
            files[name] = path
        return Located(entry, form, source, files, sha256_json(hashes))

    def _first_load(self, entry: Dataset, form: str) -> Path:
        return self.cache / "first-load" / f"{entry.name}-{form}.json"

    def record(self, located: Located) -> None:
        record = self._first_load(located.dataset, located.form)
        if not located.dataset.form(located.form).known and not is_file(record):
            write_signed(record, {name: sha256_file(path) for name, path in located.files.items()})


_FOLDER = "Give the data folder with --data or ZOO_BENCH_DATA"
_REMEDY = f"{_FOLDER}, or run `zoo-bench data fetch` where there is a network."
# How many folders above the user's are searched.
_ABOVE = 3


def _layouts(folder: Path, form: Form) -> list[Path]:
    # SentEval's own layout (its data folder, or `downstream` inside it), and the layout with a senteval/ folder above.
    parts = Path(form.folder).parts
    if parts[0] != "senteval":
        return [folder.joinpath(*parts)]
    return [folder.joinpath(*tail) for tail in (parts, ("SentEval", *parts[1:]), parts[1:], parts[2:])]


def _nearby(folder: Path, form: Form) -> Path | None:
    first = next(iter(form.files))
    places = [*folder.absolute().parents[:_ABOVE], *sorted(path for path in folder.iterdir() if is_dir(path))]
    return next((place for place in places if any(is_file(at / first) for at in _layouts(place, form))), None)


def each_cause_once(reasons: Iterable[str]) -> dict[str, list[str]]:
    by_cause: dict[str, list[str]] = {}
    for reason in dict.fromkeys(reasons):
        by_cause.setdefault(cause_of(reason), []).append(reason)
    return by_cause


def cause_of(reason: str) -> str:
    return reason.partition(": ")[2] or reason


def in_one(reasons: Sequence[str]) -> str:
    """Join reasons of a common cause: the first with its searched place, then the names of others.

    Examples:
        >>> in_one(["STS12 (raw, STS/12): not here", "STS13 (raw, STS/13): not here"])
        'STS12 (raw, STS/12), STS13: not here'
    """
    first, colon, cause = reasons[0].partition(": ")
    _, *names = dict.fromkeys(reason.partition(": ")[0].partition(" (")[0] for reason in reasons)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join([first, *names[:_NAMED]]) + more + colon + cause


def _hub_rows(entry: Dataset, form: str, folder: Path, source: str) -> Located:
    done = read_signed(folder / "done.json")
    hashes = done.get("files")
    if not isinstance(hashes, dict) or set(hashes) != {f"{name}.jsonl" for name in entry.rows}:
        raise CorruptError(f"{folder / 'done.json'} is damaged; remove {folder} and fetch again.")
    files = {name: folder / name for name in hashes}
    for name, expected in hashes.items():
        if not is_file(files[name]) or sha256_file(files[name]) != expected:
            raise CorruptError(f"{files[name]} is damaged; remove {folder} and fetch again.")
    return Located(entry, form, source, files, sha256_json(hashes), True, done.get("revision"))


def extract_wanted(archive: Path, form: Form, target: Path) -> None:
    """Extract only the catalog's files, each as a regular file under its own name."""
    contents: dict[str, bytes] = {}
    try:
        with reading(archive), tarfile.open(archive) as tar:
            for member in tar:
                path = Path(member.name)
                expected = form.files.get(path.name)
                if expected is None or path.parent.name != Path(form.folder).name:
                    continue
                if not member.isfile():
                    raise CorruptError(f"{archive}: {member.name} is not a plain file; refused.")
                content = tar.extractfile(member)
                assert content is not None
                contents[path.name] = content.read()
                if hashlib.sha256(contents[path.name]).hexdigest() != expected:
                    raise CorruptError(f"{archive}: {member.name} differs from the catalog's sha256; refused.")
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise CorruptError(f"{archive} is not a whole tar archive ({error}).") from error
    missing = sorted(set(form.files) - set(contents))
    if missing:
        raise CorruptError(f"{archive} lacks {len(missing)} of the catalog's files, first {missing[0]}.")
    for name, data in contents.items():
        with atomic_path(target / name) as temporary:
            temporary.write_bytes(data)


def found_here(name: str, form: str, folder: str | None) -> str:
    """Return folder, cache, bundled, "no" or "damaged"; checksums are for `verify`."""
    return _found(name, form, DataSource.from_options(folder, hub=False))


def _found(name: str, form: str, source: DataSource) -> str:
    try:
        return source.locate(name, form).source
    except MissingError:
        return "no" if dataset(name).form(form).hub is None else "no (on the hub)"
    except CorruptError:
        return "damaged"


def data_sets(folder: str | None) -> list[dict[str, Any]]:
    source = DataSource.from_options(folder, hub=False)
    return [
        {
            "name": entry.name,
            "form": form,
            "title": entry.title,
            "rows": dict(entry.rows) or None,
            "lines": entry.lines,
            "found": _found(entry.name, form, source),
            "licence": entry.licence,
            "citation": entry.citation,
            "homepage": entry.homepage,
        }
        for entry in catalog().values()
        for form in entry.forms
    ]


def data_rows(folder: str | None) -> list[list[str]]:
    rows = []
    for entry in data_sets(folder):
        lines = f"{entry['lines']:,} lines" if entry["lines"] else "not counted"
        counts = ", ".join(f"{k} {v:,}" for k, v in (entry["rows"] or {}).items()) or lines
        rows.append([entry["name"], entry["form"], counts, entry["found"], entry["licence"]])
    return rows
