"""Runs on disk: what a watched training wrote, one SQLite file for each rank. Nothing in them is ever executed."""
