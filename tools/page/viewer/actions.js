// What keys and buttons do to what is looked at. ``now`` has what is so at the moment.

import { ask } from "./asking.js";
import { modulesAround } from "./names.js";
import { plural, stepsOf } from "./words.js";

export function actions(now) {
  const { set } = now;
  const rowAt = () => now.rows.findIndex((row) => row.key === now.state.name);
  const opened = (name) => {
    // The modules around a name are opened: which are turned, then.
    const turned = new Set(now.state.turned);
    for (const key of modulesAround(name)) if (!now.isOpen(key)) turned.has(key) ? turned.delete(key) : turned.add(key);
    return [...turned];
  };
  const within = (step) => {
    // The steps that are shown, moved so that a step is among them.
    if (now.state.from === null || (step >= now.state.from && step <= now.state.to)) return {};
    const size = now.state.to - now.state.from;
    const from = Math.max(now.run.first, Math.round(step - size / 2));
    return { from, to: from + size };
  };
  const page = {
    isCovered: () => now.state.circuit !== null,
    focusSearch: () => document.getElementById("search").focus(),
    showKeys: () => now.setHelp(true),
    escape: () => {
      if (document.activeElement?.id === "search") document.activeElement.blur();
      else if (now.state.circuit !== null) set({ circuit: null, value: null });
      else if (now.state.open) set({ open: false });
      else set({ step: null });
    },
    toggleTheme: () => set({ theme: now.theme === "dark" ? "light" : "dark" }),
    toggleLog: () => set({ log: !now.state.log }),
    toggleFollow: () => now.setFollowing((is) => !is),
    nextView: () => {
      const modes = ["greatest", "least", "change", ...(now.other ? ["ratio"] : [])];
      set({ mode: modes[(modes.indexOf(now.mode) + 1) % modes.length] });
    },
    choose: (run) => set({ run, with: now.other?.run === run ? now.run.run : now.state.with, ...(now.other ? {} : { from: null, to: null, step: null }) }),
    compare: (run) => set({ with: run, mode: run === null ? "greatest" : "ratio" }),

    pick: (name, step) => set({ name, open: true, ...(step === undefined ? {} : { step }) }),
    showDetails: () => {
      if (now.state.name === null) return;
      set({ open: true });
      setTimeout(() => document.getElementById("details")?.focus(), 50);
    },
    moveRow: (by) => {
      if (!now.rows.length) return;
      const at = rowAt();
      const to = at < 0 ? (by > 0 && Number.isFinite(by) ? 0 : by > 0 ? now.rows.length - 1 : 0) : Math.max(0, Math.min(now.rows.length - 1, at + by));
      set({ name: now.rows[to].key });
    },
    turn: (opens) => {
      const row = now.rows[rowAt()];
      if (!row) return;
      if (row.hasInner && row.open !== opens) page.toggle(row.key);
      else if (opens && row.hasInner) page.moveRow(1);
      else if (!opens) {
        const around = now.rows.slice(0, rowAt()).findLast((one) => one.depth < row.depth);
        if (around) set({ name: around.key });
      }
    },
    toggle: (key) => set(({ turned }) => ({ turned: turned.includes(key) ? turned.filter((one) => one !== key) : [...turned, key] })),
    openAll: () => set({ all: now.rows.some((row) => row.hasInner && !row.open) ? "open" : "closed", turned: [] }),

    moveStep: (by) => {
      const { grid } = now;
      if (!grid?.count) return;
      const at = now.state.step === null ? (by > 0 ? -1 : grid.count) : grid.binAt(now.state.step);
      set({ step: grid.first[Math.max(0, Math.min(grid.count - 1, at + by))] });
    },
    zoom: (from, to) => set({ from, to }),
    zoomTo: (low, high) => {
      const from = Math.max(now.run.first, Math.floor(low));
      const to = Math.max(from, Math.ceil(high) - 1);
      set({ from, to });
    },
    zoomBy: (factor) => {
      const [low, high] = now.range;
      const middle = now.state.step ?? (low + high) / 2;
      const half = Math.max(1, ((high - low) * factor) / 2);
      if (factor > 1 && middle - half <= now.run.first && middle + half >= now.run.last) page.zoom(null, null);
      else page.zoomTo(middle - half, Math.min(middle + half, now.run.last + 1));
    },
    shift: (part) => {
      if (now.state.from === null) return;
      const size = now.state.to - now.state.from;
      const from = Math.max(now.run.first, Math.min(now.run.last - size, now.state.from + Math.round(part * (size + 1))));
      set({ from, to: from + size });
    },

    toOther: (number, value) => set({ circuit: number, value }),
    showInRun: (name) => set({ circuit: null, value: null, name, open: true, turned: opened(name), find: "" }),
    goTo: (alert) => {
      const read = alert.field.replace(/\.(count|finite|nan|posinf|neginf)$/, ".rms"); // counts of what marks show anyway
      const field = now.about?.fields.includes(read) && read !== "logged" ? { field: read, low: null, high: null } : {};
      set({ ...field, circuit: null, value: null, name: alert.name, step: alert.step, open: true, turned: opened(alert.name), find: "", ...within(alert.step) });
      now.say(alert.headline);
    },
    goToGap: (gap) => {
      const step = gap.steps[0]?.[0] ?? null;
      set({ ...(gap.names.length ? { name: gap.names[0], open: true, turned: opened(gap.names[0]), find: "" } : {}), step, ...(step === null ? {} : within(step)) });
      now.say(gap.headline);
    },
    goToParting: ({ step, rows: [[name, kind]] }) => {
      const field = now.about?.fields.includes(`${kind}.rms`) ? { field: `${kind}.rms`, low: null, high: null } : {};
      set({ ...field, name, step, open: true, turned: opened(name), find: "", ...within(step) });
    },
    nextAlert: (by) => {
      const { alerts, state } = now;
      if (!alerts?.length) return now.say("no alerts");
      const at = alerts.findIndex((one) => one.name === state.name && one.step === state.step);
      return page.goTo(alerts[(at < 0 ? (by > 0 ? 0 : alerts.length - 1) : at + by + alerts.length) % alerts.length]);
    },
    nextNonfinite: async (by) => {
      const found = now.nonfinite;
      if (!found?.stretches.length) return now.say("no NaN or Inf");
      const { stretches } = found;
      const { name, step } = now.state;
      const here = stretches[now.badAt];
      let at = here && here[0] === name && here[2] === step ? now.badAt + by : stretches.findIndex((one) => step === null || one[2] >= step);
      if (at >= stretches.length && found.rest !== null) await more(found);
      at = at < 0 ? stretches.length - 1 : at % stretches.length;
      now.badAt = at;
      const [badName, kind, first, last, count] = stretches[at];
      const field = now.grid && now.grid.field.split(".")[0] !== kind && !now.about.kindsOf.get(badName)?.includes(now.grid.field.split(".")[0]) && kind !== "logged" ? { field: `${kind}.rms` } : {};
      set({ ...field, name: badName, step: first, open: true, turned: opened(badName), find: "", ...within(first) });
      return now.say(`NaN or Inf ${at + 1} of ${stretches.length}: ${badName}, ${kind}, ${stepsOf(first, last)}, ${plural(count, "step")}`);
    },
  };

  async function more(found) {
    // The next of them, behind those that are known.
    const next = await ask("nonfinite", { run: now.run.run, from: found.rest }).catch(() => null);
    if (!next) return;
    found.stretches.push(...next.stretches);
    found.rest = next.rest;
  }
  return page;
}
