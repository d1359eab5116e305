"""Takes apart the cells of a table that hold lists or objects."""

from __future__ import annotations

from typing import Any


def named(cell: Any, feature: Any) -> Any:
    """Return a label's name as a ClassLabel states it, None for -1; other cells as they are."""
    if not isinstance(feature, dict) or cell is None:
        return cell
    if feature.get("_type") == "ClassLabel" and feature.get("names") and not is_nested(cell):
        return feature["names"][int(cell)] if 0 <= cell < len(feature["names"]) else None
    return [named(one, feature.get("feature")) for one in cell] if "feature" in feature else cell


def is_nested(cell: object) -> bool:
    """Return whether a cell holds several values."""
    return isinstance(cell, list | tuple | dict) or getattr(cell, "ndim", 0) > 0


def holds_objects(cell: Any) -> bool:
    return is_nested(cell) and any(isinstance(item, dict) for item in cell)


def items(cell: Any) -> list[Any]:
    """Return the values or objects of a nested cell; an object of lists is a list of objects."""
    if isinstance(cell, dict):
        lists = {key: list(value) for key, value in cell.items() if is_nested(value) and not isinstance(value, dict)}
        return [dict(zip(lists, row, strict=False)) for row in zip(*lists.values(), strict=False)] if lists else [cell]
    if not is_nested(cell):
        return [] if cell is None or cell != cell else [cell]
    return [
        part for item in cell for part in (items(item) if is_nested(item) and not isinstance(item, dict) else [item])
    ]


def inner(name: str, rows: list[list[Any]]) -> dict[str, list[list[Any]]]:
    """Return the lists in a column: its texts, after their titles, under its name; each number of its objects."""
    objects = [item for row in rows for item in row if isinstance(item, dict)]
    if not objects:
        return {name: rows}
    keys = dict.fromkeys(key for item in objects for key in item)
    sample = {key: [item[key] for item in objects if item.get(key) is not None] for key in keys}
    texts = [key for key, values in sample.items() if any(isinstance(value, str) and " " in value for value in values)]
    texts = ["text"] if "text" in keys else texts
    lists = {f"{name}.{key}" if len(texts) > 1 else name: [[_titled(item, key) for item in row] for row in rows]
             for key in texts}  # fmt: skip
    numbers = [
        key for key, values in sample.items() if values and all(isinstance(value, int | float) for value in values)
    ]
    return lists | {f"{name}.{key}": [[item.get(key) for item in row] for row in rows] for key in numbers}


def _titled(item: dict[str, Any], key: str) -> str:
    title = item.get("title") if key == "text" else ""
    return " ".join(str(part) for part in (title, item.get(key)) if part)
