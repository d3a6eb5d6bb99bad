"""Cells run in a kernel of their own, as a notebook is."""

import nbformat
from nbclient import NotebookClient


def executed(*sources, **settings):
    """What each cell prints."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(book, timeout=120, **settings).execute()
    return ["".join(part.text for part in cell.outputs if part.get("name") == "stdout") for cell in book.cells]
