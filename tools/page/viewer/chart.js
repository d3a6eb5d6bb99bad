// Series over steps, on a canvas. The plot's left edge and width are those of the tracks.

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { token } from "./colours.js";
import { grouped, powerOf, rounded } from "./words.js";

const EDGE = 18; // pixels at the right: half a number
const FEW = 30; // bins that have a point each
const FONT = "11px system-ui, sans-serif";
const [TOP, BELOW] = [6, 26]; // pixels above the plot, and below it for the numbers of steps

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
  return { x: middle, first: found.first, least, greatest, marks };
}

export function ticksOf(low, high, most) {
  // Round numbers from one to another: so many at most, apart by 1, 2 or 5 times a power of ten.
  const power = 10 ** Math.floor(Math.log10((high - low) / Math.max(1, most)));
  const apart = [1, 2, 5, 10].map((one) => one * power).find((one) => (high - low) / one <= most);
  if (!(apart > 0)) return [];
  const first = Math.ceil(low / apart);
  return Array.from({ length: Math.max(0, Math.floor(high / apart) - first + 1) }, (_, at) => +((first + at) * apart).toPrecision(12));
}

function decadesOf(low, high, most) {
  const [first, last] = [Math.ceil(low - 1e-9), Math.floor(high + 1e-9)];
  const apart = Math.max(1, Math.ceil((last - first + 1) / Math.max(1, most)));
  return Array.from({ length: Math.max(0, Math.floor((last - first) / apart) + 1) }, (_, at) => first + at * apart);
}

function axisOf(bands, isLog, height) {
  // From which number the plot goes up to which, as powers of ten where it is logarithmic, and the ticks between.
  let [low, high] = [Infinity, -Infinity];
  for (const { least, greatest } of bands) {
    for (const one of least) if (one !== null && one < low) low = one;
    for (const one of greatest) if (one !== null && one > high) high = one;
  }
  if (low > high) [low, high] = isLog ? [1, 10] : [0, 1];
  if (isLog) {
    [low, high] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    if (low === high) high += 1;
    return { low, high, ticks: decadesOf(low, high, height / 16).map((one) => [one, powerOf(10, one)]) };
  }
  const room = (high - low || Math.abs(high) || 1) * (high > low ? 0.06 : 0.5);
  [low, high] = [low - room, high + room];
  return { low, high, ticks: ticksOf(low, high, Math.max(2, height / 24)).map((one) => [one, rounded(one, 3)]) };
}

class Plot {
  // Where numbers lie in the picture.
  constructor({ width, height, side, range, bands, isLog, showsSteps }) {
    Object.assign(this, { range, isLog, left: side, width, top: TOP, height: height - TOP - (showsSteps ? BELOW : TOP) });
    this.axis = axisOf(bands, isLog, this.height);
  }

  x(step) {
    return this.left + ((step - this.range[0]) / (this.range[1] - this.range[0])) * this.width;
  }

  y(number) {
    const { low, high } = this.axis;
    return this.at(((this.isLog ? Math.log10(number) : number) - low) / (high - low));
  }

  at(part) {
    return this.top + (1 - part) * this.height;
  }
}

function paintAxes(pen, plot, showsSteps) {
  const { left, top, width, height, axis, range } = plot;
  const bottom = top + height;
  pen.font = FONT;
  pen.strokeStyle = token("--border");
  pen.fillStyle = token("--faint");
  const line = (x1, y1, x2, y2, dash) => {
    pen.setLineDash(dash);
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
    pen.stroke();
  };
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const [one, words] of axis.ticks) {
    const y = Math.round(plot.at((one - axis.low) / (axis.high - axis.low))) + 0.5;
    line(left, y, left + width, y, [2, 3]);
    line(left - 4, y, left, y, []);
    pen.fillText(words, left - 8, y);
  }
  pen.textAlign = "center";
  pen.textBaseline = "top";
  for (const one of ticksOf(range[0], range[1], width / 70).filter(Number.isInteger)) {
    const x = Math.round(plot.x(one)) + 0.5;
    line(x, top, x, bottom, [2, 3]);
    if (!showsSteps) continue;
    line(x, bottom, x, bottom + 4, []);
    pen.fillText(grouped(one), x, bottom + 8);
  }
  pen.setLineDash([]);
}

function paintBand(pen, plot, { x, least, greatest }, ink, gaps = []) {
  // Both ends of a band, what is between them filled; a gap where no number is finite, or where no step was written.
  const isLine = least === greatest;
  const lines = [greatest, ...(isLine ? [] : [least])];
  pen.strokeStyle = pen.fillStyle = ink;
  pen.lineWidth = isLine ? 1.4 : 1;
  for (let at = 0; at < x.length; at++) {
    const begin = at;
    const isApart = () => at > begin && gaps.some(([from, to]) => x[at - 1] < from && x[at] > to);
    while (at < x.length && greatest[at] !== null && least[at] !== null && !isApart()) at++;
    if (at === begin) continue;
    if (!isLine) {
      pen.globalAlpha = 0.33;
      pen.beginPath();
      for (let one = begin; one < at; one++) pen.lineTo(plot.x(x[one]), plot.y(greatest[one]));
      for (let one = at - 1; one >= begin; one--) pen.lineTo(plot.x(x[one]), plot.y(least[one]));
      pen.fill();
      pen.globalAlpha = 1;
    }
    for (const line of lines) {
      pen.beginPath();
      for (let one = begin; one < at; one++) pen.lineTo(plot.x(x[one]), plot.y(line[one]));
      pen.stroke();
    }
    if (greatest[at] !== null && least[at] !== null) at--; // after a gap it goes on with this one
  }
  lines.forEach((line) => line.forEach((one, at) => {
    const isAlone = one !== null && (line[at - 1] ?? null) === null && (line[at + 1] ?? null) === null;
    if (one === null || (x.length > FEW && !isAlone)) return; // a line of one step would not be seen
    pen.beginPath();
    pen.arc(plot.x(x[at]), plot.y(one), 2.5, 0, 2 * Math.PI);
    pen.fill();
  }));
}

function paintMarks(pen, plot, bands, { step, lines = [] }) {
  const bar = (from, to, colour, least, part) => {
    if (to <= plot.range[0] || from >= plot.range[1]) return;
    const [start, end] = [plot.x(from), plot.x(to)];
    const width = Math.max(least, end - start);
    const left = Math.max(plot.left, Math.round((start + end - width) / 2));
    const right = Math.min(plot.left + plot.width, left + width);
    pen.fillStyle = colour;
    if (right > left) pen.fillRect(left, plot.at(part), right - left, plot.height * part);
  };
  for (const at of lines) bar(at, at + 1, token("--mark-faint"), 1, 1);
  if (step !== null && step !== undefined) bar(step + 0.5, step + 0.5, token("--ink"), 1, 1);
  for (const band of bands) for (const [from, to] of band.marks) bar(from, to, token("--mark"), 3, 0.4);
}

function paint(canvas, plot, given) {
  const { width, height, side, bands, showsSteps } = given;
  const ratio = devicePixelRatio;
  Object.assign(canvas, { width: Math.round((width + side + EDGE) * ratio), height: Math.round(height * ratio) });
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  paintAxes(pen, plot, showsSteps);
  pen.save();
  pen.beginPath();
  pen.rect(plot.left, 0, plot.width, height);
  pen.clip();
  bands.forEach((band, at) => paintBand(pen, plot, band, token(at ? "--other" : "--accent"), given.gaps));
  paintMarks(pen, plot, bands, given);
  pen.restore();
}

export function Chart(given) {
  const { width, height, side, range, bands, isLog, theme, step, lines, gaps, label, hovered = null, onZoom, onStep, onHover } = given;
  const canvas = useRef(null);
  const [drag, setDrag] = useState(null);
  const plot = width < 20 ? null : new Plot(given);
  useLayoutEffect(() => {
    if (plot) paint(canvas.current, plot, given);
  }, [bands, width, height, side, range[0], range[1], isLog, theme, step, lines, gaps]);
  if (!plot) return html`<div class="chart"></div>`;
  const stepAt = (x) => range[0] + (x / width) * (range[1] - range[0]);
  const move = ({ offsetX }) => {
    onHover?.(stepAt(offsetX));
    if (drag) setDrag({ ...drag, to: offsetX });
  };
  const drop = ({ offsetX }) => {
    setDrag(null);
    if (!drag) return;
    if (Math.abs(offsetX - drag.from) > 4) onZoom(...[drag.from, offsetX].sort((a, b) => a - b).map(stepAt));
    else onStep(stepAt(offsetX));
  };
  const leave = () => [setDrag(null), onHover?.(null)];
  const place = { left: `${plot.left}px`, top: `${plot.top}px`, width: `${width}px`, height: `${plot.height}px` };
  const isSeen = hovered !== null && hovered >= range[0] && hovered <= range[1];
  return html`<div class="chart" role="img" aria-label=${label} style=${{ width: `${width + side + EDGE}px`, height: `${height}px` }}>
    <canvas ref=${canvas} style=${{ width: "100%", height: "100%" }}></canvas>
    <div class="plot" style=${place} onpointermove=${move} onpointerleave=${leave} onpointerup=${drop}
      onpointerdown=${(event) => event.button === 0 && setDrag({ from: event.offsetX, to: event.offsetX })}>
      ${isSeen ? html`<div class="at" style=${{ left: `${plot.x(hovered) - plot.left}px` }}></div>` : null}
      ${drag && Math.abs(drag.to - drag.from) > 4 ? html`<div class="span" style=${{ left: `${Math.min(drag.from, drag.to)}px`, width: `${Math.abs(drag.to - drag.from)}px` }}></div>` : null}
    </div></div>`;
}
