"""Findings, reports, and the phrases that they share."""
