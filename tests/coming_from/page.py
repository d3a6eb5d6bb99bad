"""Makes docs/coming-from.md of the pairs of this folder: ``python tests/coming_from/page.py`` writes the page."""

import ast
from pathlib import Path
from textwrap import fill

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "coming-from.md"
TOOLS = ("hooks", "anomaly", "torchlens", "nnsight", "transformerlens", "captum", "backpack", "dashboards")
INTRODUCTION = """# Coming from another tool

The same question in the lines of another tool and in ours. Both are run, in an environment that has the tool, and give
the same numbers: `make test-coming-from`. `model` has the layers `first` and `second` and a variable `hidden` between
them, `x` is a batch of five, and `folder` is an empty one. [Which tool when](tools.md) says what each is better at.
"""
COUNTS = "Everyday uses, by tool: {}. Anomaly mode does one thing, so it has few; TensorBoard and wandb share theirs."
NAMES = """## Names

What the same places are called in two decoders of Hugging Face: paths of modules, which the other tools have too, and
behind a colon the variables of their `forward`. `bp.names(model)` lists them. A `TransformerBridge` has the names of
TransformerLens for all models; a recording of the bridge itself has those that are modules, as `blocks.0.mlp.hook_out`.

| | GPT-2 | Llama | TransformerLens, of both |
|---|---|---|---|
| what block 0 returns | `transformer.h.0` | `model.layers.0` | `blocks.0.hook_resid_post` |
| attention | `transformer.h.0.attn` | `model.layers.0.self_attn` | `blocks.0.hook_attn_out` |
| queries | `transformer.h.0.attn:query_states#1` | `model.layers.0.self_attn:query_states#1` | `blocks.0.attn.hook_q` |
| feed-forward part | `transformer.h.0.mlp` | `model.layers.0.mlp` | `blocks.0.hook_mlp_out` |
| embedding of tokens | `transformer.wte` | `model.embed_tokens` | `hook_embed` |
| logits | `lm_head` | `lm_head` | `unembed.hook_out` |
"""


def page() -> str:
    """A section for each tool, with its pairs."""
    found = [*map(section, TOOLS)]
    counts = COUNTS.format("; ".join(f"{title} {len(pairs)}" for title, pairs in found))
    sections = ["\n".join([f"## {title}", "", *pairs]) for title, pairs in found]
    return "\n".join([INTRODUCTION, fill(counts, 120) + "\n", *sections, NAMES])


def section(tool: str) -> tuple[str, list[str]]:
    """The title and the pairs of a tool, whose file is read and not run: the tool may be absent."""
    tree = ast.parse((HERE / f"with_{tool}.py").read_text())
    known = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = text(node.value, known)
        elif isinstance(node, ast.Assign):
            known |= dict(zip([one.id for one in node.targets[0].elts], [one.value for one in node.value.elts]))
    return known["TITLE"], known["PAIRS"]


def text(node: ast.expr, known: dict) -> str | list[str]:
    """A text as it is written, of parts of others; a list of pairs as their sections."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return known[node.id]
        case ast.BinOp():
            return text(node.left, known) + text(node.right, known)
        case ast.Call(func=ast.Attribute(value=whole, attr="format"), args=args):
            return text(whole, known).format(*[text(one, known) for one in args])
        case ast.List():
            return [pair(*[text(one, known) for one in each.args]) for each in node.elts]
    raise ValueError(ast.unparse(node))


def pair(asked: str, theirs: str, ours: str, said: str = "") -> str:
    """One question."""
    lines = f"**{asked[0].upper()}{asked[1:]}**", "```python", theirs.strip(), "```", "With backprobe:"
    after = [f"{said[0].upper()}{said[1:]}.", ""] if said else []
    return "\n".join([lines[0], "", *lines[1:4], "", lines[4], "", "```python", ours.strip(), "```", "", *after])


if __name__ == "__main__":
    PAGE.write_text(page())
