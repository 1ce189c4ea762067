"""Makes the bundled snapshots from the recordings: ``python -m sample_data.make_samples``.

Each recording is loaded into an empty database of a PostgreSQL server (that of DATABASE_URL, or
one started for this) and captured as of the moment it was made. The same rows give the same
bytes; the server's own vital signs would say nothing of the recorded system and are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from jobplaybook.api import capture, read_options
from jobplaybook.snapshot.options import CaptureOptions
from jobplaybook.units import parse_time
from tests.postgres import running_postgres

HERE = Path(__file__).parent
RECORDINGS = HERE.parent / "tests" / "data" / "recordings" / "procrastinate"
NAMES = ("killed", "healthy")


def make(folder: Path) -> None:
    """Write both snapshots into a folder, hashed with the samples' own key."""
    with running_postgres() as server:
        for name in NAMES:
            url = server.create(f"jobplaybook_sample_{name}")
            server.psql(
                f"jobplaybook_sample_{name}", RECORDINGS / "tables.sql", RECORDINGS / f"{name}.sql"
            )
            label = json.loads((RECORDINGS / f"{name}.label.json").read_text())
            options = CaptureOptions(
                now=parse_time(label["captured_at"]),
                pause_seconds=0,
                take_vitals=False,
                read=read_options(tenant_path="args.tenant", key_path="args.key"),
            )
            report = capture(
                url, folder / f"{name}.db", options=options, key_file=HERE / "jobplaybook.key"
            )
            print(f"{name}: {report.rows['jobs']} jobs, sha256 {report.content_sha256}")
            server.drop(f"jobplaybook_sample_{name}")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
