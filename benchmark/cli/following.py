"""The command that a command names as the next one."""

from __future__ import annotations

import shlex

import click
from click.core import ParameterSource

from benchmark.cli.main import main_group


def next_command(name: str, *words: str) -> str:
    """Return a command that goes on from this one: it carries the options typed here that it has too."""
    context = click.get_current_context()
    following = main_group.get_command(context, name)
    # Options of one name may differ: `run --pairs` names labelled pairs, `compare --pairs` is a number.
    known = {(param.name, type(param.type)) for param in following.params} if following else set()
    carried: list[str] = []
    for param in context.command.params:
        typed = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if not typed or not isinstance(param, click.Option) or (param.name, type(param.type)) not in known:
            continue
        flag, value = param.opts[0], context.params[param.name or ""]
        if flag not in (*words, "--json"):
            values = value if isinstance(value, tuple) else (value,)
            carried += [flag] if param.is_flag else [word for one in values for word in (flag, str(one))]
    return shlex.join(["zoo-bench", name, *words, *carried])
