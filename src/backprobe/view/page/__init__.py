"""The files of the page as browsers read them. ``make page`` builds them from ``tools/page``."""
