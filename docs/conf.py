"""How the documentation is built: `make docs`. Nothing is fetched, neither by the build nor by the pages."""

import hashlib
import sys
from pathlib import Path

import backprobe

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

project = "backprobe"
release = version = backprobe.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "decisions", "kernels", "mathml", "public"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]

# Pages are MyST; code cells in them are run, and one that raises stops the build.
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3  # so that pages may link to headings
nb_execution_raise_on_error = True
nb_execution_excludepatterns = ["lessons/*"]  # shown as they are stored; tests/test_lessons.py runs them
nb_execution_show_tb = True
nb_execution_in_temp = True  # pages may save files
nb_execution_timeout = 300  # seconds for a cell: the default of 30 is short for importing a framework in CI
nb_merge_streams = True  # what a cell prints is one block
nb_output_stderr = "remove"  # what C libraries have to say about the machine
nb_render_markdown_format = "myst"  # Markdown that a cell makes is as Markdown of the page
nb_ipywidgets_js = {}  # would be fetched from elsewhere

# Cells are not run again while neither their page nor the library has changed. The cache knows the text of the page
# only, so its folder is named after the text of the library.
library = hashlib.sha256()
for file in sorted(Path(backprobe.__file__).parent.rglob("*")):
    if file.suffix in (".py", ".css"):
        library.update(file.read_bytes())
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS / "_build" / f"cells-{library.hexdigest()[:12]}")

# Math becomes MathML while building, which browsers show by themselves: no script and no font comes with it.
html_math_renderer = "mathml"
myst_update_mathjax = False

autodoc_member_order = "bysource"  # the order in which the library introduces things
autodoc_preserve_defaults = True  # as they are written
python_maximum_signature_line_length = 100  # beyond, a line for each parameter
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# Every reference must lead somewhere, except to types of other projects: their documentation would have to be fetched.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(collections\.abc|concurrent\.futures|contextlib|enum|os|typing)\..*"),
    ("py:class", r"P|backprobe\.record\.typed\.\w|backprobe\.probe\.waiting\.Waiting"),  # see docs/types.md
]
nitpick_ignore = [
    ("py:class", "backprobe.record.entries.Record"),  # for what is built on recordings; its docstring says enough
    ("py:class", "backprobe.probe.block.BlockRun"),
    ("py:class", "backprobe.record.reasons.Reason"),
    ("py:class", "backprobe.record.nonfinite.LocalDerivative"),  # which reports say in words
    ("py:class", "backprobe.findings.known.Known"),  # by which a report chooses among its findings
    ("py:class", "backprobe.source.edits.Edit"),  # which --patch writes; Finding.tried says in words what was tried
    ("py:class", "backprobe.record.entries.Gradient"),  # which ``grads`` and ``statuses`` are read through
    ("py:class", "Path"),  # of pathlib
    ("py:class", "ComparedRows"),  # the rows of a report on two trainings
    ("py:class", "backprobe.diff.measure.Measure"),  # what the report and its divergences are read through
    ("py:class", "backprobe.diff.pairs.Row"),
    ("py:class", "backprobe.diff.floor.Measured"),
    ("py:class", "backprobe.show.drawable.Drawable"),  # what draw shows of a report
    ("py:class", "backprobe.show.drawable.HasDrawable"),
    ("py:class", "backprobe.sweep.result.Replaced"),  # what a run of a sweep says
    ("py:class", "backprobe.backends.memory.Saved"),  # what ``by`` and ``lines`` of a report on memory are made from
    ("py:class", "backprobe.per_sample.wanted.Wanted"),
    ("py:class", "backprobe.watch.sinks.Sink"),  # of backprobe.integrations
]

html_theme = "furo"
pygments_dark_style = "github-dark"  # the default underlines imported names as if they were links
html_title = "backprobe"
html_static_path = ["_static"]
html_css_files = ["backprobe.css"]
html_show_copyright = False
html_copy_source = False
html_show_sphinx = False
