"""What is checked before a notebook runs: its name, its parameters, where it will be written."""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jobplaybook.bundled import bundled_path
from jobplaybook.errors import InputError
from jobplaybook.incident.story import outside_events
from jobplaybook.snapshot.options import CaptureOptions
from jobplaybook.units import MICROS, nearest, parse_duration, parse_rate, parse_time, shown

_PARAMETERS = "parameters"
INJECTED, BANNER = "injected-parameters", "run-status"
"""The tags of the cells that a run puts into a notebook."""
_READ_AS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("since", "by", "outage", "bucket"), parse_duration),
    **dict.fromkeys(("now", "until"), parse_time),
    **dict.fromkeys(("completion", "quota"), parse_rate),
}
"""How the bundled notebooks read the text of their parameters."""
# What looks like a place to log in to, or like a password.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|\bpass\w*\s*=", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run that may begin: the notebook, checked values of its parameters, writable outputs."""

    name: str
    notebook: Mapping[str, Any]
    defaults: Mapping[str, Any]
    values: Mapping[str, Any]
    output: Path
    result: Path
    html: Path | None
    replaces_source: bool
    is_bundled: bool
    """Whether its parameters mean what they mean in the notebooks that come with jobplaybook."""

    def output_of(self, status: str) -> Path:
        """Return where a run's notebook goes: only a completed one replaces its own source."""
        if status == "completed" or not self.replaces_source:
            return self.output
        return self.output.with_suffix(f".{status}.ipynb")

    def window(self, options: CaptureOptions, *, now: int) -> CaptureOptions:
        """Return a capture's options for what the notebook is asked to look at.

        ``now`` is the present, microseconds UTC: a window that ends before it needs a longer
        capture, and the time before that window is compared with it.
        """
        since, end, until = (self.values.get(name) for name in ("since", "now", "until"))
        if isinstance(since, str):
            options = replace(options, since_seconds=parse_duration(since))
        if isinstance(end, str):
            options = replace(options, now=parse_time(end))
        if isinstance(until, str):
            passed = ((options.now or now) - parse_time(until)) / MICROS
            seconds = 2 * options.since_seconds + max(passed, 0.0)
            options = replace(options, since_seconds=seconds)
        return options


def plan_run(
    name: str | Path,
    *,
    parameters: Mapping[str, Any],
    output: str | Path,
    html: str | Path | None = None,
    result: str | Path | None = None,
) -> Plan:
    """Check everything that can be checked before a run.

    The result goes by default beside the executed notebook, as ``OUT.result.json``.

    Raises
    ------
    InputError
        If there is no such notebook, a parameter is unknown or of another type, a value is a
        URL, or an output cannot be written.
    """
    path, out = notebook_path(name), Path(output)
    _check_writable(out, ".ipynb")
    notebook = _read(path)
    defaults = _defaults(notebook, path)
    values = {key: _value(key, value, defaults) for key, value in parameters.items()}
    is_bundled = path.resolve() in [own.resolve() for own in _bundled()]
    plan = Plan(
        name=path.stem,
        notebook=notebook,
        defaults=defaults,
        values=_checked(values) if is_bundled else values,
        output=out,
        result=out.with_suffix(".result.json") if result is None else Path(result),
        html=None if html is None else Path(html),
        replaces_source=out.exists() and path.samefile(out),
        is_bundled=is_bundled,
    )
    _check_writable(plan.result, ".json")
    if plan.html is not None:
        _check_writable(plan.html, ".html")
    return plan


def plan_all(
    folder: Path, *, parameters: Mapping[str, Any], names: Sequence[str | Path] | None = None
) -> list[Plan]:
    """Check everything that can be checked before a run of several notebooks, by default all.

    Each gets those of the parameters that it has; one that none of them has is unknown.
    """
    paths = _bundled() if names is None else [notebook_path(name) for name in names]
    known = {path: _defaults(_read(path), path) for path in paths}
    for path in paths:
        if [other.stem for other in paths].count(path.stem) > 1:
            raise InputError(f"two notebooks are called {shown(path.stem)}: run them apart")
    if strange := parameters.keys() - {name for defaults in known.values() for name in defaults}:
        name, others = min(strange), sorted({n for d in known.values() for n in d} - {"source"})
        raise InputError(f"no notebook has a parameter {shown(name)}: {nearest(name, others)}")
    return [
        plan_run(
            path,
            parameters={name: value for name, value in parameters.items() if name in defaults},
            output=folder / path.name,
            html=folder / f"{path.stem}.html",
        )
        for path, defaults in known.items()
    ]


def notebook_path(name: str | Path) -> Path:
    """Return the path of a notebook: a file, or a bundled one by its name or number.

    Examples
    --------
    >>> notebook_path("00").name
    '00-start-here.ipynb'
    """
    if isinstance(name, Path) or name.endswith(".ipynb") or os.sep in name:
        path = Path(name)
        if not path.is_file():
            raise InputError(f"expected a notebook, found no file {shown(str(name), 200)}")
        return path
    for path in _bundled():
        if name in (path.stem, path.stem.partition("-")[0]):
            return path
    raise InputError(f"no notebook {shown(name)}: {nearest(name, [p.stem for p in _bundled()])}")


def _bundled() -> list[Path]:
    return sorted(bundled_path("notebooks").glob("*.ipynb"))


def _read(path: Path) -> Mapping[str, Any]:
    where = shown(str(path), 200)
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells, made = notebook["cells"], notebook["nbformat"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"expected a notebook of format 4, found something else: {where}"
        ) from None
    if made != 4 or not isinstance(cells, list):
        raise InputError(f"expected a notebook of format 4: {where}; save it again in JupyterLab")
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    if language != "python":
        raise InputError(f"expected a Python notebook, found {shown(str(language))}: {where}")
    # A notebook that ran before brings that run's values and banner: neither is this run's.
    own = [cell for cell in cells if not {INJECTED, BANNER} & set(_tags(cell))]
    return {**notebook, "cells": own}


def _defaults(notebook: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return what the cell tagged ``parameters`` assigns: names and literals, nothing else."""
    tagged = [c for c in notebook["cells"] if _PARAMETERS in _tags(c) and c["cell_type"] == "code"]
    where = shown(str(path), 200)
    if len(tagged) != 1:
        raise InputError(
            f"expected one code cell tagged {_PARAMETERS!r} in {where}, found {len(tagged)}"
        )
    found = {}
    try:
        for line in ast.parse("".join(tagged[0]["source"])).body:
            if not isinstance(line, ast.Assign) or not isinstance(line.targets[0], ast.Name):
                raise ValueError
            found[line.targets[0].id] = ast.literal_eval(line.value)
    except (SyntaxError, ValueError):
        raise InputError(
            f'expected only lines like `since = "24h"` in the parameters cell of {where}'
        ) from None
    if "source" not in found:
        raise InputError(f"expected a parameter `source` in the parameters cell of {where}")
    return found


def _tags(cell: Mapping[str, Any]) -> Sequence[str]:
    return list(cell.get("metadata", {}).get("tags", ()))


def _value(name: str, given: Any, defaults: Mapping[str, Any]) -> Any:
    """Return a parameter's value in the type of its default."""
    if name == "source":
        raise InputError("the parameter source is SOURCE itself: give it there")
    if name not in defaults:
        others = [other for other in defaults if other != "source"]
        raise InputError(f"no parameter {shown(name)} in this notebook: {nearest(name, others)}")
    if _URL.search(given if isinstance(given, str) else json.dumps(given, default=str)):
        raise InputError(
            f"the value of {name} is or holds a URL, which a notebook would keep in clear: name a "
            "database as SOURCE, by env:NAME or service=NAME"
        )
    default = defaults[name]
    value = _parsed(given, default) if isinstance(given, str) else given
    wanted = (str, type(None)) if default is None else (type(default),)
    if type(value) not in wanted or (isinstance(value, float) and not math.isfinite(value)):
        kind = "text" if wanted[0] is str else wanted[0].__name__
        raise InputError(f"expected {name} as {kind}, like {default!r}, found {shown(str(given))}")
    return value


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bundled notebook's values, read once as it will: a kernel is slow to find a slip."""
    checked = dict(values)
    for name, value in values.items():
        try:
            if name in _READ_AS and isinstance(value, str):
                _READ_AS[name](value)
            elif name == "workers" and isinstance(value, str):
                checked[name] = _whole(value)
            elif name == "events":
                outside_events(value)
                checked[name] = [e.split("=", 1) if isinstance(e, str) else e for e in value]
        except InputError as error:
            raise InputError(f"the parameter {name}: {error}") from None
    return checked


def _whole(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text, re.ASCII):
        raise InputError(f"expected a whole number from 1, found {shown(text)}")
    return int(text)


def _parsed(text: str, default: Any) -> Any:
    if default is None or isinstance(default, str):
        return text
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        whole = isinstance(value, int) and not isinstance(value, bool)
        return float(value) if isinstance(default, float) and whole else value
    return text


def _check_writable(path: Path, suffix: str) -> None:
    where = shown(str(path), 200)
    if path.suffix != suffix:
        raise InputError(f"expected an output named like out{suffix}, found {where}")
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"expected a file in a folder that exists, found {where}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"expected to be allowed to write in the folder of {where}")
