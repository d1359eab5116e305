"""Files of a million hostile rows, and small ones that unpack to a hundred times their size: each read within 2 GB."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.torture.common import Verdict, forked, preload, workplace

MOST_MB = 2048
ROWS = 1_000_000


def _write(path: Path, head: bytes, row: Callable[[int], bytes], rows: int) -> None:
    with path.open("wb") as file:
        file.write(head)
        for start in range(0, rows, 10_000):
            file.write(b"".join(row(number) for number in range(start, min(start + 10_000, rows))))


def _cases(folder: Path, rows: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what is read, and what writes and reads it: a sentence, or an answer."""
    from benchmark.data.corpora import load_corpus, load_pairs
    from benchmark.data.readers import pairs, transfer, words
    from benchmark.data.readers.ppdb import PPDBReport, read_ppdb
    from benchmark.data.sources import DataSource
    from benchmark.records.folder import Records
    from zoo.files import read_json
    from zoo.formats import text_vectors, word_vectors
    from zoo.srl.views import read_views
    from zoo.yaml_files import read_yaml

    nowhere = DataSource(None, hub=False)

    def case(name: str, head: bytes, row: Callable[[int], bytes], read: Callable[[Path], Any]) -> tuple[str, Any]:
        def work() -> Any:
            _write(folder / name, head, row, rows)
            return read(folder / name)

        return name, work

    text = b"=cmd() \x1b[2J <script>alert(1)</script> \xe2\x80\xae " + b"word " * 20
    yield case("sts-dev.csv", b"", lambda n: b"a\tb\tc\td\t%d.5\t%b%d\t%b\n" % (n % 5, text, n, text), pairs.read_stsb)
    yield case(
        "rows.jsonl", b"", lambda n: b'[%d.5, "%d a dog", "\\u0041 \\ud83d\\ude00"]\n' % (n % 5, n), pairs.read_hub_rows
    )
    yield case(
        "last-is-wrong.jsonl",
        b"",
        lambda n: b'[1, "a", "b"]\n' if n < rows - 1 else b"[" * 200_000,
        pairs.read_hub_rows,
    )
    yield case(
        "words.tsv", b"", lambda n: b"%d\t=1+1\t%d\n" % (n, n % 10), lambda path: words.read_word_pairs(path, 10)
    )
    yield case("trec.label", b"", lambda n: b"NUM:dist How far is %d \xf0 ?\n" % n, transfer.read_trec)
    yield case(
        "long-lines.txt", b"x" * 200_000_000, lambda n: b"y" * 200, lambda path: load_corpus(str(path), nowhere, 10)
    )
    yield case("corpus.txt", b"", lambda n: b"%b %d\n" % (text, n), lambda path: load_corpus(str(path), nowhere, 1000))
    yield case("nli.tsv", b"", lambda n: b"%d\tb\tneutral\n" % n, lambda path: load_pairs(str(path), nowhere, 1000))
    yield case(
        "pack", b"", lambda n: b"[NN] ||| a b ||| c d ||| Equivalence=%d ||| 0-0 ||| Equivalence\n" % n,
        lambda path: sum(1 for _ in read_ppdb(path, PPDBReport())),
    )  # fmt: skip
    yield case("glove.txt", b"", lambda n: b"w%d 1 2 3\n" % n, lambda path: word_vectors.read_word_vectors(str(path)))
    yield case(
        "wide.txt", b"3 999999\n", lambda n: b"w%d 1 2 3\n" % n, lambda path: word_vectors.read_word_vectors(str(path))
    )
    yield case("vectors.tsv", b"", lambda n: b"text %d\t1 2 3\n" % n, lambda path: text_vectors.read([path]))
    yield case("mapping.json", b"{", lambda n: b'"%d": [%d, {"a": null}],' % (n, n), read_json)
    yield case("flat.yaml", b"summary: x\n", lambda n: b"k%d: {a: [1, 2, &x 3]}\n" % n, read_yaml)
    yield case("deep.yaml", b"a: ", lambda n: b"[", read_yaml)

    def records() -> Any:
        place = folder / "records" / "records" / "m"
        place.mkdir(parents=True)
        _write(place / "huge-0000000000000000.json", b'{"schema": 1, "facts": {', lambda n: b'"%d": 1,' % n, rows)
        return Records(folder / "records").all()

    yield "a record of a million keys", records

    def bomb(packer: Any, name: str, read: Callable[[Path], Any]) -> tuple[str, Callable[[], Any]]:
        def work() -> Any:
            block = packer((b"a line of a bomb\n" * 62_000)[:-1] * 10 + b"\n")
            # Both formats allow one whole after the other: in full 400 times 10 MB, each packed a hundredfold and more.
            (folder / name).write_bytes(block * max(rows // 2500, 4))
            return read(folder / name)

        return f"a bomb, {name}", work

    for packer, suffix in ((gzip.compress, "gz"), (lzma.compress, "xz")):
        yield bomb(packer, f"corpus.txt.{suffix}", lambda path: load_corpus(str(path), nowhere, None))
    yield bomb(gzip.compress, "vectors.txt.gz", lambda path: word_vectors.read_word_vectors(str(path)))
    yield bomb(gzip.compress, "views.jsonl.gz", read_views)


def bulk(rows: int, seed: int) -> int:
    """Write and read each in a process of its own, whose memory is measured."""
    verdict = Verdict("bulk")
    with workplace() as folder:
        preload(folder / "first")
        for name, work in _cases(folder, rows):
            verdict.tried += 1

            def read(work: Callable[[], Any] = work) -> int:
                from zoo.errors import ZooError

                try:
                    work()
                except ZooError as error:
                    print(str(error)[:300])
                    return 0 if str(error).strip() and len(str(error).splitlines()) <= 3 else 1
                print("read")
                return 0

            ended = forked(read, folder / "logs", most_seconds=900)
            what = f"{ended.peak_mb:,.0f} MB, {ended.seconds:.0f} s, {ended.out.strip()[:200]}"
            print(f"  {name}: {what}", flush=True)
            for fault in ended.faults():
                verdict.fault(f"{name}: {fault}; {ended.err[-1000:]}")
            if ended.code != 0:
                verdict.fault(f"{name}: exit code {ended.code}: {ended.err[-1000:]}")
            if ended.peak_mb > MOST_MB:
                verdict.fault(f"{name}: {ended.peak_mb:,.0f} MB of memory")
            verdict.count("ended in a sentence" if ended.out.strip() != "read" else "read")
            for path in folder.iterdir():
                if path.is_file():
                    path.unlink()
    return verdict.end()
