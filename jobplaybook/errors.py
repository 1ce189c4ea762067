"""The errors a user can meet: one tree, each with the exit code of the command line.

A message says what was expected, what was found and what to do, in one line; it never holds a
password, a payload or a row's values.

::

    JobPlaybookError
    ├── InputError       2  a value, option, variable or file that cannot be used
    │   └── SchemaError  2  a table, column or snapshot that is not what it should be
    ├── UnsafeAction     3  refused by a guard
    └── SourceError      4  unreachable, login refused, locked or out of time
"""

from __future__ import annotations

from typing import ClassVar


class JobPlaybookError(Exception):
    """Base of every error that jobplaybook raises on purpose."""

    exit_code: ClassVar[int] = 2


class InputError(JobPlaybookError):
    """A value, option, environment variable or file cannot be used as it stands."""


class SchemaError(InputError):
    """A table, a column or a snapshot file is not what it should be."""


class UnsafeAction(JobPlaybookError):
    """A guard refused: going on could do harm."""

    exit_code: ClassVar[int] = 3


class SourceError(JobPlaybookError):
    """The source cannot be reached, refused the login, is locked or ran out of time."""

    exit_code: ClassVar[int] = 4
