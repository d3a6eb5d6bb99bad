// What is around the diagram: the heading, the search, the panel for details, and what stands below.

import { drawn, element } from "./elements.js";

const TREE = "Values in the order of execution, in the boxes of modules and functions";

export function frameOf({ heading, footer, boxes }, isInner) {
  const button = (id, text) => element("button", { id, type: "button" }, text);
  const input = element("input", {
    id: "search",
    type: "search",
    role: "combobox",
    "aria-label": "Search values by name",
    "aria-expanded": "false",
    "aria-controls": "found",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "Search  /",
  });
  const found = element("ul", { id: "found", role: "listbox", "aria-label": "Values found", hidden: true });
  const tree = element("div", { id: "tree", role: "tree", "aria-label": TREE });
  const canvas = element("div", { class: "canvas" }, drawn("svg", { id: "edges", "aria-hidden": "true" }), tree);
  return element(
    "div",
    { class: isInner ? "whole inner" : "whole" },
    element(
      "header",
      {},
      element("h1", { id: "heading" }, heading),
      element("div", { class: "search" }, input, found),
      element(
        "div",
        { class: "buttons", hidden: !boxes.length },
        button("open-all", "Open all"),
        button("close-all", "Close all"),
      ),
    ),
    element(
      "main",
      {},
      element("div", { id: "diagram" }, canvas),
      element("aside", { id: "details", "aria-label": "Details", tabindex: "-1", hidden: true }),
    ),
    element("footer", { id: "footer" }, footer.map((line) => element("p", {}, line))),
    element("p", { id: "status", role: "status", class: "unseen" }),
  );
}
