"""`zoo-bench search-templates`: searches templates by STS-B dev, greedily or from a list (PromptBERT section 4.2).

A template is `prefix "[X]" relationship [MASK] punctuation`; its score is the Spearman correlation x100 of the gold
scores with the cosine of the sentences' [MASK] states.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.data.readers.pairs import read_lines
from benchmark.data.sources import DataSource
from benchmark.keys import PROTOCOL_VERSION
from benchmark.run.stop import Stop
from benchmark.tasks import TASKS
from benchmark.tasks.base import PairsData
from benchmark.tasks.suites import tasks_named
from zoo.encoder import Runtime
from zoo.engine.backbone import Backbone, find_backbone
from zoo.errors import MissingError, UsageError, ZooError
from zoo.files import check_writable, read_signed, read_yaml, sha256_json, slug, well_formed, write_signed
from zoo.machine import environment, make_runtime
from zoo.modules.templates import Template
from zoo.paths import resource_folder
from zoo.progress import clock, print_safe
from zoo.recipes import build
from zoo_bench_papers.template_search.generate import find_seq2seq, generate_templates, load_seq2seq, read_definitions
from zoo_bench_papers.template_search.scores import DevScorer, Result, Search, SearchTable, print_best, write_search


@dataclass(frozen=True, kw_only=True)
class Lists:
    """Candidates of the greedy search; an unsearched list counts by its first entry."""

    # Between [X] and [MASK]; the prefixes are before [X], quotes around it, endings after [MASK].
    relationships: tuple[str, ...]
    prefixes: tuple[str, ...]
    quotes: tuple[str, ...] = ("[X]",)
    endings: tuple[str, ...] = (".",)

    def __post_init__(self) -> None:
        for name, values in dataclasses.asdict(self).items():
            if not values:
                raise ValueError(f"{name} is empty; name at least one (an empty text stands for none)")
            twice = [value for value in values if values.count(value) > 1]
            if twice:
                raise ValueError(f"{name} has {twice[0]!r} twice")


@dataclass(frozen=True)
class Parts:
    relationship: str
    prefix: str
    quote: str
    ending: str

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.prefix, self.quote, self.relationship, "[MASK]", self.ending) if part)


def read_lists(path: Path | None = None) -> tuple[Lists, dict[str, float]]:
    """Shipped lists, replaced by the YAML file's, and published scores; raises UsageError."""
    shipped = resource_folder("zoo_bench_papers", "configs") / "search" / "templates.yaml"
    content = read_yaml(shipped)
    published = content.pop("published")
    if path is not None:
        replaced = read_yaml(path)
        if not isinstance(replaced, dict):
            raise UsageError(f"{path}: give a mapping with the keys {', '.join(content)}, each a list.")
        content |= replaced
    where = str(path or shipped)
    with well_formed(where, UsageError):
        lists = build(Lists, content, where)
    try:
        for parts in [*_relationships(lists), *_prefixes(lists, lists.relationships[:1]), *_endings(lists)]:
            Template.parse(parts.text)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return lists, published


def _template_file(given: Path) -> Path:
    """The file, or the shipped file of that name (promptbert-table4)."""
    shipped = resource_folder("zoo_bench_papers", "configs") / "search" / f"{given}.txt"
    return shipped if not given.is_file() and len(given.parts) == 1 and shipped.is_file() else given


def read_templates(path: Path) -> list[str]:
    """Read a template per line (blank lines are skipped); raises UsageError naming an invalid line."""
    if not path.is_file():
        raise MissingError(
            f"--templates {path}: no such file and no shipped list (promptbert-table4); give one template per line."
        )
    templates: dict[str, None] = {}
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            try:
                templates[Template.parse(line).text] = None
            except UsageError as error:
                raise UsageError(f"{path}:{number}: {error}") from error
    if not templates:
        raise UsageError(f"{path} has no template; give one per line, such as: [X] means [MASK] .")
    return list(templates)


def _relationships(lists: Lists) -> list[Parts]:
    return [Parts(name, lists.prefixes[0], lists.quotes[0], lists.endings[0]) for name in lists.relationships]


def _prefixes(lists: Lists, relationships: Iterable[str]) -> list[Parts]:
    return [Parts(r, p, q, lists.endings[0]) for r in relationships for p in lists.prefixes for q in lists.quotes]


def _endings(lists: Lists, best: Parts | None = None) -> list[Parts]:
    best = best or _relationships(lists)[0]
    return [dataclasses.replace(best, ending=ending) for ending in lists.endings]


def greedy(search: Search, lists: Lists, keep: int) -> dict[str, list[Result]]:
    """Search relationships, then prefixes and quotes with the best `keep`, then punctuation (table 4)."""
    keep = min(keep, len(lists.relationships))
    wrapped = len(lists.prefixes) * len(lists.quotes)
    total = len(lists.relationships) + keep * wrapped + len(lists.endings)
    stages: dict[str, list[Result]] = {}
    chosen: dict[str, Parts] = {}

    def stage(title: str, candidates: list[Parts]) -> list[Parts]:
        new = {parts.text: parts for parts in candidates if parts.text not in chosen}
        chosen.update(new)
        search.score([parts.text for parts in candidates], bar)
        stages[title] = [search.results[text] for text in new]
        ranked = search.best(search.results[text] for text in chosen)
        if not ranked:
            reason = next(iter(search.results.values()))["reason"]
            raise ZooError(f"none of {len(chosen)} templates could be scored; the first: {reason}")
        return [chosen[result["template"]] for result in ranked]

    with search.progress.bar("templates", total) as bar:
        best = stage("Relationship tokens", _relationships(lists))
        best = stage("Prefix tokens", _prefixes(lists, [parts.relationship for parts in best[:keep]]))
        stage("Punctuation", _endings(lists, best[0]))
    return stages


def generated_templates(seq2seq: str, words: Path, options: Mapping[str, Any], runtime: Runtime) -> list[str]:
    """Valid templates of --seq2seq, kept in the results folder."""
    source = find_seq2seq(seq2seq, None, runtime)
    definitions = read_definitions(words, options["definitions"])
    inputs = {
        "seq2seq": source.identity(),
        "definitions": sha256_json([dataclasses.astuple(definition) for definition in definitions]),
        "count": options["count"],
        "precision": runtime.precision,
    }
    path = options["results"] / "template-search" / f"generated-{sha256_json(inputs)[:16]}.json"
    say = runtime.progress.say
    if path.is_file():
        with well_formed(path):
            templates = [{**line, "template": str(line["template"])} for line in read_signed(path)["templates"]]
    else:
        model, tokenizer = load_seq2seq(source, runtime)
        generated = generate_templates(model, tokenizer, definitions, count=options["count"], runtime=runtime)
        templates = list(map(dataclasses.asdict, generated))
        if templates:
            write_signed(path, {"inputs": inputs, "templates": templates})
    valid: dict[str, None] = {}
    for template in templates:
        try:
            valid[Template.parse(template["template"]).text] = None
        except UsageError as error:
            say(f"left out: {error}")
    counts = f"{len(templates)} templates, {len(valid)} of them valid"
    say(f"{source.name} wrote {counts}, from {len(definitions)} definitions: {path}")
    if not valid:
        raise ZooError(f"--seq2seq {source.name!r} wrote no valid template; use another model or other definitions.")
    return list(valid)


def _load_dev(options: Mapping[str, Any]) -> PairsData:
    (task,) = tasks_named(options["task"])
    data = TASKS.get(task).load(DataSource.from_options(options["data"]), options["limit_pairs"])
    if not isinstance(data, PairsData) or data.dev is None:
        raise UsageError(f"--dev {options['task']} has no development pairs; use STS-B, STS-B-raw or pocket-pairs.")
    return data


def search_command(options: Mapping[str, Any], command: list[str]) -> int:
    """Search and write tables; return 1 if a template could not be scored, else 0."""
    if (options["generate"] is None) != (options["seq2seq"] is None):
        raise UsageError("--generate DEFINITIONS and --seq2seq MODEL go together; give both or neither.")
    ways = [name for name in ("lists", "templates", "generate") if options[name] is not None]
    if len(ways) > 1:
        raise UsageError(f"--{ways[0]} and --{ways[1]} are different searches; run one after the other.")
    lists, published = read_lists(options["lists"])
    listed = read_templates(_template_file(options["templates"])) if options["templates"] else None
    source = find_backbone(options["backbone"], options["revision"], allow_pickle=options["allow_pickle"])
    check_writable(options["results"])
    data = _load_dev(options)
    runtime = make_runtime(options["device"], options["precision"], allow_pickle=options["allow_pickle"])
    if options["generate"] is not None and options["seq2seq"] is not None:
        listed = generated_templates(options["seq2seq"], options["generate"], options, runtime)
    conditions = {
        "protocol": PROTOCOL_VERSION,
        "data": {
            "task": options["task"],
            "form": data.located.form,
            "sha256": data.located.sha256,
            "pairs": len(data.dev or ()),
        },
        "backbone": source.identity(),
        "representation": f"[MASK] state of the last layer, {'a' if options['period'] else 'no'} period added",
        "precision": runtime.precision,
    }
    folder = options["results"] / "template-search" / f"{slug(source.name)}-{sha256_json(conditions)[:8]}"
    scorer = DevScorer(Backbone.from_source(source, runtime), data, runtime, period=options["period"])
    started = time.perf_counter()
    with Stop().listening() as stop:
        search = Search(folder, conditions, environment(runtime.device), scorer, runtime.progress, stop.check)
        if listed is None:
            kind, stages = "greedy", greedy(search, lists, options["keep"])
        else:
            kind, title = ("generated", "Generated") if options["generate"] else ("listed", "Listed")
            with runtime.progress.bar("templates", len(listed)) as bar:
                stages = {title: search.score(listed, bar)}
    count = sum(map(len, stages.values()))
    runtime.progress.say(
        f"{count} templates: {search.scored} scored in {clock(time.perf_counter() - started)},"
        f" {count - search.scored} kept from before"
    )
    table = SearchTable(kind, conditions, stages, published, command, search.environment)
    written = write_search(table, folder)
    print_best(table)
    print_safe(f"written: {', '.join(map(str, written))}", sys.stdout)
    return 0 if all(r["status"] == "ok" for rows in stages.values() for r in rows) else 1
