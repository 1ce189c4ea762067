"""What the commands share: option types that refuse nonsense, and answers any terminal can take."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from jobplaybook.commands import _common, _source
from jobplaybook.sources.base import ReadOptions


def emitted(document: Mapping[str, Any], encoding: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding) as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        _common.emit(document, as_json=True)
        _common.echo(str(document["name"]).replace("\ud800", "?"))
        stdout.flush()
        return raw.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("name", ["Jürgen λ\n\x1b[31m", "lone \ud800"])
def test_json_survives_any_terminal(
    encoding: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document reads back the same whatever stdout can write, without a control character."""
    text = emitted({"name": name}, encoding, monkeypatch).decode(encoding)
    document, end = json.JSONDecoder().raw_decode(text)
    assert document == {"name": name}
    assert "\x1b" not in text[:end]


GOOD: list[tuple[click.ParamType[Any], str, object]] = [
    (_common.DURATION, "0", 0.0),
    (_common.DURATION, "50ms", 0.05),
    (_common.POSITIVE_DURATION, "24h", 86_400.0),
    (_common.RATE, "0", 0.0),
    (_common.RATE, "30/min", 0.5),
    (_common.TIME, "1970-01-01T00:00:01Z", 1_000_000),
    (_common.SHARE, "0.25", 0.25),
    (_common.SHARE, "1", 1.0),
    (_common.whole_number(0), "0", 0),
    (_common.whole_number(1, 10), "10", 10),
    (_common.FIELD_PATH, "args.tenant-id", "args.tenant-id"),
]
BAD: list[tuple[click.ParamType[Any], str]] = [
    *((_common.DURATION, text) for text in ("", "nan", "-1s", "5", "101000d", "9" * 400 + "s")),
    (_common.POSITIVE_DURATION, "0"),
    (_common.POSITIVE_DURATION, "0.0h"),
    *((_common.RATE, text) for text in ("", "nan", "inf", "-1/s", "1", "2M/ms", "2000M/s")),
    (_common.RATE, "9" * 400 + "/s"),
    (_common.RATE, "0.0000000001/s"),
    *((_common.TIME, text) for text in ("", "now", "2026-12-01", "2026-12-01T03:45:22")),
    (_common.TIME, "0001-01-01T00:00:00+14:00"),
    (_common.TIME, "9999-12-31T23:59:59-14:00"),
    *((_common.SHARE, text) for text in ("", "nan", "inf", "-0.1", "1.01", "20%", "1e9", "0x1")),
    *((_common.whole_number(0), text) for text in ("", "-1", "1.5", "1e9", "1_000", "nan", "٣")),
    (_common.whole_number(0), "1000000000001"),
    (_common.whole_number(), "0"),
    (_common.whole_number(1, 10), "11"),
    *((_common.FIELD_PATH, text) for text in ("", ".", "a.", "a..b", "a b", "a';--", "a\x00", "ä")),
]


@pytest.mark.parametrize(("kind", "text", "value"), GOOD)
def test_an_option_reads_its_kind(kind: click.ParamType[Any], text: str, value: object) -> None:
    """Each kind of option reads what it is made for."""
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(("kind", "text"), BAD)
def test_an_option_refuses_the_rest(kind: click.ParamType[Any], text: str) -> None:
    """Negative, infinite, not a number, absurd or malformed: expected this, found that."""
    with pytest.raises(click.BadParameter, match=r"^expected .*, found "):
        kind.convert(text, None, None)


def test_an_output_is_a_file_in_a_folder_that_exists(tmp_path: Path) -> None:
    """A folder, or a file in none, is refused before any work is done."""
    kind = _common.OUTPUT_FILE
    assert kind.convert(str(tmp_path / "a.db"), None, None) == tmp_path / "a.db"
    for wrong in (tmp_path, tmp_path / "none" / "a.db"):
        with pytest.raises(click.BadParameter, match=r"^expected a file .*, found "):
            kind.convert(str(wrong), None, None)


@pytest.mark.parametrize("text", ["sample", "env:JOBS_URL", "service=jobs", "postgresql://h/db"])
def test_an_output_is_no_source(text: str) -> None:
    """Swapped arguments are refused before a file of that name is written."""
    for kind in (_common.OUTPUT, _common.OUTPUT_FILE):
        with pytest.raises(click.BadParameter, match=r"^expected a place .*, which names a SOURCE"):
            kind.convert(text, None, None)
        assert kind.convert("./sample", None, None) == Path("sample")


def test_a_source_command_is_told_its_window_and_how_to_open() -> None:
    """Put together, the options give a command its source, window and choices."""
    seen: dict[str, Any] = {}

    @_source.source_command("probe")
    @_source.source_argument
    @_source.until_option
    def probe(**given: Any) -> _source.Said:
        seen.update(given)
        return _source.Said({}, (), code=7)

    words = ["sample", "--now", "1970-01-01T00:00:01Z", "--tenant-path", "args.t", "--lease", "30s"]
    assert probe.main(words, standalone_mode=False) == 7
    how = seen.pop("how")
    assert seen == {"source": "sample", "now": 1_000_000, "since": 86_400.0, "until": None}
    assert (how.keep, how.key_file, how.capture.now) == (None, None, 1_000_000)
    assert how.capture.read == ReadOptions(lease_seconds=30.0, tenant_path=("args", "t"))
