"""What the commands in records promise and is not there: a lost shard, a named method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from benchmark.records.record import Record

# Options of `run` that decide neither which encoders there are nor what they are measured on.
_ELSEWHERE = frozenset(
    "results out data device precision cuda-graphs allow-missing allow-pickle fail-fast remeasure embedding-cache"
    " tracker tracker-folder workers executor gpus-per-encoder plugin json dry-run shard".split()
)
_GLOB = frozenset("*?[]:{}/\\")


def asked(command: Sequence[str]) -> dict[str, str]:
    """Return the options of a command by name, without dashes; a flag's value is ""."""
    options, name = dict[str, str](), ""
    for word in command:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            options[name] = value
        elif name:
            options[name], name = f"{options[name]} {word}".strip(), name if options[name] else ""
    return options


def absent(records: Iterable[Record]) -> list[str]:
    """Return what the commands of shards promise and no record has: a shard, or a method that was named.

    A shard counts as lost if another one of its plan has two encoders, or if a later one is here: then it has some too.
    """
    plans: dict[tuple[tuple[str, str], ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    # By command, because it is read once.
    encoders: dict[tuple[str, ...], set[str]] = defaultdict(set)
    known: set[str] = set()
    for record in records:
        method = record["method"]
        known |= {method["name"], method.get("recipe_name") or ""}
        encoders[tuple(record["command"])].add(record["encoder_key"])
    for command, keys in encoders.items():
        options = asked(command)
        key = tuple(sorted((name, value) for name, value in options.items() if name not in _ELSEWHERE))
        plans[key][options.get("shard", "")] |= keys
    lines = []
    for key, shards in plans.items():
        # Of a plan that ran as a whole too, nothing is lost.
        if "" in shards:
            continue
        count = max(int(shard.partition("/")[2]) for shard in shards)
        here = {int(shard.partition("/")[0]) for shard in shards if shard.endswith(f"/{count}")}
        last = count if max(map(len, shards.values())) > 1 else max(here)
        lost = [str(number) for number in range(1, last + 1) if number not in here]
        verb = "s {} of {} are not here" if lost[1:] else " {} of {} is not here"
        lines += [f"shard{verb.format(', '.join(lost), count)}"] if lost else []
        names = dict(key).get("methods", "").split(",") if "label" not in dict(key) else []
        unknown = [name for name in map(str.strip, names) if name and not _GLOB & set(name) and name not in known]
        lines += [f"no record of {', '.join(unknown)}, which --methods names"] if unknown else []
    return list(dict.fromkeys(lines))
