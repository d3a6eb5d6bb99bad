"""Math as MathML, made while building: pages need no script, no font and no network to show it."""

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

LOG = logging.getLogger(__name__)
CONVERTER = LatexToMathML(fancy_error=False)


def converted(node, latex, *, displaystyle):
    """The MathML of a formula. One that cannot be converted is a warning, and so an error of `make docs`."""
    try:
        return CONVERTER.convert_with_local_state(latex, displaystyle=displaystyle)
    except LatexError as error:
        LOG.warning("math that cannot be shown: %s in %s", error, latex, location=node, type="mathml")
        return "<code>math</code>"


def inline(writer, node):
    writer.body.append(converted(node, node.astext(), displaystyle=False))
    raise nodes.SkipNode


def block(writer, node):
    latex = node.astext()
    if r"\\" in latex and r"\begin" not in latex:
        latex = rf"\begin{{aligned}}{latex}\end{{aligned}}"  # as Sphinx does for MathJax
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node.get("number"):
        writer.body.append(f'<span class="eqno">({get_node_equation_number(writer, node)})</span>')
    writer.body.append(converted(node, latex, displaystyle=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
