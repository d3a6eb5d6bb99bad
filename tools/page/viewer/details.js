// All that is known of one name: its alerts with the line of code, its series, its magnitudes, its numbers at a step.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { ask, isLive } from "./asking.js";
import { Chart, bandOf } from "./chart.js";
import { usePlaces } from "./circuits.js";
import { colourTable, levelOf } from "./colours.js";
import { grouped, plural, powerOf, rounded, stepsOf } from "./words.js";

const WORDS = ["rms", "absmax", "mean", "std", "min", "max", "count", "finite", "nan", "posinf", "neginf", "zeros", "sum", "squares"];
const MOST_INSIDE = 40;

export function AlertCard({ alert, run }) {
  const { source } = alert;
  const facts = [...alert.facts];
  return html`<section class="card">
    <p><b class="kind">${alert.kind.replaceAll("_", " ")}</b>${run ? html` <small>${run}</small>` : null}</p>
    <p>${alert.headline}</p>
    ${source ? html`<p class="place">${source.file}:${source.line}</p><pre>${source.text.trim()}</pre>` : null}
    ${facts.length ? html`<ul>${facts.map((one) => html`<li>${one}</li>`)}</ul>` : null}
    ${alert.remedy ? html`<p><span class="faint">next:</span> ${alert.remedy}</p>` : null}
  </section>`;
}

function Gaps({ gaps }) {
  return gaps.map((gap) => html`<section class="card"><p><b>${gap.kind.replaceAll("_", " ")}</b></p><p>${gap.headline}</p></section>`);
}

function useAnswers(key, questions) {
  // The answers to some questions; null for one that cannot be answered, and undefined until they are there.
  const [found, setFound] = useState({ key: "", answers: [] });
  useEffect(() => {
    let isWanted = true;
    Promise.all(questions.map(([question, query]) => (question ? ask(question, query).catch(() => null) : null)))
      .then((answers) => isWanted && setFound({ key, answers }));
    return () => (isWanted = false);
  }, [key]);
  return found.key === key || found.key.split("\n")[0] === key.split("\n")[0] ? found.answers : [];
}

export function Details(given) {
  const { runs, grids, others, toOther, chosen, field, about, alerts, gaps, unwritten, range, theme, scale, stride, close, pick, onZoom, onStep, row, version, width } = given;
  const { name, step } = chosen;
  const kinds = about.kindsOf.get(name) ?? [];
  const ownKind = field.split(".")[0];
  const kind = kinds.includes(ownKind) ? ownKind : kinds.find((one) => one !== "logged");
  const shownField = kind && kind !== ownKind ? `${kind}.rms` : field;
  const window = { from: Math.floor(range[0]), to: Math.ceil(range[1]) - 1, bins: 300 };
  const series = useAnswers(`${name} ${shownField}\n${window.from} ${window.to} ${version} ${grids.length}`,
    kind ? runs.map((run) => ["series", { run: run.run, name, field: shownField, ...window }]) : []);
  const hasMagnitudes = about.has_magnitudes && kind;
  const [magnitudes] = useAnswers(`${name} ${kind}\n${version}`, [hasMagnitudes ? ["magnitudes", { run: runs[0].run, name, kind }] : []]);
  const numbers = useAnswers(`${name} ${step}\n${runs.map((run) => run.run)}`, step === null || !kinds.length ? []
    : runs.map((run) => ["step", isLive ? { run: run.run, step, name } : { run: run.run, step }]));
  const bands = useMemo(() => bandsOf(series, grids, row, shownField), [series, grids, row, shownField]);
  const title = kinds.length || !row ? shownField : `${field} of ${plural(row.names.length, "name")} in it`;
  const isLog = useMemo(() => bands.length > 0 && bands.every((band) => band.least.every((one) => one === null || one > 0)), [bands]);
  const places = usePlaces(name, others);
  const own = alerts.filter((alert) => alert.name === name);
  const missing = gaps.filter((gap) => gap.names.includes(name));
  return html`<aside id="details" aria-label="Details" tabindex="-1">
    <button class="close" aria-label="Close" onclick=${close}>×</button>
    <h2>${name}</h2>
    <p class="faint">${about.parameters.has(name) ? "parameter" : kinds.length ? "output" : "module"}${kinds.length ? ` · ${kinds.join(", ")}` : ""}</p>
    ${places.map(({ kind, title, at }) => html`<p><button class="link" title=${title} onclick=${() => toOther(at, name)}>show it in ${others.length > 1 ? title : `the ${kind === "diff" ? "comparison" : kind}`}</button></p>`)}
    ${own.map((alert) => html`<${AlertCard} alert=${alert} run=${runs.length > 1 ? runs[alert.of]?.label : ""} />`)}
    ${missing.length ? html`<${Gaps} gaps=${missing} />` : null}
    ${bands.length ? html`<h3>${title}</h3><${Chart} ...${{ width: width - 82, side: 58, height: 150, range, bands, isLog, theme, step, gaps: unwritten, showsSteps: true, onZoom, onStep, label: `${title} over the steps` }} />` : null}
    ${magnitudes?.steps?.length ? html`<${Magnitudes} found=${magnitudes} theme=${theme} scale=${scale} kind=${kind} step=${step} />` : null}
    ${step !== null && kinds.length ? html`<${Numbers} ...${{ numbers, runs, name, step, grids, row }} />` : null}
    ${row?.hasInner ? html`<${Inside} row=${row} pick=${pick} />` : null}
  </aside>`;
}

function bandsOf(series, grids, row, field) {
  // What was asked for; for a module, and in a file, the row of the picture, which is the series in its bins.
  const found = grids.map((grid, at) => series[at] ?? rowOf(grid, row, field)).filter(Boolean);
  return found.filter((one) => one.first.length).map(bandOf);
}

function rowOf(grid, row, field) {
  if (grid?.field !== field || !row) return null;
  const { places, least, greatest, nonfinite } = grid.row(row.own ? { asks: row.key, stands: [row.key] } : { asks: `${row.key}*`, stands: row.names });
  if (!places.length) return null;
  const counts = Object.fromEntries(Object.entries(nonfinite).map(([kind, plane]) => [`nonfinite ${kind}`, plane]));
  return { first: grid.first, last: grid.last, least, greatest, ...counts };
}

function Magnitudes({ found, theme, scale, kind, step }) {
  const canvas = useRef(null);
  const { steps, exponents, counts } = found;
  const [width, height] = [steps.length, exponents.length];
  useLayoutEffect(() => {
    if (!width || !height) return;
    Object.assign(canvas.current, { width, height });
    const image = new ImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const table = colourTable(scale, false, theme);
    const most = Math.log(counts.reduce((a, b) => Math.max(a, b), 1) + 1);
    for (let x = 0; x < width; x++) {
      for (let y = 0; y < height; y++) {
        const count = counts[x * height + (height - 1 - y)];
        if (count) pixels[y * width + x] = table[levelOf(Math.log(count + 1) / most)];
      }
    }
    canvas.current.getContext("2d").putImageData(image, 0, 0);
  }, [found, theme, scale]);
  if (!height) return null;
  return html`<h3>magnitudes of ${kind}</h3>
    <figure><span class="top">${powerOf(2, exponents.at(-1) + 1)}</span><canvas ref=${canvas} class="magnitudes" role="img" aria-label=${`Magnitudes from 2^${exponents[0]} to 2^${exponents.at(-1) + 1} over ${plural(width, "step")}`}></canvas><span class="bottom">${powerOf(2, exponents[0])}</span></figure>
    <p class="ends"><span>${stepsOf(steps[0], steps[0])}</span><span>${stepsOf(steps.at(-1), steps.at(-1))}</span></p>`;
}

function Numbers({ numbers, runs, name, step, grids, row }) {
  if (!numbers.length) return html`<h3>step ${grouped(step)}</h3><p class="faint">…</p>`;
  return runs.map((run, at) => {
    const fields = numbers[at]?.names?.[name];
    const title = html`<h3>step ${grouped(step)}${runs.length > 1 ? html` <small class="faint">${run.label}</small>` : null}</h3>`;
    if (!fields) return html`${title}<p class="faint">${whyNot(numbers[at], name, step, grids[at], row)}</p>`;
    return html`${title}<${Table} fields=${fields} skipped=${numbers[at].skipped === 1} />`;
  });
}

function whyNot(found, name, step, grid, row) {
  if (found) return `${name} has no row in this step.`;
  const bin = grid ? grid.binAt(step) : -1;
  if (bin < 0 || !row) return `This file does not have the numbers of this step: run.at(${step}) has.`;
  const { least, greatest } = grid.row(row);
  return `This file has ${stepsOf(grid.first[bin], grid.last[bin])} together: ${grid.field} from ${rounded(least[bin])} to ${rounded(greatest[bin])}. All numbers of a step: run.at(${step}).`;
}

function Table({ fields, skipped }) {
  const kinds = [...new Set(Object.keys(fields).map((field) => field.split(".")[0]))].filter((kind) => WORDS.some((word) => `${kind}.${word}` in fields));
  const words = WORDS.filter((word) => kinds.some((kind) => `${kind}.${word}` in fields));
  const others = Object.keys(fields).filter((field) => !WORDS.includes(field.split(".")[1]));
  const cell = (field) => {
    const value = field in fields ? Number(fields[field]) : undefined;
    const isBad = value !== undefined && (!Number.isFinite(value) || (/\.(nan|posinf|neginf)$/.test(field) && value > 0));
    return html`<td class=${isBad ? "has-mark" : ""} title=${field in fields ? `${field} ${fields[field]}` : ""}>${value === undefined ? "" : rounded(value, 5)}</td>`;
  };
  return html`${skipped ? html`<p>This step was skipped by a GradScaler.</p>` : null}
    ${kinds.length ? html`<div class="wide"><table class=${`numbers${kinds.length > 3 ? " dense" : ""}`}><thead><tr><th></th>${kinds.map((kind) => html`<th scope="col">${kind}</th>`)}</tr></thead>
    <tbody>${words.map((word) => html`<tr><th scope="row">${word}</th>${kinds.map((kind) => cell(`${kind}.${word}`))}</tr>`)}</tbody></table></div>` : null}
    ${others.length ? html`<table class="numbers"><tbody>${others.map((field) => html`<tr><th scope="row">${field}</th>${cell(field)}</tr>`)}</tbody></table>` : null}`;
}

function Inside({ row, pick }) {
  const names = row.names.filter((name) => name !== row.key);
  return html`<h3>${plural(names.length, "name")} in it</h3><ul class="inside">${names.slice(0, MOST_INSIDE).map((name) => html`<li><button class="link" onclick=${() => pick(name)}>${name}</button></li>`)}
    ${names.length > MOST_INSIDE ? html`<li class="faint">and ${grouped(names.length - MOST_INSIDE)} more</li>` : null}</ul>`;
}
