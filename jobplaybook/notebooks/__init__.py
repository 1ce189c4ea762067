"""Runs a notebook without a browser, and says honestly how that ended.

papermill does the running. Around it: names and types of parameters are checked against the
notebook before anything runs; a run that timed out, lost its kernel or left early is never taken
for a completed one; what is written holds no trace of the machine, and is written whole or not at
all.
"""

from jobplaybook.notebooks.crew import execute_all
from jobplaybook.notebooks.plan import Plan, notebook_path, plan_all, plan_run
from jobplaybook.notebooks.result import NotebookResult, RunResult, notebook_result
from jobplaybook.notebooks.runner import execute
from jobplaybook.notebooks.subject import Subject, subject_of

__all__ = [
    "NotebookResult",
    "Plan",
    "RunResult",
    "Subject",
    "execute",
    "execute_all",
    "notebook_path",
    "notebook_result",
    "plan_all",
    "plan_run",
    "subject_of",
]
