"""The text of a drawn SVG, node by node."""

import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}"


class Drawn:
    """The texts of nodes by title, of edges by their ends, of frames, and of the whole."""

    def __init__(self, svg: str) -> None:
        self.root = ElementTree.fromstring(svg)
        groups = [group for group in self.root.iter(f"{SVG}g") if group.get("class")]
        texts = {id(group): [text.text or "" for text in group.iter(f"{SVG}text")] for group in groups}
        self.groups = {
            name: [g for g in groups if g.get("class").split()[0] == name] for name in ("node", "edge", "cluster")
        }
        keys = {group.find(f"{SVG}title").text: texts[id(group)] for group in self.groups["node"]}
        self.nodes = {lines[0]: lines[1:] for lines in keys.values()}
        self.classes = {texts[id(g)][0]: set(g.get("class").split()) for g in self.groups["node"]}
        self.edges = {}
        for group in self.groups["edge"]:
            source, target = group.find(f"{SVG}title").text.split("->")
            self.edges[keys[source][0], keys[target][0]] = " ".join(texts[id(group)])
        self.frames = [texts[id(group)][0] for group in self.groups["cluster"]]
        self.text = [text.text or "" for text in self.root.iter(f"{SVG}text")]
        self.tooltips = [a.get(f"{XLINK}title") for a in self.root.iter(f"{SVG}a")]
