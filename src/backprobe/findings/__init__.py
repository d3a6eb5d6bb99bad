"""Findings, the reports that contain them, and the phrases that reports share."""
