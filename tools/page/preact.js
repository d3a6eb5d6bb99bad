// Preact with its hooks, and htm in place of a compiler: what the viewer's page is made with.

import htm from "htm";
import { h } from "preact";

export { render } from "preact";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export const html = htm.bind(h);
