"""``jobplaybook demo``: the verdict and the report of a bundled incident."""

from __future__ import annotations

from pathlib import Path

import click

from jobplaybook.commands._common import emit, json_option
from jobplaybook.commands.run import exit_code
from jobplaybook.errors import InputError

_FOLDER = Path("jobplaybook-demo")


@click.command(name="demo")
@json_option
def command(as_json: bool) -> int:
    """The verdict of a bundled incident on screen, its notebook and report in ./jobplaybook-demo.

    A real queue was recorded while one of its two workers was killed.

    \b
    Example: jobplaybook demo
    """  # noqa: D301
    from jobplaybook.api import run_notebook, triage

    answer = triage("sample")
    try:
        _FOLDER.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"expected to make the folder {_FOLDER} here, the file system refused: "
            f"{error.strerror}; run it in another folder"
        ) from None
    output, html = _FOLDER / "00-start-here.ipynb", _FOLDER / "report.html"
    ran = run_notebook("00-start-here", "sample", output=output, html=html)
    document = {"verdict": answer.to_json()["verdict"], "report": str(html), **ran.to_json()}
    said = [*str(answer).split("\n"), "", f"notebook  {output}", f"report    {html}"]
    if ran.status != "completed":
        said.append(f"the notebook did not complete: {ran.status}: {ran.message}")
    emit(document, as_json, said)
    return exit_code(ran)
