"""Recordings, failing steps, and the runs of watched trainings on disk."""
