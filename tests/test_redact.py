"""What leaves the database: hashes by a key that stays outside, and no canary anywhere."""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobplaybook import api
from jobplaybook.errors import InputError
from jobplaybook.snapshot.redact import (
    KEY_FILE,
    Redactor,
    keep_key,
    key_shape,
    read_key,
    read_or_make_key,
)
from jobplaybook.sources.base import ReadOptions
from tests.captures import capture, files, look, meta
from tests.postgres import Database
from tests.procrastinate_app import execute, install

KEY = bytes(range(32))
PATHS = ReadOptions(tenant_path=("args", "tenant"), key_path=("args", "key"))
# What a payload, a lock, an error or a tenant may hold and no snapshot may show.
CANARIES = {
    "tenant": "tenant-canary-acme",
    "key": "order-canary-1138",
    "password": "hunter2-canary",
    "card": "4111-canary-1111",
    "mail": "canary@example.com",
    "token": "Bearer canary.eyJ0",
    "cookie": "session=canary77",
    "lock": "lock-canary-9",
    "queueing_lock": "queueing-canary-9",
}


# Hashing


@given(st.text())
def test_a_hash_is_hmac_sha256(text: str) -> None:
    """Anybody who has the key can compute the hash: twenty hex digits of HMAC-SHA256."""
    try:
        told = text.encode()
    except UnicodeEncodeError:
        return  # no database hands out half a surrogate pair
    assert Redactor(KEY).hashed(text) == hmac.digest(KEY, told, "sha256").hex()[:20]


def test_the_same_text_and_key_give_the_same_hash() -> None:
    """Snapshots of one folder can be compared; another key tells nothing about the text."""
    ours = Redactor(KEY)
    assert ours.hashed("acme") == ours.hashed("acme") == Redactor(KEY).hashed("acme")
    assert ours.hashed("acme") != Redactor(KEY[::-1]).hashed("acme")
    assert ours.hashed("acme") != ours.hashed("acme ")


def test_nothing_stays_nothing() -> None:
    """An absent tenant is no tenant, not the hash of nothing; an empty one is one."""
    assert Redactor(KEY).hashed(None) is None
    assert Redactor(KEY).hashed("") not in (None, "")


def test_many_keys_do_not_fill_the_memory() -> None:
    """Beyond what is remembered the hashes are the same."""
    redactor = Redactor(KEY)
    first = [redactor.hashed(str(number)) for number in range(12_000)]
    assert [redactor.hashed(str(number)) for number in range(12_000)] == first
    assert len(set(first)) == 12_000


def test_the_key_id_names_the_key_and_not_more() -> None:
    """The id in the snapshot tells keys apart and is no hash that a text could have."""
    assert Redactor(KEY).key_id == Redactor(KEY).key_id
    assert len({Redactor(KEY).key_id, Redactor(KEY[::-1]).key_id, Redactor(None).key_id}) == 3
    assert Redactor(None).key_id == ""
    assert KEY.hex()[:12] not in Redactor(KEY).key_id


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (None, None),
        ("", "plain"),
        ("order-17", "plain"),
        ("0012", "number"),
        ("someone@example.com", "mail"),
        ("https://example.com/orders/1", "url"),
        ("4F9D2C1E-0000-4000-8000-000000000000", "uuid"),
        ("4f9d2c1e-0000-4000-8000-00000000000g", "plain"),
        ("eyJhbGciOiJIUzI1NiJ9.e30.x", "token"),
        ("sk_live_1", "token"),
        ("ghp_abcdef", "token"),
        ("AKIAIOSFODNN7", "token"),
        ("x" * 200, "plain"),
        ("x" * 201, "long-text"),
    ],
)
def test_the_shape_of_a_key_is_noted(text: str | None, shape: str | None) -> None:
    """A hash no longer shows what kind of key it was."""
    assert key_shape(text) == shape


# The key's file


def test_a_new_key_is_private(tmp_path: Path) -> None:
    """A key is 32 random bytes in a file that only its owner may read; it is written at the end."""
    path = tmp_path / KEY_FILE
    key, is_new = read_or_make_key(path)
    assert (len(key), is_new, files(tmp_path)) == (32, True, [])
    keep_key(path, key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_or_make_key(path) == (key, False)
    assert read_or_make_key(tmp_path / "other.key")[0] != key


def test_a_key_that_came_meanwhile_is_kept(tmp_path: Path) -> None:
    """Two first captures at once: the second says so and does not take the first one's key away."""
    path = tmp_path / KEY_FILE
    key, _ = read_or_make_key(path)
    keep_key(path, KEY)
    with pytest.raises(InputError, match="meanwhile: capture again"):
        keep_key(path, key)
    assert read_key(path) == KEY


@pytest.mark.parametrize("text", ["", "no digits", "ab" * 15, "abc", "ä" * 64])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, text: str) -> None:
    """A short, odd or foreign text is no key, and is not overwritten."""
    path = tmp_path / KEY_FILE
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"^expected .*key"):
        read_or_make_key(path)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("place", ["missing/a.key", "file/a.key", "."])
def test_a_key_that_cannot_be_written_is_refused_first(tmp_path: Path, place: str) -> None:
    """Before the work, not after it, and nothing is left behind."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^expected .*key file"):
        read_or_make_key(tmp_path / place)
    assert files(tmp_path) == ["file"]


def test_a_dangling_link_is_no_new_key(tmp_path: Path) -> None:
    """A link that leads nowhere is not followed to write a secret somewhere else."""
    os.symlink(tmp_path / "elsewhere", tmp_path / KEY_FILE)
    with pytest.raises(InputError, match="key file"):
        read_or_make_key(tmp_path / KEY_FILE)
    assert files(tmp_path) == [KEY_FILE]


# Whole captures


@pytest.fixture
def queue(database: Database) -> str:
    """Give a queue whose every free text is a canary."""
    install(database.url)
    payload = {**CANARIES, "error": "Traceback: canary@error"}
    pairs = ", ".join(f"'{name}', '{text}'" for name, text in payload.items())
    execute(
        database.url,
        "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)"
        f" VALUES ('mail', 'send', '{CANARIES['lock']}', '{CANARIES['queueing_lock']}',"
        f" jsonb_build_object({pairs}))",
    )
    return database.url


def test_no_canary_is_in_the_file(queue: str, tmp_path: Path) -> None:
    """Payloads stay out whole; tenants, keys and locks are hashed; the key is not inside."""
    path = tmp_path / "a.db"
    capture(queue, path, read=PATHS)
    content = path.read_bytes()
    assert b"canary" not in content
    key = read_key(tmp_path / KEY_FILE)
    assert key not in content
    assert key.hex().encode() not in content
    redactor = Redactor(key)
    assert meta(path)["key_id"] == redactor.key_id
    assert look(path, "SELECT tenant_id, idempotency_key, key_shape, shard FROM jobs") == [
        (
            redactor.hashed(CANARIES["tenant"]),
            redactor.hashed(CANARIES["key"]),
            "plain",
            redactor.hashed(CANARIES["lock"]),
        )
    ]


def test_text_is_kept_only_where_it_is_asked_for(queue: str, tmp_path: Path) -> None:
    """`--keep-text` keeps tenants and keys, still no payload, and makes no key."""
    path = tmp_path / "a.db"
    capture(queue, path, keep_text=True, read=PATHS)
    content = path.read_bytes()
    kept = {name for name, text in CANARIES.items() if text.encode() in content}
    assert kept == {"tenant", "key", "lock"}
    assert (meta(path)["key_id"], files(tmp_path)) == ("", ["a.db"])


def test_only_the_named_fields_of_a_payload_are_read(queue: str, tmp_path: Path) -> None:
    """Without the paths there is no tenant, and the key is the queueing lock."""
    path = tmp_path / "a.db"
    capture(queue, path, keep_text=True)
    assert look(path, "SELECT tenant_id, idempotency_key FROM jobs") == [
        (None, CANARIES["queueing_lock"])
    ]


@pytest.mark.parametrize(("by", "name"), [("tenant", "tenant"), ("key", "key")])
def test_a_ticket_is_found_by_its_own_words(queue: str, tmp_path: Path, by: str, name: str) -> None:
    """`find` hashes what it is asked for with the key beside the snapshot."""
    path = tmp_path / "a.db"
    capture(queue, path, read=PATHS)
    assert [job.id for job in api.find(str(path), by=by, value=CANARIES[name]).jobs] == ["1"]
    assert api.find(str(path), by=by, value="nobody").jobs == ()


def test_another_key_is_told_from_the_right_one(queue: str, tmp_path: Path) -> None:
    """A wrong or missing key file is said; a name that hashes to nothing would look like "no"."""
    path, wrong = tmp_path / "a.db", tmp_path / "wrong.key"
    capture(queue, path, read=PATHS)
    keep_key(wrong, KEY)
    for given_key, said in (
        (wrong, "found another: get jobplaybook.key"),
        (tmp_path / "no", "found none"),
    ):
        with pytest.raises(InputError, match=said):
            api.find(
                str(path),
                by="tenant",
                value=CANARIES["tenant"],
                how=api.Opening(key_file=given_key),
            )
    assert api.find(str(path), by="job", value="1", how=api.Opening(key_file=wrong)).total == 1
    assert api.find(str(path), by="tenant", value=CANARIES["tenant"]).total == 1


def test_one_folder_has_one_key(queue: str, tmp_path: Path) -> None:
    """Later captures beside the first use its key, so that tenants can be followed."""
    for name in ("a.db", "b.db"):
        capture(queue, tmp_path / name, read=PATHS)
    tenants = [look(tmp_path / name, "SELECT tenant_id FROM jobs") for name in ("a.db", "b.db")]
    assert tenants[0] == tenants[1]
    assert files(tmp_path) == ["a.db", "b.db", KEY_FILE]


def test_a_named_key_file_is_used(queue: str, tmp_path: Path) -> None:
    """`--key-file` names a key elsewhere; none is made beside the snapshot."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "out").mkdir()
    named = tmp_path / "keys" / "team.key"
    api.capture(queue, tmp_path / "out" / "a.db", key_file=named)
    assert files(tmp_path / "out") == ["a.db"]
    assert meta(tmp_path / "out" / "a.db")["key_id"] == Redactor(read_key(named)).key_id
