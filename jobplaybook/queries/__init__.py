"""Questions to the canonical tables, as SELECTs: no connection, no clock, both databases.

Times go in and come out as integer microseconds UTC.
"""
