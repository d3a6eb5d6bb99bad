// The page: what is asked for what is looked at, and what the keys and buttons do.

import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { ask, follow, isLive } from "./asking.js";
import { Other, OthersAlone } from "./circuits.js";
import { Chart, bandOf } from "./chart.js";
import { Head, Help, Legend, Lists, MODES, Message } from "./controls.js";
import { Details } from "./details.js";
import { Grid } from "./grid.js";
import { actOn } from "./keys.js";
import { actions } from "./actions.js";
import { openAtFirst, rowsOf, treeOf } from "./names.js";
import { Rail } from "./rail.js";
import { useAddress, useAnswer, usePrinting, useTheme, useWidth } from "./state.js";
import { Tracks } from "./tracks.js";
import { plural, rounded, stepsOf } from "./words.js";

const FIELDS = ["grad.rms", "value.rms", "update.rms", "param.rms"];
const LARGE = 3000; // names: of more, only the rows that are seen are asked for
const MOST_SCALARS = 2; // charts at first

function useRuns(isFollowing) {
  const [found, setFound] = useState({ runs: null, others: NONE, error: null });
  useEffect(() => {
    if (isLive && !isFollowing && found.runs) return undefined;
    return follow(({ runs, others }) => setFound((old) => ({ runs, others: JSON.stringify(others) === JSON.stringify(old.others) ? old.others : others, error: null })), (error) => setFound((old) => ({ ...old, error })));
  }, [isFollowing]);
  return found;
}

function newest(runs) {
  return runs.toSorted((a, b) => (b.state === "written") - (a.state === "written") || b.time - a.time)[0];
}

function aboutOf(found) {
  return { ...found, kindsOf: new Map(found.names.map((name, at) => [name, found.kinds[at]])), parameters: new Set(found.parameters) };
}

function useRun(run, state, bins, seen) {
  // All that is asked about one run; null where there is none.
  const version = run && `${run.steps} ${run.time} ${run.starts}`;
  const about = useAnswer(run && `${run.run} ${run.rows} ${run.starts}`, async () => ({ ...aboutOf(await ask("about", { run: run.run })), run: run.run }));
  const own = about.value?.run === run?.run ? about.value : null;
  const fields = own?.fields ?? [];
  const field = fields.includes(state.field) ? state.field : (FIELDS.find((one) => fields.includes(one)) ?? null);
  const window = state.from === null ? {} : { from: state.from, to: state.to };
  const large = isLive && own && own.names.length > LARGE; // a file has them all anyway
  const rows = large ? { rows: JSON.stringify(seen) } : {};
  const ready = own && field && bins && run.steps && (!large || seen.length);
  const grid = useAnswer(ready ? `${run.run} ${version} ${field} ${bins} ${JSON.stringify(window)} ${rows.rows ?? ""}` : null, async () => ({
    run: run.run, grid: new Grid(await ask("grid", { run: run.run, field, bins, ...window, ...rows }), field, own.every) }));
  const drawn = grid.value?.run === run?.run || (own && !ready); // what takes longer is asked behind the first picture
  const judged = useAnswer(run && drawn ? `${run.run} ${version} ${run.state}` : null, async () => ({ run: run.run, ...(await ask("alerts", { run: run.run })) }));
  const nonfinite = useAnswer(run && drawn ? `${run.run} ${version}` : null, async () => ({ run: run.run, ...(await ask("nonfinite", { run: run.run })) }));
  const of = (answer) => (answer.value?.run === run?.run ? answer.value : null);
  return { run, version, about: own, field, grid: of(grid)?.grid ?? null, judged: of(judged), nonfinite: of(nonfinite),
           error: about.error ?? grid.error, alertsError: judged.error };
}

function useScalars(parts, names, state, bins) {
  // The series of what the program logged, by name, of each run.
  const window = state.from === null ? {} : { from: state.from, to: state.to };
  const key = names.length && bins ? `${parts.map((part) => `${part.run.run} ${part.version} ${Boolean(part.about)}`)} ${names.join("\n")} ${bins} ${JSON.stringify(window)}` : null;
  const found = useAnswer(key, async () => {
    const one = (part, name) => (part.about?.kindsOf.get(name)?.includes("logged") ? ask("series", { run: part.run.run, name, field: "logged", bins, ...window }).catch(() => null) : null);
    return { runs: parts.map((part) => part.run.run).join(), of: new Map(await Promise.all(names.map(async (name) => [name, (await Promise.all(parts.map((part) => one(part, name)))).map((answer) => answer && bandOf(answer))]))) };
  });
  return found.value?.runs === parts.map((part) => part.run.run).join() ? found.value.of : new Map();
}

function scalarsOf(about) {
  const logged = about ? about.names.filter((name) => about.kindsOf.get(name).includes("logged")) : [];
  const rank = (name) => (/^(train[_./ ]?)?loss$/i.test(name) ? 0 : /loss/i.test(name) ? 1 : 2);
  return logged.toSorted((a, b) => rank(a) - rank(b));
}

function App() {
  const [state, set] = useAddress();
  const isPrinted = usePrinting();
  const theme = useTheme(isPrinted ? "light" : state.theme);
  const [isFollowing, setFollowing] = useState(isLive);
  const { runs, others, error } = useRuns(isFollowing);
  const atFirst = useRef(null);
  atFirst.current ??= runs?.length ? newest(runs).run : null;
  if (!runs) return html`<${Waiting} error=${error} />`;
  if (!runs.length && others.length) return html`<${OthersAlone} ...${{ others, state, set, theme }} />`;
  if (!runs.length) return html`<${Message} title="No run yet"><p>A run appears here as soon as its training has made a step: <code>bp.watch(model, folder)</code> writes it, or <code>backprobe watch train.py</code>.</p><//>`;
  const run = runs.find((one) => one.run === (state.run ?? atFirst.current)) ?? runs[0];
  const other = state.with !== null && state.with !== run.run ? (runs.find((one) => one.run === state.with) ?? null) : null;
  return html`<${Viewer} ...${{ runs, run, other, others, state, set, theme, isPrinted, isFollowing, setFollowing, lost: error }} />`;
}

function Waiting({ error }) {
  if (!error) return html`<p class="message faint">…</p>`;
  const words = error.status === 403 ? "This address has no token, or an old one. Open the address that backprobe view has printed: it ends with #token=…" : error.found;
  return html`<${Message} title=${error.status === 403 ? "Not let in" : error.message}><p>${words}</p><//>`;
}

function Viewer({ runs, run, other, others, state, set, theme, isPrinted, isFollowing, setFollowing, lost }) {
  const main = useRef(null);
  const whole = useWidth(main);
  const [help, setHelp] = useState(false);
  const [hovered, setHovered] = useState(null);
  const [seen, setSeen] = useState([]);
  const [said, say] = useState("");
  const isNarrow = whole < 560;
  const side = isNarrow ? 132 : 224;
  const width = Math.max(0, whole - side - Math.max(GUTTER, EDGE));
  const bins = width ? Math.max(50, Math.min(1200, Math.ceil(width / 50) * 50)) : 0;
  const asked = useMemo(() => seen.map((row) => row.asks), [seen]);
  const a = useRun(run, state, bins, asked);
  const b = useRun(other, state, bins, asked);
  const parts = b.run ? [a, b] : [a];
  const { about, field, grid } = a;
  const stride = about?.every ?? 1;
  const range = useMemo(() => {
    if (state.from !== null) return [state.from, Math.max(state.from + 1, state.to + 1)];
    const known = parts.map((part) => part.run).filter((one) => one.steps);
    return known.length ? [Math.min(...known.map((one) => one.first)), Math.max(...known.map((one) => one.last)) + stride] : [0, 1];
  }, [state.from, state.to, run.first, run.last, other?.last, other?.first, stride]);

  const names = useMemo(() => namesOf(parts, field), [about, b.about, field, a.nonfinite]);
  const root = useMemo(() => treeOf(names), [names]);
  const atFirst = useMemo(() => openAtFirst(root), [root]);
  const isOpen = useMemo(() => {
    const turned = new Set(state.turned);
    const isOpened = { open: () => true, closed: () => false }[state.all] ?? ((key) => atFirst.has(key));
    return (key) => isOpened(key) !== turned.has(key);
  }, [atFirst, state.turned, state.all]);
  const rows = useMemo(() => rowsOf(root, isOpen, state.find), [root, isOpen, state.find]);
  const logged = useMemo(() => scalarsOf(about), [about]);
  const scalars = state.scalars ? logged.filter((name) => state.scalars.includes(name)) : logged.slice(0, isNarrow ? 1 : MOST_SCALARS);
  const series = useScalars(parts, scalars, state, bins);

  const parting = useAnswer(other && `${a.version} ${b.version} ${run.run} ${other.run}`, () => ask("parting", { run: run.run, with: other.run })).value;
  const alerts = useMemo(() => a.judged && parts.flatMap((part, of) => (part.judged?.alerts ?? []).map((one) => ({ ...one, step: +one.step, of, label: part.run.label }))), [a.judged, b.judged]);
  const gaps = useMemo(() => (a.judged?.gaps ?? NONE).filter((one) => one.kind !== "cut_short" || run.state !== "written"), [a.judged, run.state]);
  const unwritten = useMemo(() => gaps.filter((one) => !one.names.length).flatMap((one) => one.steps), [gaps]);
  const mode = Object.hasOwn(MODES, state.mode) && (state.mode !== "ratio" || other) ? state.mode : "greatest";
  const look = useMemo(() => ({ mode, scale: state.scale, isSigned: grid?.isSigned ?? false, ends: grid ? endsOf(grid, state) : [-3, 0] }), [mode, state.scale, state.low, state.high, grid]);
  const chosen = useMemo(() => ({ name: state.name, step: state.step }), [state.name, state.step]);
  const chosenAlert = (alerts ?? []).find((one) => one.name === state.name && one.step === state.step);
  const chosenRow = rows.find((row) => row.key === state.name);
  const lines = useMemo(() => [...new Set((alerts ?? []).map((one) => one.step))], [alerts]);
  const marks = a.nonfinite && marksIn(a.nonfinite); // null: not counted yet

  const page = usePage({ state, set, rows, isOpen, grid, range, run, alerts, nonfinite: a.nonfinite, about, other, mode, theme, setHelp, say, setFollowing, logged, scalars });
  useEffect(() => {
    const onKey = (event) => actOn(event, page);
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const beyond = useMemo(() => ({ has: (name) => held.current.has(name), go: (name) => page.showInRun(name) }), []);
  const held = useRef(null);
  held.current = { has: (name) => Boolean(about?.kindsOf.has(name) || root.has(name)) };
  const isDetailed = state.circuit === null && state.open && state.name !== null && about;
  const toStep = (x) => Math.max(range[0], Math.min(range[1] - 1, Math.floor(x)));
  const onStep = (x) => set({ step: nearestStep(grid, toStep(x)), name: state.name, open: state.open });
  const problem = run.state === "damaged" ? run.error : (a.error?.message && `${a.error.message} ${a.error.found ?? ""}`) || "";
  return html`<div id="page" class=${`${isDetailed ? "detailed" : ""}${isPrinted ? " printed" : ""}`}>
    <${Head} ...${{ runs, run, other, state: { ...state, mode }, fields: about?.fields ?? [], field, isFollowing, page, set }} />
    <${Lists} ...${{ runs, run, others, state, set, alerts, gaps, notes: a.judged?.notes, chosen: chosenAlert, other, parting: other && parting, error: a.alertsError, page }} />
    <main ref=${main}>
      ${lost ? html`<p class="lost" role="alert">${lost.message} What you see is from before. ${lost.found}</p>` : null}
      ${problem ? html`<${Message} title="This run cannot be read"><pre>${problem}</pre><//>` : !run.steps ? html`<${Message} title="No step yet"><p>The run is there; its first step appears here as soon as it was made.</p><//>` : null}
      ${scalars.map((name, at) => html`<${Scalar} key=${name} ...${{ name, bands: series.get(name), isFirst: at === 0, isLast: at === scalars.length - 1, isLog: state.log, width, side, range, theme, step: state.step, lines, gaps: unwritten, hovered, onZoom: page.zoomTo, onStep, onHover: setHovered, isNarrow }} />`)}
      ${logged.length > scalars.length || state.scalars ? html`<${Chips} ...${{ logged, scalars, set, side }} />` : null}
      <${Rail} ...${{ width, side, range, alerts: alerts ?? NONE, gaps, chosen: chosenAlert, theme, onAlert: page.goTo, onGap: page.goToGap }} />
      ${grid ? html`<${Legend} ...${{ grid, look, state, theme, marks, rows: rows.length, names: names.length, set, page }} />` : null}
      ${rows.length && run.steps ? html`<${Tracks} ...${{ rows, grid, other: b.grid, look, chosen, range, side, width, theme, hovered, onPick: page.pick, onToggle: page.toggle, onZoom: page.zoomTo, onHover: setHovered, onSeen: isLive ? setSeen : () => {} }} />`
        : about && run.steps ? html`<p class="message faint">${state.find ? `No name has “${state.find}” in it.` : "No name has numbers: only scalars were logged."}</p>` : null}
      ${state.circuit !== null ? html`<${Other} ...${{ number: state.circuit, others, value: state.value, beyond, theme, set, state, close: () => set({ circuit: null, value: null }) }} />` : null}
    </main>
    ${isDetailed ? html`<${Details} key=${state.name} ...${{ runs: parts.map((part) => part.run), grids: parts.map((part) => part.grid), chosen, field, about, others, toOther: page.toOther, alerts: alerts ?? NONE, gaps, unwritten, range, theme, scale: state.scale, stride, row: chosenRow, version: parts.map((part) => part.version).join(), width: innerWidth <= 900 ? innerWidth : 360, close: () => set({ open: false }), pick: page.pick, onZoom: page.zoomTo, onStep }} />` : null}
    <${Help} isOpen=${help} close=${() => setHelp(false)} />
    <p class="unseen" role="status">${said}</p>
  </div>`;
}

const NONE = [];
const EDGE = 18; // pixels at the right, so that the number of the last step has room
const GUTTER = (() => {
  // How wide a scroll bar is here.
  const box = document.createElement("div");
  box.className = "gutter";
  document.body.append(box);
  const width = box.offsetWidth - box.clientWidth;
  box.remove();
  return width;
})();

function namesOf(parts, field) {
  // Those that have the field, and those with NaN or Inf in whatever they have.
  if (!field) return [];
  const kind = field.split(".")[0];
  const found = new Set();
  for (const part of parts) {
    const bad = new Set((part.nonfinite?.stretches ?? []).map(([name]) => name));
    for (const [name, kinds] of part.about?.kindsOf ?? []) {
      if (kinds.includes(kind) || (bad.has(name) && !kinds.every((one) => one === "logged"))) found.add(name);
    }
  }
  return [...found];
}

function endsOf(grid, state) {
  const low = state.low ?? grid.range[0];
  return [low, Math.max(low + 1, state.high ?? grid.range[1])];
}

function marksIn({ stretches, rest }) {
  const names = new Set(stretches.map(([name]) => name)).size;
  const steps = stretches.reduce((sum, one) => sum + one[4], 0);
  return stretches.length ? `${rest === null ? "" : "more than "}${plural(steps, "time")}, ${plural(names, "name")}` : "";
}

function nearestStep(grid, step) {
  const bin = grid ? grid.binAt(step) : -1;
  return bin < 0 ? step : Math.max(grid.first[bin], Math.min(grid.last[bin], step));
}

function Scalar({ name, bands, isFirst, isLast, isLog, isNarrow, step, ...rest }) {
  const known = useMemo(() => (bands ?? NONE).filter((band) => band?.x.length), [bands]);
  const height = (isFirst ? (isNarrow ? 92 : 124) : 64) + (isLast ? 24 : 0);
  const values = known.map((band) => valueAt(band, step ?? Infinity));
  if (!known.length) return html`<div class="scalar" style=${{ height: `${height}px` }}></div>`;
  const positive = isLog && known.every((band) => band.least.every((one) => one === null || one > 0));
  return html`<div class="scalar"><p style=${{ width: `${rest.side - 62}px` }}><b title=${name}>${name}</b>${values.map((value, at) => html`<span class=${values.length > 1 ? `of-run of-${at}` : ""}>${value}</span>`)}</p>
    <${Chart} ...${{ ...rest, bands: known, isLog: positive, height, step, showsSteps: isLast, label: `${name} over the steps` }} /></div>`;
}

function valueAt(band, step) {
  const at = Math.max(0, band.first.findLastIndex((first) => first <= step));
  if (band.least[at] === null) return "NaN or Inf";
  const said = band.least[at] === band.greatest[at] ? rounded(band.least[at]) : `${rounded(band.least[at], 3)} to ${rounded(band.greatest[at], 3)}`;
  return band.marks.some(([first]) => first === band.first[at]) ? `${said}, NaN or Inf` : said;
}

function Chips({ logged, scalars, set, side }) {
  const turn = (name) => set({ scalars: scalars.includes(name) ? scalars.filter((one) => one !== name) : [...scalars, name] });
  return html`<div class="chips" style=${{ paddingLeft: `${side}px` }}>${logged.map((name) => html`<button key=${name} aria-pressed=${scalars.includes(name)} onclick=${() => turn(name)}>${name}</button>`)}</div>`;
}

function usePage(now) {
  // What keys and buttons do. One object for the page's whole life, which reads what is so now.
  const held = useRef({ badAt: -1 });
  Object.assign(held.current, now);
  return useMemo(() => actions(held.current), []);
}

render(html`<${App} />`, document.getElementById("app"));
