// A sweep: the tree of the names that were replaced, and beside each what that changes of the output, at every index.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { Message, Scale } from "./controls.js";
import { Grid } from "./grid.js";
import { openAtFirst, rowsOf, treeOf } from "./names.js";
import { useAnswer, useWidth } from "./state.js";
import { Tracks } from "./tracks.js";
import { grouped, plural, rounded } from "./words.js";

const EFFECT = "effect";
const PREDICTED = "gradient × change";

class SweepGrid extends Grid {
  constructor(data, what) {
    const { rows, width } = data.shown;
    const numbers = what === EFFECT ? data.effect : data.approximation;
    const first = Uint32Array.from({ length: width }, (_, at) => at);
    const bad = Uint32Array.from(numbers, (one, at) => (data.was[at] === 1 && !Number.isFinite(one) && (what === EFFECT || !Number.isNaN(one)) ? 1 : 0));
    super({ names: rows, first, last: first, greatest: numbers, "nonfinite effect": bad }, "effect.of", 1);
    Object.assign(this, { what, isBars: width === 1 && !data.shown.axes.length, predicted: what === EFFECT ? data.approximation : undefined });
    this.largest = largestOf(numbers);
    this.reach = largestOf([...numbers, ...(this.predicted ?? [])]); // so that bars and rings have room
    this.bad = bad.reduce((sum, one) => sum + one, 0);
    this.axes = data.shown.axes;
  }

  describe(row, bin) {
    const { least, greatest, nonfinite } = this.row(row);
    const steps = this.axes.length ? `index ${bin} along axis ${this.axes.at(-1)}` : "";
    const both = least[bin] === greatest[bin] ? rounded(least[bin], 5) : `${rounded(least[bin])} to ${rounded(greatest[bin])}`;
    const words = [Number.isNaN(greatest[bin]) ? "no such index, or no number" : `${this.what} ${both}`];
    if (nonfinite.effect?.[bin]) words.push("NaN or Inf");
    return { steps, words };
  }
}

const largestOf = (numbers) => numbers.reduce((most, one) => (Number.isFinite(one) ? Math.max(most, Math.abs(one)) : most), 0) || 1;

export function Sweep({ load, number, theme, beyond, set, state }) {
  const { value: data, error } = useAnswer(number, load);
  if (error) return html`<${Message} title="This sweep cannot be read"><p>${error.message} ${error.found}</p><//>`;
  return data ? html`<${Map} ...${{ data, theme, beyond, set, state }} />` : html`<p class="message faint">…</p>`;
}

function Map({ data, theme, beyond, set, state }) {
  const { shown } = data;
  const box = useRef(null);
  const whole = useWidth(box);
  const what = state.predicted && data.approximation ? PREDICTED : EFFECT;
  const [hovered, setHovered] = useState(null);
  const { find } = state;
  const grid = useMemo(() => new SweepGrid(data, what), [data, what]);
  const root = useMemo(() => treeOf(shown.rows), [shown]);
  const atFirst = useMemo(() => openAtFirst(root), [root]);
  const turned = useMemo(() => new Set(state.turned), [state.turned]);
  const rows = useMemo(() => rowsOf(root, (key) => (state.all === "open" || (state.all !== "closed" && atFirst.has(key))) !== turned.has(key), find), [root, atFirst, turned, state.all, find]);
  const look = useMemo(() => ({ mode: "linear", largest: grid.largest, scale: state.scale, isSigned: true }), [grid, state.scale]);
  const chosen = useMemo(() => ({ name: state.value, step: state.value === null || !shown.axes.length ? null : state.patch }), [state.value, state.patch]);
  const side = whole < 560 ? 132 : 224;
  const width = Math.max(0, whole - side - 18);
  const range = useMemo(() => [0, shown.width], [shown]);
  const pick = (value, patch = null) => set({ value, patch });
  const toggle = (key) => set(({ turned: old }) => ({ turned: old.includes(key) ? old.filter((one) => one !== key) : [...old, key] }));
  useKeys({ rows, chosen, shown, pick, toggle, set, state });
  const row = rows.find((one) => one.key === chosen.name);
  return html`<div class="sweep"><div class="map" ref=${box}>
    <p class="heading">${shown.of} of ${shown.target} is <b>${rounded(shown.output, 6)}</b>; with one value replaced at a time:</p>
    <div id="legend">
      <${Scale} ...${{ scale: state.scale, theme, low: rounded(-grid.largest, 3), high: `+${rounded(grid.largest, 3)}` }} />
      ${data.approximation ? html`<div class="modes" role="radiogroup" aria-label="What is shown">${[EFFECT, PREDICTED].map((one) => html`<button role="radio" key=${one} aria-checked=${one === what} onclick=${() => set({ predicted: one === PREDICTED })}>${one}</button>`)}</div>` : null}
      <input type="search" placeholder="Search  /" aria-label="Search names" value=${find} oninput=${(event) => set({ find: event.target.value })} />
      <span class="swatch zero">exactly 0</span>${shown.axes.length ? html`<span class="swatch absent">no such index</span>` : null}
      ${grid.bad ? html`<span class="swatch mark some">NaN or Inf: ${plural(grid.bad, "run")}</span>` : null}
      <span class="space"></span><span class="faint">${plural(data.was.reduce((sum, one) => sum + (one === 1), 0), "run")}</span>
    </div>
    ${shown.axes.length ? html`<${Indices} ...${{ shown, side, width }} />` : null}
    ${rows.length ? html`<${Tracks} ...${{ rows, grid, other: null, look, chosen, range, side, width, theme, hovered, onPick: pick, onToggle: toggle, onZoom: () => {}, onHover: setHovered, onSeen: () => {} }} />` : html`<p class="message faint">No name has “${find}” in it.</p>`}
    ${shown.notes.map((note) => html`<p class="note">note: ${note}</p>`)}
    </div>
    ${row ? html`<${Patch} ...${{ data, row, patch: chosen.step, beyond, close: () => pick(null) }} />` : null}
  </div>`;
}

function Indices({ shown, side, width }) {
  const every = Math.max(1, Math.ceil((shown.width * 46) / Math.max(1, width)));
  const ticks = Array.from({ length: Math.ceil(shown.width / every) }, (_, at) => at * every);
  return html`<div class="indices" aria-hidden="true"><span class="of-rail" style=${{ width: `${side}px` }}>index along axis ${shown.axes.at(-1)}</span>
    <span class="ticks" style=${{ width: `${width}px` }}>${ticks.map((at) => html`<span key=${at} style=${{ left: `${((at + 0.5) / shown.width) * 100}%` }}>${grouped(at)}</span>`)}</span></div>`;
}

const MOST_INSIDE = 12;

function Patch({ data, row, patch, beyond, close }) {
  // All numbers of one run; of a module, those of the runs in it that change most.
  const { shown, effect, approximation, was } = data;
  const places = row.names.flatMap((name) => {
    const at = shown.rows.indexOf(name);
    return Array.from({ length: shown.width }, (_, column) => [name, column, at * shown.width + column]).filter(([, column, place]) => was[place] === 1 && (patch === null || column === patch));
  });
  places.sort((a, b) => size(effect[b[2]]) - size(effect[a[2]]));
  const name = row.own ? row.key.split(":")[0] : row.key;
  const titles = ["", "output", EFFECT, ...(approximation ? [PREDICTED] : [])];
  const cell = (number) => html`<td class=${Number.isFinite(number) ? "" : "has-mark"}>${rounded(number, 5)}</td>`;
  return html`<aside id="details" aria-label="Details" tabindex="-1">
    <button class="close" aria-label="Close" onclick=${close}>×</button>
    <h2>${row.key}</h2>
    <p class="faint">${plural(places.length, "run")}${patch === null ? "" : ` at index ${patch}`}; the output is ${rounded(shown.output, 6)} without replacing</p>
    ${beyond.has(name) ? html`<p><button class="link" onclick=${() => beyond.go(name)}>${beyond.words}</button></p>` : null}
    <div class="wide"><table class="numbers"><thead><tr>${titles.map((title) => html`<th scope="col">${title}</th>`)}</tr></thead>
    <tbody>${places.slice(0, MOST_INSIDE).map(([one, column, at]) => html`<tr><th scope="row">${row.names.length > 1 ? one : row.label}${shown.axes.length ? `[${column}]` : ""}</th>${cell(effect[at] + shown.output)}${cell(effect[at])}${approximation ? (Number.isNaN(approximation[at]) ? html`<td>–</td>` : cell(approximation[at])) : null}</tr>`)}</tbody></table></div>
    ${places.length > MOST_INSIDE ? html`<p class="faint">and ${plural(places.length - MOST_INSIDE, "run")} that change less</p>` : null}
  </aside>`;
}

const size = (number) => (Number.isNaN(number) ? Infinity : Math.abs(number));

function useKeys(now) {
  const held = useRef(now);
  held.current = now;
  useEffect(() => {
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, dialog[open]")) return;
      if (event.target.closest?.("button") && (event.key === "Enter" || event.key === " ")) return;
      const act = KEYS[event.key];
      if (!act) return;
      event.preventDefault();
      act(held.current);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

const KEYS = {
  ArrowDown: (now) => move(now, 1),
  ArrowUp: (now) => move(now, -1),
  Home: (now) => move(now, -Infinity),
  End: (now) => move(now, Infinity),
  ArrowRight: (now) => turn(now, true),
  ArrowLeft: (now) => turn(now, false),
  ",": (now) => shift(now, -1),
  ".": (now) => shift(now, 1),
  e: ({ set, state }) => set({ all: state.all === "open" ? "closed" : "open", turned: [] }),
  Enter: () => document.getElementById("details")?.focus(),
  "/": () => document.querySelector(".sweep input").focus(),
};

function move({ rows, chosen, pick }, by) {
  const at = rows.findIndex((row) => row.key === chosen.name);
  const to = Math.max(0, Math.min(rows.length - 1, at < 0 && by > 0 && Number.isFinite(by) ? 0 : at + by));
  if (rows.length) pick(rows[to].key, chosen.step);
}

function turn({ rows, chosen, toggle }, opens) {
  const row = rows.find((one) => one.key === chosen.name);
  if (row?.hasInner && row.open !== opens) toggle(row.key);
}

function shift({ shown, chosen, pick }, by) {
  if (shown.axes.length && chosen.name !== null) pick(chosen.name, Math.max(0, Math.min(shown.width - 1, (chosen.step ?? -1) + by)));
}
