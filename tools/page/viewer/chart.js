// Series over steps, by uPlot: the one file that knows it. The plot's left edge and width are those of the tracks.

import { html, useLayoutEffect, useRef } from "../vendor/preact.js";
import { token } from "./colours.js";
import { grouped, powerOf, rounded } from "./words.js";

const EDGE = 18; // pixels at the right: half a number
const FEW = 30; // bins that have a point each
const FONT = "11px system-ui, sans-serif";

export function bandOf(found) {
  // The ends of each bin's band at its middle, and the bins with NaN or Inf.
  const size = found.first.length;
  const middle = Float64Array.from({ length: size }, (_, at) => (found.first[at] + found.last[at] + 1) / 2);
  const finite = (plane) => Array.from({ length: size }, (_, at) => (Number.isFinite(plane[at]) ? plane[at] : null));
  const greatest = finite(found.greatest);
  const least = found.least ? finite(found.least) : greatest;
  const marks = [];
  for (const key of Object.keys(found)) {
    if (!key.startsWith("nonfinite ")) continue;
    found[key].forEach((count, at) => count && marks.push([found.first[at], found.last[at] + 1]));
  }
  return { x: middle, least, greatest, marks };
}

function axis(more) {
  const line = { stroke: token("--border"), width: 1 };
  return { stroke: token("--faint"), font: FONT, grid: { ...line, dash: [2, 3] }, ticks: { ...line, size: 4 }, gap: 4, ...more };
}

function logAxis(size) {
  const decades = (_, at) => at.map((one) => (one > 0 && Number.isInteger(Math.round(Math.log10(one) * 1e6) / 1e6) ? one : null));
  const made = axis({ size, space: 16, filter: decades, values: (_, at) => at.map((one) => (one === null ? "" : powerOf(10, Math.round(Math.log10(one))))) });
  Object.assign(made.grid, { filter: decades });
  Object.assign(made.ticks, { filter: decades });
  return made;
}

function marked(plot, bands, { step, lines = [] }) {
  const { ctx } = plot;
  const { top, height } = plot.bbox;
  const ratio = devicePixelRatio;
  const bar = (from, to, colour, least, part) => {
    const start = plot.valToPos(from, "x", true);
    const width = Math.max(least * ratio, plot.valToPos(to, "x", true) - start);
    const left = Math.max(plot.bbox.left, Math.round(start + (plot.valToPos(to, "x", true) - start) / 2 - width / 2));
    const right = Math.min(plot.bbox.left + plot.bbox.width, left + width);
    if (right <= left) return;
    ctx.fillStyle = colour;
    ctx.fillRect(left, top + height * (1 - part), right - left, height * part);
  };
  for (const at of lines) bar(at, at + 1, token("--mark-faint"), 1, 1);
  if (step !== null && step !== undefined) bar(step + 0.5, step + 0.5, token("--ink"), 1, 1);
  for (const band of bands) for (const [from, to] of band.marks) bar(from, to, token("--mark"), 3, 0.4);
}

function optionsOf({ width, height, side, range, bands, isLog, showsSteps, step, lines }) {
  const inks = [token("--accent"), token("--other")];
  const smooth = bands.map((band) => band.least === band.greatest);
  return {
    width: width + side + EDGE,
    height,
    padding: [6, EDGE, showsSteps ? 0 : 6, 0],
    legend: { show: false },
    cursor: { x: true, y: false, points: { show: false }, drag: { x: true, y: false, setScale: false }, sync: { key: "steps", setSeries: false } },
    scales: { x: { time: false, range: () => range }, y: isLog ? { distr: 3 } : {} },
    axes: [
      axis({ show: showsSteps, size: 26, space: 70, values: (_, at) => at.map((one) => (Number.isInteger(one) ? grouped(one) : "")) }),
      isLog ? logAxis(side) : axis({ size: side, space: 24, values: (_, at) => at.map((one) => rounded(one, 3)) }),
    ],
    series: [{}, ...bands.flatMap((_, at) => {
      const points = { show: bands[at].x.length <= FEW, size: 5, fill: inks[at] }; // a line of one step would not be seen
      const line = { stroke: inks[at], width: smooth[at] ? 1.4 : 1, spanGaps: false, points };
      return [line, line];
    })],
    bands: bands.map((_, at) => ({ series: [2 + 2 * at, 1 + 2 * at], fill: `${inks[at]}55` })),
    hooks: { draw: [(plot) => marked(plot, bands, { step, lines })] },
  };
}

export function Chart(given) {
  const { width, height, side, range, bands, isLog, theme, step, lines, label, onZoom, onStep, onHover } = given;
  const box = useRef(null);
  const told = useRef(null);
  told.current = { onZoom, onStep, onHover };
  useLayoutEffect(() => {
    if (width < 20) return undefined;
    const tables = bands.map((band) => [band.x, band.least, band.greatest]);
    const data = tables.length ? uPlot.join(tables) : [[], ...[[], []]];
    const options = optionsOf(given);
    options.hooks.setSelect = [(plot) => {
      const { left, width: wide } = plot.select;
      if (wide > 4) told.current.onZoom(plot.posToVal(left, "x"), plot.posToVal(left + wide, "x"));
      plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    }];
    options.hooks.setCursor = [(plot) => plot.cursor.left >= 0 && told.current.onHover?.(plot.posToVal(plot.cursor.left, "x"))];
    const plot = new uPlot(options, data, box.current);
    plot.over.addEventListener("click", (event) => {
      const left = event.clientX - plot.over.getBoundingClientRect().left;
      told.current.onStep(plot.posToVal(left, "x"));
    });
    return () => plot.destroy();
  }, [bands, width, height, side, range[0], range[1], isLog, theme, step, lines]);
  return html`<div ref=${box} class="chart" role="img" aria-label=${label}></div>`;
}
