// Colours: of magnitudes, of what is above and below, and of the theme, as a canvas takes them.

const STOPS = {
  viridis: ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"],
  cividis: ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"],
  grey: { light: ["f1f3f5", "30363d"], dark: ["22272d", "eef1f4"] },
};
const SIGNED = {
  light: ["2166ac", "4393c3", "92c5de", "d1e5f0", "f4f5f6", "fddbc7", "f4a582", "d6604d", "b2182b"],
  dark: ["a6d8ff", "6db3e8", "3a7fb8", "28506f", "262b31", "6b3d2a", "b3573a", "e98263", "ffc2a6"],
};
const LEVELS = 256;

export const SCALES = Object.keys(STOPS);

function table(stops) {
  const rgb = stops.map((one) => [0, 2, 4].map((at) => parseInt(one.slice(at, at + 2), 16)));
  return Uint32Array.from({ length: LEVELS }, (_, level) => {
    const x = (level / (LEVELS - 1)) * (rgb.length - 1);
    const at = Math.min(rgb.length - 2, Math.floor(x));
    const [red, green, blue] = rgb[at].map((one, k) => Math.round(one + (rgb[at + 1][k] - one) * (x - at)));
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  });
}

const tables = new Map();

export function colourTable(scale, isSigned, theme) {
  const key = `${isSigned ? "signed" : scale} ${theme}`;
  if (!tables.has(key)) {
    const stops = isSigned ? SIGNED[theme] : (STOPS[scale][theme] ?? STOPS[scale]);
    tables.set(key, table(stops));
  }
  return tables.get(key);
}

export const levelOf = (part) => Math.max(0, Math.min(LEVELS - 1, Math.round(part * (LEVELS - 1))));

export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function packedColour(name) {
  // A colour of the theme as one pixel.
  const hex = token(name).slice(1);
  const [red, green, blue] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
