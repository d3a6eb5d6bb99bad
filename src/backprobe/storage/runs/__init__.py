"""Runs on disk: what a watched training left, one SQLite file for each rank; nothing in them is ever run."""
