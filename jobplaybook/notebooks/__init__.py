"""Runs a notebook without a browser, and says honestly how that ended.

papermill does the running. Around it: names and types of parameters are checked against the
notebook before anything runs (`plan`); a run that timed out, lost its kernel or left early is never
taken for a completed one (`kernel`, `crew`); what is written holds no trace of the machine, and is
written whole or not at all (`runner`).
"""
