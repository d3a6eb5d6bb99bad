// Light or dark: as the system is, until a page around this one says what it is itself: a notebook has its own theme.

const THEMES = ["light", "dark"];

export const known = (theme) => THEMES.includes(theme);

export function followTheme(changed) {
  // Tells the theme now, and whenever it is another, until what it returns is called.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let outer = null;
  const tell = () => changed(outer ?? (dark.matches ? "dark" : "light"));
  const told = (event) => {
    if (event.source !== parent || parent === window || !known(event.data)) return;
    outer = event.data;
    tell();
  };
  dark.addEventListener("change", tell);
  addEventListener("message", told);
  const print = () => changed("light"); // what is dark would take much ink
  addEventListener("beforeprint", print);
  addEventListener("afterprint", tell);
  tell();
  return () => {
    dark.removeEventListener("change", tell);
    removeEventListener("message", told);
    removeEventListener("beforeprint", print);
    removeEventListener("afterprint", tell);
  };
}
