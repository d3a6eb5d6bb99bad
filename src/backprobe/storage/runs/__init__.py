"""Runs on disk: the files of a watched training, one SQLite file for each rank. Nothing in them is ever executed."""
