// The tracks: the tree of modules as the y axis, and beside each row a cell for each bin of steps.
// Marks of NaN and Inf are painted last and are never narrower than three pixels: nothing hides one.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { colourTable, levelOf, packedColour, token } from "./colours.js";
import { grouped, plural, rounded, stepsOf } from "./words.js";

export const ROW = 18;
const LEAST_MARK = 3; // pixels
const OFTEN = 80; // milliseconds between two questions while rows are scrolled

export function valuesOf(grid, other, mode, row) {
  if (mode === "linear") return grid.strongest(row);
  if (mode === "change") return grid.changes(row);
  if (mode === "ratio") return other ? grid.ratios(row, other) : new Float32Array(grid.count).fill(NaN);
  return grid.row(row)[mode];
}

function partOf(value, { mode, isSigned, ends, largest }) {
  // Where a value is on the scale of colours, from 0 to 1.
  if (mode === "linear") return 0.5 + value / (2 * largest);
  if (mode === "change" || mode === "ratio") return 0.5 + value / 4;
  const [low, high] = ends;
  if (isSigned) {
    const size = Math.max(0, Math.min(1, (Math.log10(Math.abs(value)) - low) / (high - low)));
    return 0.5 + (value < 0 ? -0.5 : 0.5) * size;
  }
  return (Math.log10(Math.abs(value)) - low) / (high - low);
}

function columnsOf(grid, range, width) {
  // For each pixel from left to right the bins in it: from which, and up to which.
  const [from, to] = [new Int32Array(width).fill(-1), new Int32Array(width).fill(-1)];
  const at = (step) => ((step - range[0]) / (range[1] - range[0])) * width;
  for (let bin = 0; bin < grid.count; bin++) {
    const next = bin + 1 < grid.count ? grid.first[bin + 1] : Infinity;
    const end = Math.min(next, grid.last[bin] + grid.stride);
    const first = Math.max(0, Math.floor(at(grid.first[bin]) + 0.001));
    const last = Math.min(width, Math.max(first + 1, Math.ceil(at(end) - 0.001)));
    for (let x = first; x < last; x++) {
      if (from[x] < 0) from[x] = bin;
      to[x] = bin;
    }
  }
  return { from, to };
}

function paintRow(pixels, start, width, columns, values, look, table, zero) {
  for (let x = 0; x < width; x++) {
    if (columns.from[x] < 0) continue;
    let found = NaN;
    for (let bin = columns.from[x]; bin <= columns.to[x]; bin++) {
      const value = values[bin];
      if (Number.isNaN(value)) continue;
      const wins = look.mode === "least" ? value < found : Math.abs(value) > Math.abs(found);
      if (Number.isNaN(found) || wins) found = value;
    }
    if (Number.isNaN(found)) continue;
    const isZero = found === 0 && look.mode !== "change" && look.mode !== "ratio";
    pixels[start + x] = isZero ? zero : table[levelOf(partOf(found, look))];
  }
}

function marksOf(grid, row, kind) {
  // The bins of a row in which something is not finite; whether that is what the field is about.
  const { nonfinite } = grid.row(row);
  const found = new Map();
  for (const [one, counts] of Object.entries(nonfinite)) {
    counts.forEach((count, bin) => count && found.set(bin, found.get(bin) || one === kind));
  }
  return found;
}

let lastSheet = { wide: 0, high: 0 };

function sheetOf(wide, high) {
  // A picture of one pixel's height for each row: the one of the last time, where it is as large.
  if (lastSheet.wide !== wide || lastSheet.high !== high) {
    const image = new ImageData(wide, high);
    const sheet = new OffscreenCanvas(wide, high).getContext("2d");
    lastSheet = { wide, high, image, sheet, pixels: new Uint32Array(image.data.buffer) };
  }
  return lastSheet;
}

function paint(canvas, { grid, other, rows, first, offset, width, height, range, look, theme, chosenStep, hovered }) {
  const ratio = devicePixelRatio;
  const wide = Math.max(1, Math.round(width * ratio));
  const high = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.fillStyle = token("--paper");
  pen.fillRect(0, 0, wide, high);
  if (!grid || !rows.length || width < 2) return;
  const columns = columnsOf(grid, range, wide);
  const signed = look.isSigned || look.mode === "change" || look.mode === "ratio";
  const table = colourTable(look.scale, signed, theme);
  const [zero, absent] = [packedColour("--zero"), packedColour("--absent")];
  const { image, pixels, sheet } = sheetOf(wide, rows.length);
  if (grid.isBars) pixels.fill(packedColour("--paper"));
  else rows.forEach((row, y) => {
    pixels.fill(absent, y * wide, (y + 1) * wide);
    if (row.stands.length) paintRow(pixels, y * wide, wide, columns, valuesOf(grid, other, look.mode, row), look, table, zero);
    else pixels.fill(packedColour("--paper"), y * wide, (y + 1) * wide);
  });
  sheet.putImageData(image, 0, 0);
  const top = (y) => Math.round((offset + y * ROW) * ratio);
  for (let y = 0; y < rows.length; y++) pen.drawImage(sheet.canvas, 0, y, wide, 1, 0, top(y), wide, top(y + 1) - top(y) - Math.round(ratio));
  const at = (step) => ((step - range[0]) / (range[1] - range[0])) * wide;
  if (grid.isBars) rows.forEach((row, y) => paintBar(pen, grid, row, table, look, top(y), top(y + 1), ratio, wide));
  pen.fillStyle = token("--ink");
  if (hovered !== null && !grid.isBars) {
    pen.globalAlpha = 0.45;
    pen.fillRect(Math.round(at(hovered)), 0, ratio, high);
    pen.globalAlpha = 1;
  }
  if (chosenStep !== null) pen.fillRect(Math.round(at(chosenStep + 0.5) - ratio / 2), 0, ratio, high);
  const kind = grid.field.split(".")[0];
  for (const one of [grid, other]) {
    if (one && (one === grid || look.mode === "ratio")) rows.forEach((row, y) => paintMarks(pen, one, marksOf(one, row, kind), at, top(y), top(y + 1), ratio, wide));
  }
}

const ROOM = 70; // pixels at the right, for the number

function paintBar(pen, grid, row, table, look, top, bottom, ratio, wide) {
  // One number as a bar from the middle, with it at the right; and a ring where it was predicted.
  const [value] = grid.strongest(row);
  const middle = (wide - ROOM * ratio) / 2;
  const x = (number) => middle + (number / grid.reach) * (middle - 6 * ratio);
  const [y, height] = [top + 3 * ratio, bottom - top - 7 * ratio];
  pen.fillStyle = token("--border");
  pen.fillRect(Math.round(middle), top, ratio, bottom - top);
  if (!Number.isFinite(value)) return;
  const [low, high] = [Math.min(middle, x(value)), Math.max(middle, x(value))];
  const colour = table[levelOf(partOf(Math.sign(value) * grid.largest * 0.8, look))];
  pen.fillStyle = value === 0 ? token("--zero") : `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
  pen.fillRect(low, y, Math.max(ratio, high - low), height);
  pen.fillStyle = token("--ink");
  pen.font = `${11 * ratio}px system-ui, sans-serif`;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  pen.fillText(rounded(value, 3), wide - 6 * ratio, y + height / 2);
  const predicted = grid.predicted && row.stands.length === 1 ? grid.predicted[grid.placesOf(row)[0]] : NaN;
  if (!Number.isFinite(predicted)) return;
  pen.strokeStyle = token("--ink");
  pen.lineWidth = 1.5 * ratio;
  pen.beginPath();
  pen.arc(x(predicted), y + height / 2, 3.5 * ratio, 0, 2 * Math.PI);
  pen.stroke();
}

function paintMarks(pen, grid, marks, at, top, bottom, ratio, wide) {
  const height = bottom - top - Math.round(ratio);
  for (const pass of [0, 1]) {
    for (const [bin, isOwn] of marks) {
      const [start, end] = [at(grid.first[bin]), at(Math.min(grid.last[bin] + grid.stride, grid.first[bin + 1] ?? Infinity))];
      const width = Math.max(LEAST_MARK * ratio, Math.round(end) - Math.round(start));
      const left = Math.round((Math.round(start) + Math.round(end) - width) / 2);
      if (left + width <= 0 || left >= wide) continue;
      const x = Math.max(0, Math.min(wide - LEAST_MARK * ratio, left)); // whole at the ends of the steps, too
      const tall = isOwn ? height : Math.ceil(height / 2);
      pen.fillStyle = token(pass ? "--mark" : "--paper");
      if (pass) pen.fillRect(x, top + height - tall, width, tall);
      else pen.fillRect(x - ratio, top + height - tall, width + 2 * ratio, tall);
    }
  }
}

export function describe(grid, other, mode, row, bin) {
  // A cell in words: which steps, what is shown, and in how many of them what was not finite.
  const { least, greatest, nonfinite } = grid.row(row);
  const steps = grid.last[bin] - grid.first[bin];
  const words = [];
  if (Number.isNaN(greatest[bin])) words.push("no numbers");
  else if (least[bin] === greatest[bin]) words.push(`${grid.field} ${rounded(greatest[bin])}`);
  else words.push(`${grid.field} ${rounded(least[bin])} to ${rounded(greatest[bin])}`);
  if (mode === "change" || (mode === "ratio" && other)) {
    const value = valuesOf(grid, other, mode, row)[bin];
    if (!Number.isNaN(value)) words.push(`${mode === "change" ? "× its median" : "× the other run"}: ${rounded(10 ** value, 3)}`);
  }
  for (const [kind, counts] of Object.entries(nonfinite)) {
    if (counts[bin]) words.push(`NaN or Inf in ${kind}${steps ? ` in ${plural(counts[bin], "step")}` : ""}`);
  }
  return { steps: stepsOf(grid.first[bin], grid.last[bin]), words };
}

export function Tracks(given) {
  const { rows, grid, other, look, chosen, range, side, width, theme, hovered, onPick, onStep, onToggle, onZoom, onHover, onSeen } = given;
  const box = useRef(null);
  const canvas = useRef(null);
  const [seen, setSeen] = useState({ top: 0, height: 400 });
  const [tip, setTip] = useState(null);
  const [drag, setDrag] = useState(null);
  const told = useRef(0);
  useLayoutEffect(() => {
    let waits = 0;
    const observe = () => {
      waits ||= requestAnimationFrame(() => {
        waits = 0;
        if (box.current) setSeen({ top: box.current.scrollTop, height: box.current.clientHeight });
      });
    };
    const sizes = new ResizeObserver(observe);
    sizes.observe(box.current);
    box.current.addEventListener("scroll", observe, { passive: true });
    setSeen({ top: box.current.scrollTop, height: box.current.clientHeight });
    return () => sizes.disconnect();
  }, []);
  const first = Math.max(0, Math.min(rows.length - 1, Math.floor(seen.top / ROW)));
  const shown = useMemo(() => rows.slice(first, first + Math.ceil(seen.height / ROW) + 1), [rows, first, seen.height]);
  useEffect(() => {
    const tell = () => {
      told.current = performance.now();
      onSeen(shown);
    };
    const later = setTimeout(tell, told.current + OFTEN - performance.now()); // and not at each pixel that is scrolled
    return () => clearTimeout(later);
  }, [shown]);
  const place = rows.findIndex((row) => row.key === chosen.name);
  useLayoutEffect(() => {
    if (place < 0) return;
    const [top, { scrollTop, clientHeight }] = [place * ROW, box.current];
    if (top < scrollTop || top + ROW > scrollTop + clientHeight) box.current.scrollTop = Math.max(0, top - clientHeight / 3);
  }, [place, chosen.name, chosen.step, seen.height]);
  useLayoutEffect(() => {
    const offset = first * ROW - seen.top;
    paint(canvas.current, { grid, other, rows: shown, first, offset, width, height: seen.height, range, look, theme, chosenStep: chosen.step, hovered });
  }, [grid, other, shown, seen, width, range[0], range[1], look, theme, chosen.step, hovered]);
  const stepAt = (x) => range[0] + (x / width) * (range[1] - range[0]);
  const cellAt = (event) => {
    const row = rows[Math.floor((event.offsetY + seen.top) / ROW)];
    const step = stepAt(event.offsetX);
    return { row, step, bin: grid ? grid.binAt(step) : -1 };
  };
  const move = (event) => {
    const { row, step, bin } = cellAt(event);
    onHover(step);
    if (drag) setDrag({ ...drag, to: event.offsetX });
    setTip(row && bin >= 0 && row.stands.length ? { x: event.clientX, y: event.clientY, row, ...(grid.describe ? grid.describe(row, bin) : describe(grid, other, look.mode, row, bin)) } : null);
  };
  const drop = (event) => {
    const began = drag;
    setDrag(null);
    if (began && Math.abs(event.offsetX - began.from) > 4) {
      onZoom(...[began.from, event.offsetX].sort((a, b) => a - b).map(stepAt));
      return;
    }
    const { row, step, bin } = cellAt(event);
    if (row && bin >= 0) onPick(row.key, Math.max(grid.first[bin], Math.min(grid.last[bin], Math.floor(step))));
  };
  const leave = () => [setTip(null), setDrag(null), onHover(null)];
  const about = grid ? `${grid.field}, ${plural(rows.length, "row")}` : "";
  const high = Math.min(seen.height, rows.length * ROW || seen.height);
  return html`<div id="tracks" ref=${box}>
    <div class="all" style=${{ height: `${rows.length * ROW}px` }}>
      <canvas ref=${canvas} role="img" aria-label=${`The tracks: ${about}. The tree has their names, and a click shows numbers.`}
        style=${{ marginLeft: `${side}px`, width: `${width}px`, height: `${seen.height}px`, marginBottom: `-${seen.height}px` }}
        onpointermove=${move} onpointerleave=${leave} onpointerdown=${(event) => event.button === 0 && setDrag({ from: event.offsetX, to: event.offsetX })} onpointerup=${drop}></canvas>
      ${drag && Math.abs(drag.to - drag.from) > 4 ? html`<div class="span" style=${{ left: `${side + Math.min(drag.from, drag.to)}px`, width: `${Math.abs(drag.to - drag.from)}px`, top: `${seen.top}px`, height: `${high}px` }}></div>` : null}
      <div id="tree" role="tree" tabindex="0" aria-label="Names" aria-activedescendant=${place >= 0 ? `row-${place}` : undefined} style=${{ width: `${side}px`, height: `${rows.length * ROW}px` }}>
        ${shown.map((row, y) => html`<${Row} key=${row.key} ...${{ row, grid, at: first + y, isChosen: row.key === chosen.name, onPick, onToggle }} />`)}
      </div>
    </div>
    ${tip ? html`<${Tip} ...${tip} />` : null}
  </div>`;
}

function Row({ row, grid, at, isChosen, onPick, onToggle }) {
  const count = useMemo(() => (grid && row.stands.length ? nonfiniteIn(grid, row) : 0), [grid, row]);
  const words = [row.key, row.hasInner ? (row.open ? "open" : `closed, stands for ${plural(row.stands.length, "name")}`) : "", count ? "has NaN or Inf" : ""];
  const toggle = (event) => {
    event.stopPropagation();
    onToggle(row.key);
  };
  return html`<div id=${`row-${at}`} role="treeitem" class=${`row${isChosen ? " chosen" : ""}`} aria-selected=${isChosen} aria-level=${row.depth} aria-posinset=${row.place}
      aria-setsize=${row.siblings} aria-expanded=${row.hasInner ? row.open : undefined} aria-label=${words.filter(Boolean).join(", ")} title=${row.key}
      style=${{ top: `${at * ROW}px`, paddingLeft: `${4 + (row.depth - 1) * 11}px` }} onclick=${() => onPick(row.key)} ondblclick=${toggle}>
    <span class="turn" onclick=${row.hasInner ? toggle : undefined}>${row.hasInner ? (row.open ? "▾" : "▸") : ""}</span><span class="label">${row.label}</span>
    ${row.hasInner && !row.open && row.stands.length > 1 ? html`<small>${grouped(row.stands.length)}</small>` : null}${count ? html`<b class="has-mark">!</b>` : null}
  </div>`;
}

export function nonfiniteIn(grid, row) {
  let total = 0;
  for (const counts of Object.values(grid.row(row).nonfinite)) for (const count of counts) total += count;
  return total;
}

function Tip({ x, y, row, steps, words }) {
  const isRight = x > innerWidth - 300;
  const isLow = y > innerHeight - 120;
  const place = { [isRight ? "right" : "left"]: `${isRight ? innerWidth - x + 12 : x + 14}px`, [isLow ? "bottom" : "top"]: `${isLow ? innerHeight - y + 10 : y + 14}px` };
  return html`<div class="tip" style=${place}><b>${row.key}${row.stands.length > 1 ? ` (${plural(row.stands.length, "name")})` : ""}</b>
    ${steps ? html`<div>${steps}</div>` : null}${words.map((one) => html`<div class=${one.startsWith("NaN") ? "has-mark" : ""}>${one}</div>`)}</div>`;
}
