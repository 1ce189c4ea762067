"""The limits of a capture: its budget, slow statements, locks, and every way to be ended."""

from __future__ import annotations

# Losing the connection


def test_a_server_that_goes_away_leaves_no_file(queue: str, tmp_path: Path) -> None:
    """At whatever statement the connection is cut: exit code 4, and nothing is left."""
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'jobplaybook'"
    )
    total = len(statements_of(queue, tmp_path / "whole.db", chunk=20))
    for at in range(1, total + 1):
        with pytest.raises(SourceError, match="connection to the database was lost") as told:
            seen_with(queue, tmp_path / "a.db", lambda: execute(queue, cut), at, chunk=20)
        assert told.value.exit_code == 4
    assert files(tmp_path) == ["whole.db"]


# A statement that is too slow


def slow_beyond(size: int, *, only: str = "") -> type[Reader]:
    """Return a reader whose statements time out where they give more rows than ``size``."""

    class Slow(Reader):
        def rows(self, statement: sa.Executable, **binds: Any) -> list[tuple[Any, ...]]:
            found = super().rows(statement, **binds)
            if len(found) > size and only in str(statement) and "pg_catalog" not in str(statement):
                raise ChunkTooSlow("out of time")
            return found

    return Slow


def test_a_chunk_that_is_too_slow_is_asked_for_again_in_parts(queue: str, tmp_path: Path) -> None:
    """Smaller statements bring the same file."""
    execute(
        queue,
        "INSERT INTO procrastinate_jobs (queue_name, task_name)"
        " SELECT 'q', 'send' FROM generate_series(1, 700)",
    )
    start(queue, 1)
    now = parse_time("2026-12-01T12:00:00Z")
    options: dict[str, Any] = {"now": now, "take_vitals": False, "since_seconds": 1e9}
    plain = capture_by(Reader, queue, tmp_path / "a.db", **options)
    parts = capture_by(slow_beyond(250), queue, tmp_path / "b.db", **options)
    assert parts.not_read == {}
    assert parts.content_sha256 == plain.content_sha256


@pytest.mark.parametrize(
    ("only", "phase"),
    [("ORDER BY public.procrastinate_jobs.id", "unfinished"), ("chunk", "finished")],
)
def test_what_stays_too_slow_is_said(queue: str, tmp_path: Path, only: str, phase: str) -> None:
    """Even the smallest chunk times out: the rest is read, and the gap is told."""
    report = capture_by(slow_beyond(0, only=only), queue, tmp_path / "a.db")
    assert list(report.not_read) == [phase]
    assert "even 100 rows took longer than 5 s" in report.not_read[phase]
    assert report.rows_by_status["doing"] == 3


def test_running_jobs_that_are_too_many_are_read_in_chunks(queue: str, tmp_path: Path) -> None:
    """The first statement may fail: each chunk has the heartbeats and the clock as well."""
    report = capture_by(slow_beyond(0, only="status = 'doing'"), queue, tmp_path / "a.db")
    assert report.rows_by_status["doing"] == 3
    assert report.not_read == {}
    assert any("too many to read in one statement" in warning for warning in report.warnings)


