// A line across boxes that are alike, or the turns of a loop: how large the gradient of what each returns is, or of a
// comparison its greatest error; and a mark, at least three pixels wide, where something in one is not finite.

import { drawn, element, rounded } from "./elements.js";

const [WIDTH, HEIGHT, EDGE] = [190, 34, 3];

export function weightsOf({ boxes, values, insideOf, kind }, alike) {
  return alike.map(({ kind: what, id }) => {
    const own = what === "box" ? insideOf(id) : [values.get(id)];
    const returned = values.get(what === "box" ? boxes[id].returned[0] : id);
    const found = kind !== "circuit" || !returned ? own : [returned];
    const known = found.map((value) => Number(value.weight ?? NaN)).filter((one) => !Number.isNaN(one));
    return { weight: known.length ? Math.max(...known) : NaN, isBad: own.some((value) => value.health === "nonfinite") };
  });
}

export function sparkline(recording, alike) {
  const weights = weightsOf(recording, alike);
  const sizes = weights.map(({ weight }) => weight).filter((one) => Number.isFinite(one) && one > 0);
  if (!sizes.length && !weights.some(({ isBad }) => isBad)) return [];
  const [low, high] = [Math.log10(Math.min(...sizes)), Math.log10(Math.max(...sizes))];
  const x = (at) => ((at + 0.5) / alike.length) * WIDTH;
  const y = (weight) => (high > low ? HEIGHT - EDGE - ((Math.log10(weight) - low) / (high - low)) * (HEIGHT - 2 * EDGE) : HEIGHT / 2);
  const shapes = [];
  let path = "";
  weights.forEach(({ weight, isBad }, at) => {
    if (isBad) shapes.push(drawn("rect", { x: Math.min(WIDTH - 3, Math.max(0, x(at) - 1.5)), y: 0, width: 3, height: HEIGHT }));
    if (!Number.isFinite(weight) || weight <= 0) return (path += " ");
    path += `${path === "" || path.endsWith(" ") ? "M" : "L"}${x(at).toFixed(1)},${y(weight).toFixed(1)}`;
    const isAlone = [at - 1, at + 1].every((one) => !(weights[one]?.weight > 0 && Number.isFinite(weights[one].weight)));
    if (isAlone) shapes.push(drawn("rect", { class: "dot", x: x(at) - 1.5, y: y(weight) - 1.5, width: 3, height: 3 }));
    return undefined;
  });
  const ends = sizes.length ? `${recording.weighs} ${rounded(Math.min(...sizes))} to ${rounded(Math.max(...sizes))}` : "";
  const spoken = [`across ${alike.length}`, ends].filter(Boolean).join(", ");
  return [
    drawn("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": spoken }, drawn("path", { d: path }), shapes),
    ends ? element("span", { class: "ends" }, ends) : null,
  ];
}
