"""The files of the page, as browsers read them: ``make page`` makes them of the sources in ``tools/page``."""
