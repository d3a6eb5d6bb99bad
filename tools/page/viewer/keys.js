// The keys, each with what it does: one table, which the help shows and the page obeys.

export const KEYS = [
  ["/", "search the names", (page) => page.focusSearch()],
  ["↑ ↓", "the row above, below", null],
  ["← →", "close, open a module", null],
  ["Enter", "details of the row", (page) => page.showDetails()],
  [",", "the step before this", (page) => page.moveStep(-1)],
  [".", "the step after this", (page) => page.moveStep(1)],
  ["n", "the next alert", (page) => page.nextAlert(1)],
  ["N", "the alert before", (page) => page.nextAlert(-1)],
  ["b", "the next NaN or Inf", (page) => page.nextNonfinite(1)],
  ["B", "the NaN or Inf before", (page) => page.nextNonfinite(-1)],
  ["+", "fewer steps", (page) => page.zoomBy(0.5)],
  ["-", "more steps", (page) => page.zoomBy(2)],
  ["[", "earlier steps", (page) => page.shift(-0.5)],
  ["]", "later steps", (page) => page.shift(0.5)],
  ["z", "all steps", (page) => page.zoom(null, null)],
  ["v", "the next view", (page) => page.nextView()],
  ["e", "open all, or close all", (page) => page.openAll()],
  ["l", "logarithmic scalars", (page) => page.toggleLog()],
  ["f", "follow, or stand still", (page) => page.toggleFollow()],
  ["t", "light or dark", (page) => page.toggleTheme()],
  ["?", "these keys", (page) => page.showKeys()],
  ["Esc", "close what is open", (page) => page.escape()],
];

const ARROWS = {
  ArrowDown: (page) => page.moveRow(1),
  ArrowUp: (page) => page.moveRow(-1),
  PageDown: (page) => page.moveRow(20),
  PageUp: (page) => page.moveRow(-20),
  Home: (page) => page.moveRow(-Infinity),
  End: (page) => page.moveRow(Infinity),
  ArrowRight: (page) => page.turn(true),
  ArrowLeft: (page) => page.turn(false),
  Escape: (page) => page.escape(),
};

const ALWAYS = ["Escape", "t", "?"]; // also while a circuit or a sweep covers the tracks

export function actOn(event, page) {
  // Does what a key says, but where it is for a field that is written in, a list, or the browser.
  const target = event.composedPath()[0]; // also within a circuit
  const within = target.closest?.("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest?.("dialog[open]")) return;
  if (within && event.key !== "Escape") return;
  if (page.isCovered() && !ALWAYS.includes(event.key)) return;
  if (target.closest?.("button, a, summary") && (event.key === "Enter" || event.key === " ")) return;
  const act = ARROWS[event.key] ?? KEYS.find(([key]) => key === event.key)?.[2];
  if (!act) return;
  event.preventDefault();
  act(page);
}
