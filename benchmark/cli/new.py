"""`zoo-bench new`: files of a method or a task, ready to run, and the next steps with them."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import shutil
from pathlib import Path

import click

from benchmark.cli.options import say
from zoo.errors import UsageError, ZooError
from zoo.files import read_text, write_text
from zoo.paths import resource_folder
from zoo.plugins import METHODS

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 40


@click.group("new")
def command() -> None:
    """Write a file for a method or a task of your own, ready to run, into this folder."""


@command.command("method")
@click.argument("name")
@click.option("--loss", is_flag=True, help="Instead: a loss over the vectors of a batch, trained as SimCSE is.")
def method(name: str, loss: bool) -> None:
    """Write NAME.py, a method with training, and its recipe; then print the next steps."""
    from zoo.recipes import all_recipes

    written = _write("loss" if loss else "method", name, [*METHODS.names(), *all_recipes()])
    plugin, beside = f"--plugin {written[0]}", "simcse" if loss else "avg-last"
    _show(
        written,
        (f"doctor {name} {plugin}", "does it keep the contract of methods? in seconds"),
        (f"run {plugin} --methods {name},{beside}", "train it and measure it beside its untrained start"),
        (f"compare {name} {beside}", "the difference of the two on each task, with intervals"),
    )
    if loss:
        return
    say(f"--methods {written[1]} runs the recipe. Inside zoo-bench, the files are for zoo/methods and configs/methods.")


@command.command("task")
@click.argument("name")
def task(name: str) -> None:
    """Write NAME.py and a folder with ten scored pairs of sentences; then print the next steps."""
    from benchmark.data.catalog import catalog
    from benchmark.tasks import TASKS
    from benchmark.tasks.suites import all_suites

    written = _write("task", name, [*TASKS.names(), *all_suites(), *catalog()])
    plugin = f"--plugin {written[0]}"
    _show(
        written,
        (f"doctor {name} {plugin}", "can its data be read and scored? in seconds"),
        (f"run {plugin} --tasks {name} --methods avg-last,cls", "measure two methods on it"),
        (f"compare avg-last cls --tasks {name}", "the difference of the two, with its interval"),
    )


def _write(kind: str, name: str, known: list[str]) -> list[Path]:
    """Raises UsageError for an unusable name."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise UsageError(
            f"{name!r:.100} cannot be the name of a {kind}; take small letters, digits and single hyphens, at most"
            f" {_LONGEST} and a letter first, as in my-{kind}, whose file is written into the folder that you are in."
        )
    if name in (other.lower() for other in known):
        what = "method" if kind != "task" else "task, a suite or a data set"
        raise UsageError(f"{name!r} is the name of a {what} that is there already; choose another name.")
    shipped, stem = resource_folder("benchmark", "configs") / "new", name.replace("-", "_")
    cls = name.title().replace("-", "")
    spellings = {f"my-{kind}": name, f"my_{kind}": stem, f"My{kind.title()}": cls}
    spellings[f"My {kind}"] = name.replace("-", " ").capitalize()
    files, imported = {}, ""
    patterns = (f"my_{kind}.py", f"my_{kind}/*", f"my-{kind}.yaml")
    for path in sorted(file for pattern in patterns for file in shipped.glob(pattern)):
        place, text = path.relative_to(shipped).as_posix(), read_text(path)
        imported += " ".join(re.findall(r"import (.+)", text))
        for old, new in spellings.items():
            place, text = place.replace(old, new), text.replace(old, new)
        files[Path(place)] = text
    taken = next((path for file in files for path in (file, file.parent) if path.name and os.path.lexists(path)), None)
    if taken is not None:
        raise UsageError(f"{taken} is in this folder already and is left as it is; choose another name or folder.")
    module = importlib.util.find_spec(stem)
    if (module is not None and module.origin) or keyword.iskeyword(cls) or re.search(rf"\b{cls}\b", imported):
        raise UsageError(f"{name!r} is a name of Python or of a module that the file would hide; choose another name.")
    try:
        for path, text in files.items():
            write_text(path, text)
    except ZooError:
        # Of all files or none, so that the same command works once there is room.
        for path in files:
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in files} - {Path()}:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return sorted(files, key=lambda path: path.suffix != ".py")


def _show(written: list[Path], *commands: tuple[str, str]) -> None:
    say(f"written: {', '.join(map(str, written))}")
    say("What to do next:")
    for words, what in commands:
        say(f"  zoo-bench {words}\n      {what}")
