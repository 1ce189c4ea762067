"""Snapshots: captured from a live queue, written whole, opened with distrust."""
