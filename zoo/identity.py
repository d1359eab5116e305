"""What identifies a method: its name and version in keys, and digests of code; the commit, for records."""

from __future__ import annotations

import ast
import functools
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.files import sha256_json
from zoo.registry import METHODS

if TYPE_CHECKING:
    from zoo.encoder import Encoder

_ROOT = Path(__file__).resolve().parent
_OURS = ("zoo", "benchmark")
_REGISTRIES = ("zoo.registry", "benchmark.tasks")  # they know every class, and change none
_NO_NUMBERS = tuple(f"zoo.{name}" for name in ("errors", "exits", "files", "hub", "paths", "progress"))  # not followed


@functools.cache
def commit() -> str | None:
    """Return the commit of the source checkout, with "+" if its files were changed; None for an installed package."""
    top = _ROOT.parent
    if not (top / ".git").exists():
        return None
    try:
        head = _git(top, "rev-parse", "HEAD").strip()
        changed = _git(top, "status", "--porcelain", "--", "zoo", "benchmark", "configs").strip()
    except (OSError, subprocess.SubprocessError):
        return None  # git is not installed, or refuses this checkout; records still state the version
    return head[:12] + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


_NAMES_IN_KEYS = {
    "random": "zoo.methods.randomvectors.RandomVectors",
    "bag-of-words": "zoo.methods.bagofwords.BagOfWords",
    "cls": "zoo.methods.pooled.Cls",
    "avg": "zoo.methods.pooled.Average",
    "static": "zoo.methods.static.Static",
    "wordvectors": "zoo.methods.wordvectors.WordVectors",
    "sif": "zoo.methods.sif.SIF",
    "sif-tokens": "zoo.methods.sif_tokens.TokenSIF",
    "whitening": "zoo.methods.whitening.Whitening",
    "flow": "zoo.methods.flow.Flow",
    "simcse": "zoo.methods.simcse.SimCSE",
    "moco": "zoo.methods.moco.MoCo",
    "ptbert": "zoo.methods.ptbert.PTBert",
    "ct": "zoo.methods.ct.CT",
    "isbert": "zoo.methods.isbert.ISBert",
    "twoviews": "zoo.methods.twoviews.TwoViews",
    "sbert": "zoo.methods.sbert.SBERT",
    "burt": "zoo.methods.burt.BURT",
    "infersent": "zoo.methods.infersent.InferSent",
    "prompt": "zoo.methods.prompt.Prompt",
    "promptbert": "zoo.methods.promptbert.PromptBERT",
    "optiprompt": "zoo.methods.optiprompt.OptiPrompt",
    "pretrained": "zoo.methods.pretrained.Pretrained",
}
"""The names of these methods in keys. They were module paths once, and stay so that measured cells keep their keys.

No file is looked up by them any more. A method that is not listed here has its registered name in keys.
"""


def method_identity(cls: type[Encoder], *, code: bool = True) -> str:
    """Return a method's identity in keys: its registered name and version; with `code` also a plugin's code.

    Names of classes, modules and files, comments and docstrings are no part of it.
    """
    name = METHODS.name_of(cls)
    if name is not None and METHODS.is_builtin(name):
        known = _NAMES_IN_KEYS.get(name, name)
        return known if cls.version == 1 else f"{known}, version {cls.version}"
    return f"{name or 'object'}, version {cls.version}" + (f":{code_digest(cls, own=True)}" if code else "")


def code_digest(*roots: object, own: bool = False) -> str:
    """Return a sha256 over the code of classes and functions, and of all of zoo, benchmark or their own package that
    this code names: without comments, docstrings, annotations, and the names of files and modules.

    `own` leaves out zoo and benchmark.
    """
    return _digest(roots, own)


@functools.cache
def _digest(roots: tuple[object, ...], own: bool) -> str:
    left = [place for root in roots for place in _places(root)]
    first, seen = set(left), dict[tuple[Path, str], str]()
    ours = [_ROOT.parent / package for package in _OURS] if own else []
    while left:
        path, name = place = left.pop()
        if place in seen or any(folder in path.parents for folder in ours):
            continue
        definition = _definition(path, name)
        # The name of a class or function under which its code was found is not a part of it.
        code = definition.code.replace(repr(name), "'_'") if place in first else definition.code
        seen[place] = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest() if code else ""
        left += [(path, ""), *_named(path, definition)]
    return sha256_json(sorted(set(seen.values())))


@dataclass(frozen=True)
class _Definition:
    """A class, function or variable at the top of a file: its code, and the names that the code uses."""

    code: str
    names: frozenset[str]
    attributes: frozenset[str]


@dataclass(frozen=True)
class _Source:
    """The definitions of a file, by name ("": statements that define nothing), and what it imports, by local name."""

    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, tuple[str, str]]  # (module, the name in it or "" for the module itself)


@functools.cache
def _source(path: Path) -> _Source:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                imports[alias.asname or name] = (name, "")
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            imports |= {alias.asname or alias.name: (module, alias.name) for alias in node.names}
    definitions: dict[str, list[ast.stmt]] = {"": []}
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = {statement.name}
        else:
            names = {node.id for node in _targets(statement) if isinstance(node, ast.Name)} or {""}
        for name in names:
            definitions.setdefault(name, []).append(statement)
    return _Source(definitions, imports)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign | ast.AugAssign) else []


@functools.cache
def _definition(path: Path, name: str) -> _Definition:
    names: set[str] = set()
    attributes: set[str] = set()
    code = _plain(_source(path).definitions[name], names, attributes)
    return _Definition(repr(code) if code else "", frozenset(names), frozenset(attributes))


_NOT_CODE = ("annotation", "returns", "type_comment", "type_params", "kind", "ctx")


def _plain(node: object, names: set[str], attributes: set[str]) -> object:
    """Return a syntax tree as nested lists, without what changes no result; collects names and attributes."""
    if isinstance(node, list):
        left = [one for one in node if not isinstance(one, ast.Import | ast.ImportFrom) and not _is_text(one)]
        return [_plain(one, names, attributes) for one in left]
    if not isinstance(node, ast.AST):
        return node if node is None or isinstance(node, str) else repr(node)
    if isinstance(node, ast.Name):
        names.add(node.id)
    elif isinstance(node, ast.Attribute):
        attributes.add(node.attr)
    fields = {field: value for field, value in ast.iter_fields(node) if field not in _NOT_CODE}
    if isinstance(node, ast.ClassDef):  # a method's card changes no vector
        fields["decorator_list"] = [one for one in node.decorator_list if not _is_card(one)]
    inner = [
        (field, _plain(value, names, attributes))
        for field, value in fields.items()
        if value is not None and value != []
    ]
    return [type(node).__name__, *inner]


def _is_card(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "register_method"


def _is_text(node: object) -> bool:
    """Return whether a statement is a docstring, or text that does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _places(root: Any) -> list[tuple[Path, str]]:
    """Return where a function, or a class and its bases, are defined: (file, name), as far as `code_digest` follows."""
    found: list[tuple[Path, str]] = []
    ours = (*_OURS, _package(root))
    for part in getattr(root, "__mro__", (root,)):
        file = getattr(sys.modules.get(part.__module__), "__file__", None)
        if file is None or (_package(part) not in ours and _installed(Path(file))):
            continue  # of a notebook, of Python or of a library
        path, name = Path(file).resolve(), part.__qualname__.split(".")[0]
        known = _source(path).definitions
        found += [(path, one) for one in ([name] if name in known else known)]
    return found


def _package(root: object) -> str:
    return str(root.__module__).partition(".")[0]


def _installed(path: Path) -> bool:
    return "site-packages" in path.parts or Path(sys.base_prefix).resolve() in path.resolve().parents


def _named(path: Path, definition: _Definition) -> Iterator[tuple[Path, str]]:
    """Yield the definitions that a definition names, in its own file and in the files that this one imports."""
    source = _source(path)
    for name in definition.names:
        if name in source.definitions:
            yield path, name
        elif name in source.imports:
            yield from _imported(path, *source.imports[name], definition.attributes)


@functools.cache
def _imported(path: Path, module: str, name: str, attributes: frozenset[str]) -> tuple[tuple[Path, str], ...]:
    """Return the definitions that an import brings: one name, or of a module those that are used as its attributes."""
    file = _file_of(module, path)
    if file is None:
        return ()
    source = _source(file)
    if name in source.definitions and name:
        return () if module in _REGISTRIES else ((file, name),)
    if source.imports.get(name, (module, name)) != (module, name):  # a package that passes it on
        return _imported(file, *source.imports[name], attributes)
    if name:
        file = _file_of(f"{module}.{name}" if module.strip(".") else module + name, path)
        source = _Source({}, {}) if file is None else _source(file)
    assert file is not None or not source.definitions
    used = [one for one in source.definitions if one in attributes] or list(source.definitions)
    return tuple((file, one) for one in used if file is not None)


@functools.cache
def _file_of(module: str, path: Path) -> Path | None:
    """Return the file of a module as `path` imports it, if it is of zoo, benchmark or the importing file's package."""
    name = module.lstrip(".")
    top = path.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    ours = (*_OURS, path.relative_to(top).parts[0])
    roots = [top, _ROOT.parent] if name == module else [path.parents[len(module) - len(name) - 1]]
    for root in roots:
        if module in _NO_NUMBERS or (name == module and name.split(".")[0] not in ours and _installed(root / "x")):
            continue
        place = root.joinpath(*name.split("."))
        for file in (place.parent / f"{place.name}.py", place / "__init__.py"):
            if file.is_file():
                return file
    return None
