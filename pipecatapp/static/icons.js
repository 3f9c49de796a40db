// Hearth's own icons: one stroke on a 24-unit grid. Decoration only; the words beside them carry the meaning.
import { s } from "./dom.js"

const STROKES = {
  chat: "M6.5 4h11A2.5 2.5 0 0 1 20 6.5v7a2.5 2.5 0 0 1-2.5 2.5H11.5L7 19.8V16h-.5A2.5 2.5 0 0 1 4 13.5v-7A2.5 2.5 0 0 1 6.5 4z",
  talk: "M12 3.5a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0v-5a3 3 0 0 1 3-3zM5.5 11.5a6.5 6.5 0 0 0 13 0M12 18v3",
  runs: "M9.5 6H20M9.5 12H20M9.5 18H20M4 6l1 1 1.7-2M4 12l1 1 1.7-2M4 18l1 1 1.7-2",
  workflows: "M4 4h6v5H4zM14 15h6v5h-6zM7 9v5.5a3 3 0 0 0 3 3h4M14 6.5h3.5A2.5 2.5 0 0 1 20 9v2.5",
  evolution: "M5 12a1.5 1.5 0 1 0 0 .1zM6.5 12h4l3-6H18M10.5 12l3 6H18M10.5 12H18",
  status: "M3 12.5h4L9.5 5l5 14 2.5-6.5h4",
  logs: "M4 5h16v14H4zM7.5 9.5l2.5 2.5-2.5 2.5M12.5 15h4",
  attach: "M18.5 11.5l-6.8 6.8a4 4 0 0 1-5.7-5.7l7.5-7.5a2.7 2.7 0 0 1 3.8 3.8l-7.4 7.4a1.3 1.3 0 0 1-1.9-1.9l6.6-6.6",
  file: "M6.5 3.5h7l4 4v13h-11zM13.5 3.5v4h4",
  speaker: "M4 9.5h3.5L12 5.5v13L7.5 14.5H4zM15.5 9a4 4 0 0 1 0 6M18 6.5a8 8 0 0 1 0 11",
  stop: "M7 7h10v10H7z",
  tune: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  pin: "M9 4h6l-.7 6.2 3.2 3.3H6.5l3.2-3.3zM12 13.5V20",
  edit: "M5 19l.8-3.8L16 5l3 3L8.8 18.2z",
  branch: "M7 4v16M17 4v3a4 4 0 0 1-4 4h-2a4 4 0 0 0-4 4M4.8 6.2L7 4l2.2 2.2M14.8 6.2L17 4l2.2 2.2",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  send: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M6 6l12 12M18 6L6 18",
  forward: "M9 6l6 6-6 6",
  back: "M15 6l-6 6 6 6",
  copy: "M9 8h8.5A1.5 1.5 0 0 1 19 9.5V19a1.5 1.5 0 0 1-1.5 1.5h-7A1.5 1.5 0 0 1 9 19zM6 16a1 1 0 0 1-1-1V5a1.5 1.5 0 0 1 1.5-1.5H14a1 1 0 0 1 1 1",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  dark: "M20 14.5A8 8 0 1 1 9.5 4 6.5 6.5 0 0 0 20 14.5z",
  auto: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 4v16M12 8h5.8M12 12h7.5M12 16h5.8",
  leave: "M10 4H6.5A1.5 1.5 0 0 0 5 5.5v13A1.5 1.5 0 0 0 6.5 20H10M15 8l4 4-4 4M19 12H9.5",
  graph: "M9 3.5h6v5H9zM3 15.5h6v5H3zM15 15.5h6v5h-6zM12 8.5V12M6 15.5V12h12v3.5",
  more: "M12 5.5v.1M12 12v.1M12 18.5v.1",
  list: "M4 7h16M4 12h16M4 17h10",
  pause: "M8.5 5.5v13M15.5 5.5v13",
  rewind: "M6 5.5v13M18.5 5.5v13L9.5 12z",
  play: "M8 5.5v13l10.5-6.5z",
  eye: "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 9.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z",
  undo: "M8.5 5L4.5 9l4 4M4.5 9H14a5.5 5.5 0 0 1 0 11H9",
  redo: "M15.5 5l4 4-4 4M19.5 9H10a5.5 5.5 0 0 0 0 11h5",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7",
  wire: "M6.5 6.5a2 2 0 1 0 0 .1zM21.5 17.5a2 2 0 1 0 0 .1zM6.5 6.5H12v11h5.5",
  save: "M5 5h11l3 3v11H5zM8.5 5v4.5h6V5M8.5 19v-5.5h7V19",
  retry: "M19.5 12A7.5 7.5 0 1 1 17 6.4l2.5 2.3M19.5 4v4.7h-4.7",
  warning: "M12 4l9 16H3zM12 10v4.5M12 17.3v.1",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5L20 20",
}

const STATES = {
  idle: ["ring", ""],
  queued: ["ring dashed", "M12 8v4l2.5 2"],
  running: ["ring", ""],
  waiting: ["disc", "M9.5 8.5v7M14.5 8.5v7"],
  done: ["disc", "M7.5 12.5l3 3 6-6.5"],
  skipped: ["ring", "M8 12h8"],
  failed: ["gem", "M9 9l6 6M15 9l-6 6"],
  cancelled: ["ring", "M9 9h6v6H9z"],
}

/** A plain icon by name; follows the text's size and colour. */
export function icon(name) {
  return s("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: STROKES[name] }))
}

/** The icon of a state: each has its own shape, so that colour is never the only difference. */
export function stateIcon(state) {
  const [shape, mark] = STATES[state] ?? STATES.idle
  const outline = shape === "gem" ? s("path", { class: "gem", d: "M8 2.5h8L21.5 8v8L16 21.5H8L2.5 16V8z" }) : s("circle", { class: shape, cx: 12, cy: 12, r: 9 })
  const svg = s("svg", { class: "icon state-icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, outline)
  if (state === "running") svg.append(s("path", { class: "arc", d: "M12 3a9 9 0 0 1 9 9" }))
  if (mark) svg.append(s("path", { class: "mark", d: mark }))
  return svg
}

/** The sign of Hearth: a flame. */
export function flame() {
  return s(
    "svg",
    { class: "flame", viewBox: "0 0 32 32", "aria-hidden": "true" },
    s("path", { class: "flame-outer", d: "M16.6 2.6c.6 4 2.6 5.9 4.9 8.6 2.1 2.5 3.9 5 3.9 8.7 0 5.7-4.2 9.7-9.4 9.7s-9.4-4-9.4-9.6c0-3.5 1.6-6.2 3.8-8.6.6 2 1.5 3.2 3 4-.5-4.9.3-9.4 3.2-12.8z" }),
    s("path", { class: "flame-inner", d: "M16.2 16.4c.4 2.2 3.7 3.9 3.7 7 0 2.4-1.7 4-3.9 4s-3.9-1.6-3.9-3.9c0-2.9 3-4 4.1-7.1z" }),
  )
}
