"""The directive `decisions`: a list of all design notes, which have no place in the sidebar."""

from pathlib import Path

from sphinx.util.docutils import SphinxDirective

FOLDER = "design/"


def is_note(name):
    return name.startswith(FOLDER) and name != f"{FOLDER}index"


class Decisions(SphinxDirective):
    """A link to each note, by its number and title."""

    def run(self):
        notes = [Path(name).name for name in sorted(self.env.found_docs) if is_note(name)]
        return self.parse_text_to_nodes("\n".join(f"- {note[:3]} {{doc}}`{note}`" for note in notes))


def leave_out_of_the_sidebar(app, doctree):
    """The sidebar shows the pages that a table of contents lists; this says that a note is in none on purpose."""
    if is_note(app.env.docname):
        app.env.metadata[app.env.docname]["orphan"] = True


def setup(app):
    app.add_directive("decisions", Decisions)
    app.connect("doctree-read", leave_out_of_the_sidebar)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
