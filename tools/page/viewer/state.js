// What is looked at, and the address that holds all of it: whoever opens the same address sees the same.

import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { atFirst } from "./asking.js";
import { followTheme, known } from "./theme.js";

const NUMBERS = ["run", "with", "from", "to", "step", "low", "high", "circuit", "patch"];
const TEXTS = ["field", "mode", "scale", "name", "value", "find", "theme", "all"];
const FLAGS = ["log", "open", "predicted"];
const LISTS = ["turned", "scalars"];

export const START = {
  ...Object.fromEntries([...NUMBERS, ...TEXTS, ...LISTS].map((key) => [key, null])),
  mode: "greatest", scale: "viridis", find: "", log: false, open: false, predicted: false, turned: [],
};

export function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const found = {};
  for (const key of NUMBERS) if (words.has(key) && Number.isFinite(+words.get(key))) found[key] = +words.get(key);
  for (const key of TEXTS) if (words.has(key)) found[key] = words.get(key);
  for (const key of FLAGS) if (words.has(key)) found[key] = words.get(key) === "1";
  for (const key of LISTS) {
    try {
      const list = JSON.parse(words.get(key));
      if (Array.isArray(list) && list.every((one) => typeof one === "string")) found[key] = list;
    } catch {
      // an address that somebody has changed: without this list
    }
  }
  return found;
}

function writeAddress(state) {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (value === START[key] || value === null || (Array.isArray(value) && !value.length && key === "turned")) continue;
    words.set(key, Array.isArray(value) ? JSON.stringify(value) : value === true ? "1" : value);
  }
  try {
    history.replaceState(null, "", `#${words}`);
  } catch {
    // a page within a notebook has no address
  }
}

export function useAddress() {
  const [state, setState] = useState(() => ({ ...START, ...atFirst, ...readAddress() }));
  useEffect(() => {
    const changed = () => setState({ ...START, ...atFirst, ...readAddress() });
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    const later = setTimeout(() => writeAddress(state), 60);
    return () => clearTimeout(later);
  }, [state]);
  return [state, (change) => setState((old) => ({ ...old, ...(typeof change === "function" ? change(old) : change) }))];
}

export function useAnswer(key, make) {
  // The last answer to a question that changes: one is asked at a time, and then only the newest.
  const [found, setFound] = useState({ key: null, value: null, error: null });
  const work = useRef({ isBusy: false, done: null, wanted: null });
  useEffect(() => {
    const { current } = work;
    Object.assign(current, { wanted: key, make });
    if (current.isBusy || key === null) return;
    (async () => {
      current.isBusy = true;
      while (current.wanted !== null && current.wanted !== current.done) {
        const now = current.wanted;
        let [value, error] = [null, null];
        try {
          value = await current.make();
        } catch (raised) {
          error = raised;
        }
        current.done = now;
        setFound((old) => ({ key: now, value: error ? old.value : value, error }));
      }
      current.isBusy = false;
    })();
  }, [key]);
  return found;
}

export function usePrinting() {
  const [is, set] = useState(false);
  useEffect(() => {
    addEventListener("beforeprint", () => set(true));
    addEventListener("afterprint", () => set(false));
  }, []);
  return is;
}

export function useTheme(chosen) {
  const [found, setFound] = useState("light");
  useLayoutEffect(() => followTheme(setFound), []);
  const theme = known(chosen) ? chosen : found;
  document.documentElement.dataset.theme = theme;
  return theme;
}

export function useWidth(box) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const sizes = new ResizeObserver(() => box.current && setWidth(Math.floor(box.current.clientWidth)));
    sizes.observe(box.current);
    return () => sizes.disconnect();
  }, []);
  return width;
}
