// What is around the tracks: the head, the legend, the lists of runs, alerts and gaps, the help.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { isLive } from "./asking.js";
import { OtherLists } from "./circuits.js";
import { SCALES, colourTable } from "./colours.js";
import { KEYS } from "./keys.js";
import { ago, grouped, plural, powerOf } from "./words.js";

const ORDER = ["grad", "value", "param", "update"];
export const MODES = { greatest: "greatest of a cell's steps", least: "least of a cell's steps", change: "against its own median", ratio: "over the other run" };

export function RunState({ run }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const clock = setInterval(() => tick((one) => one + 1), 1000);
    return () => clearInterval(clock);
  }, []);
  const heard = useRef({ run: null, at: 0 });
  if (heard.current.run !== run) heard.current = { run, at: Date.now() / 1000 };
  const age = run.steps ? ago(run.now - run.time + (isLive ? Date.now() / 1000 - heard.current.at : 0)) : "";
  const last = run.steps ? `step ${grouped(run.last)}` : "no step yet";
  const words = {
    written: `running: ${last}${age && `, ${age}`}`,
    ended: run.steps ? `ended at ${last}` : "ended without a step",
    died: `died: ${run.steps ? `nothing after ${last}${isLive ? `, ${age}` : ""}` : "no step was written"}`,
    damaged: "cannot be read",
  };
  return html`<span class=${`state ${run.state}`} role="status">${words[run.state]}</span>`;
}

function FieldChoice({ fields, field, onChoose }) {
  const kinds = [...new Set(fields.filter((one) => one !== "logged").map((one) => one.split(".")[0]))];
  kinds.sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  return html`<label>field <select id="field" value=${field} onchange=${(event) => onChoose(event.target.value)}>
    ${kinds.map((kind) => html`<optgroup key=${kind} label=${kind}>${fields.filter((one) => one.startsWith(`${kind}.`)).map((one) => html`<option key=${one} value=${one} selected=${one === field}>${one}</option>`)}</optgroup>`)}
  </select></label>`;
}

export function Head({ runs, run, other, state, fields, field, isFollowing, page, set }) {
  const modes = Object.keys(MODES).filter((mode) => mode !== "ratio" || other);
  return html`<header>
    <h1>backprobe</h1>
    ${runs.length > 1 ? html`<label>run <select id="run" onchange=${(event) => page.choose(+event.target.value)}>${runs.map((one) => html`<option key=${one.run} value=${one.run} selected=${one === run}>${one.label}</option>`)}</select></label>
      <label>with <select id="with" onchange=${(event) => page.compare(event.target.value === "" ? null : +event.target.value)}><option value="" selected=${!other}>no other</option>
      ${runs.filter((one) => one !== run).map((one) => html`<option key=${one.run} value=${one.run} selected=${one === other}>${one.label}</option>`)}</select></label>`
    : html`<span class="name" title=${run.label}>${run.label}</span>`}
    <${RunState} run=${run} />
    <span class="space"></span>
    ${field ? html`<${FieldChoice} fields=${fields} field=${field} onChoose=${(one) => set({ field: one, low: null, high: null })} />
    <div class="modes" role="radiogroup" aria-label="View">${modes.map((mode) => html`<button role="radio" key=${mode} title=${MODES[mode]} aria-checked=${mode === state.mode} onclick=${() => set({ mode })}>${mode}</button>`)}</div>` : null}
    <input id="search" type="search" placeholder="Search  /" aria-label="Search names" value=${state.find} oninput=${(event) => set({ find: event.target.value })} />
    ${isLive && runs.some((one) => one.state === "written") ? html`<button aria-pressed=${isFollowing} title="follow the run (f)" onclick=${() => page.toggleFollow()}>${isFollowing ? "following" : "standing still"}</button>` : null}
    ${state.from !== null ? html`<button title="all steps (z)" onclick=${() => page.zoom(null, null)}>all steps</button>` : null}
    <span class="last"><button title="light or dark (t)" aria-label="Light or dark" onclick=${() => page.toggleTheme()}>◐</button>
    <button title="the keys (?)" aria-label="Keys" onclick=${() => page.showKeys()}>?</button></span>
  </header>`;
}

export function Scale({ scale, theme, low, high, isSigned = true }) {
  // The colours between two ends.
  const canvas = useRef(null);
  useLayoutEffect(() => {
    const table = colourTable(scale, isSigned, theme);
    Object.assign(canvas.current, { width: table.length, height: 1 });
    const image = new ImageData(table.length, 1);
    new Uint32Array(image.data.buffer).set(table);
    canvas.current.getContext("2d").putImageData(image, 0, 0);
  }, [scale, theme, isSigned]);
  return html`<span class="scale">${low}<canvas ref=${canvas} aria-hidden="true"></canvas>${high}</span>`;
}

export function Legend({ grid, look, state, theme, marks, rows, names, set, page }) {
  const relative = look.mode === "change" || look.mode === "ratio";
  const [low, high] = look.ends;
  const choice = (which, value) => html`<select class="power" aria-label=${`The scale ${which === "low" ? "begins" : "ends"} at`} onchange=${(event) => set({ [which]: +event.target.value })}>
    ${powersAround(low, high).filter((one) => (which === "low" ? one < high : one > low)).map((one) => html`<option key=${one} value=${one} selected=${one === value}>${powerOf(10, one)}</option>`)}</select>`;
  const each = grid.count ? Math.max(...Array.from(grid.first, (first, at) => (grid.last[at] - first) / grid.stride + 1)) : 0;
  return html`<div id="legend">
    <${Scale} scale=${look.scale} theme=${theme} isSigned=${relative || look.isSigned}
      low=${relative ? html`<span>÷ 100</span>` : look.isSigned ? html`<span>−</span>${choice("high", high)}` : choice("low", low)}
      high=${relative ? html`<span>× 100</span>` : choice("high", high)} />
    ${relative || look.isSigned ? null : html`<select aria-label="Colours" onchange=${(event) => set({ scale: event.target.value })}>${SCALES.map((one) => html`<option key=${one} value=${one} selected=${one === state.scale}>${one}</option>`)}</select>`}
    <span class="swatch zero">exactly 0</span><span class="swatch absent">no numbers</span>
    <button class=${`swatch mark${marks ? " some" : ""}`} disabled=${!marks} title="go to the next (b)" onclick=${() => page.nextNonfinite(1)}>${marks ? `NaN or Inf: ${marks}` : marks === null ? "NaN and Inf are being counted …" : "no NaN or Inf"}</button>
    <span class="space"></span>
    <span class="faint">${plural(rows, "row")} of ${plural(names, "name")}${each > 1 ? ` · ${plural(Math.round(each), "step")} a cell` : ""}</span>
  </div>`;
}

function powersAround(low, high) {
  const [first, last] = [Math.min(low, high) - 6, Math.max(low, high) + 6];
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}

export function Lists({ runs, run, others, state, set, alerts, gaps, notes, chosen, other, parting, error, page }) {
  const [showsGaps, setShowsGaps] = useState(false);
  return html`<nav aria-label="Runs and alerts">
    ${runs.length > 1 ? html`<h2>${plural(runs.length, "run")}</h2><ul>${runs.map((one) => html`<li key=${one.run}><button class="pick" aria-current=${one === run} onclick=${() => page.choose(one.run)}>
      <b>${one.label}</b> <small class=${`state ${one.state}`}>${grouped(one.steps)} steps</small></button></li>`)}</ul>` : null}
    ${parting ? html`<${Parting} ...${{ parting, run, other, page }} />` : null}
    <${OtherLists} ...${{ others, state, set }} />
    <h2>${alerts === null ? "Alerts" : alerts.length ? plural(alerts.length, "alert") : "No alerts"}</h2>
    ${error ? html`<p class="faint">${error.message}</p>` : alerts === null ? html`<p class="faint">The steps are being checked …</p>` : null}
    <ul>${(alerts ?? []).map((one) => html`<li key=${`${one.of} ${one.kind} ${one.name}`}><button class="pick" aria-current=${one === chosen} onclick=${() => page.goTo(one)}>
      <span><b class="kind">${one.kind.replaceAll("_", " ")}</b> <small>${other ? `${one.label} · ` : ""}step ${grouped(one.step)}</small></span>
      <span>${one.headline.replace(/^step [^:]*: /, "")}</span></button></li>`)}</ul>
    ${(notes ?? []).map((note) => html`<p class="note">${note}</p>`)}
    ${gaps?.length ? html`<h2><button class="fold" aria-expanded=${showsGaps} onclick=${() => setShowsGaps(!showsGaps)}>${showsGaps ? "▾" : "▸"} ${plural(gaps.length, "gap")}</button></h2>
      ${showsGaps ? html`<ul>${gaps.map((gap) => html`<li><button class="pick" onclick=${() => page.goToGap(gap)}><span><b>${gap.kind.replaceAll("_", " ")}</b>${gap.count > 1 ? html` <small>${plural(gap.count, "name")}</small>` : null}</span><span>${gap.headline}</span></button></li>`)}</ul>` : null}` : null}
  </nav>`;
}

function Parting({ parting, run, other, page }) {
  // Where two runs part, and the way there.
  const line = (found, words) => found && html`<li><button class="pick" onclick=${() => page.goToParting(found)}><span><b>step ${grouped(found.step)}</b> <small>${words}</small></span>
    <span>${found.rows[0].join(", ")}${found.count > 1 ? ` and ${grouped(found.count - 1)} more` : ""}</span></button></li>`;
  return html`<h2>They part</h2><p class="note"><span class="of-run of-0">${run.label}</span> and <span class="of-run of-1">${other.label}</span></p>
    <ul>${line(parting.exact, "in any bit")}${line(parting.tenth, "by more than a tenth")}</ul>
    ${parting.exact ? null : html`<p class="note">They do not: all numbers of the steps that both have are equal.</p>`}`;
}

export function Help({ isOpen, close }) {
  const box = useRef(null);
  useEffect(() => {
    if (isOpen && !box.current.open) box.current.showModal();
    if (!isOpen && box.current.open) box.current.close();
  }, [isOpen]);
  return html`<dialog ref=${box} aria-label="Keys" onclose=${close}>
    <h2>Keys</h2><dl>${KEYS.map(([key, words]) => html`<div><dt>${key.split(" ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${words}</dd></div>`)}</dl>
    <p class="faint">Drag over steps to see fewer of them; click a cell for its numbers. The address holds what you see.</p>
    <form method="dialog"><button>Close</button></form></dialog>`;
}

export function Message({ title, children }) {
  return html`<div class="message" role="alert"><h2>${title}</h2>${children}</div>`;
}
