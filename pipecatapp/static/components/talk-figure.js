import { s } from "../dom.js"

const WORDS = { off: "asleep", waking: "waking up", listening: "listening", thinking: "thinking", speaking: "speaking", trouble: "in trouble" }

/** <talk-figure data-state>: a small fire with a face, our own drawing. CSS draws what it does; `level` moves its flame or its mouth. */
class TalkFigure extends HTMLElement {
  connectedCallback() {
    if (this.picture) return
    this.picture = s(
      "svg",
      { viewBox: "0 0 200 200", role: "img" },
      s("circle", { class: "figure-glow", cx: 100, cy: 108, r: 84 }),
      s("path", { class: "figure-waves", d: "M22 84q-12 26 0 52M36 92q-8 18 0 36M178 84q12 26 0 52M164 92q8 18 0 36" }),
      s("path", { class: "figure-log", d: "M52 178l96-14" }),
      s("path", { class: "figure-log", d: "M52 164l96 14" }),
      s(
        "g",
        { class: "figure-body" },
        s("path", { class: "figure-flame", d: "M104 18c-4 22 6 32 20 48 14 15 26 32 26 56 0 30-22 50-50 50s-50-20-50-48c0-22 12-38 26-52 2 14 8 20 14 24-4-30-2-56 14-78z" }),
        s("path", { class: "figure-core", d: "M102 84c2 14 32 22 32 52 0 20-15 33-34 33s-34-13-34-32c0-26 28-32 36-53z" }),
        s("g", { class: "figure-eyes" }, eye(86), eye(114)),
        s("path", { class: "figure-brows", d: "M77 112l15-7M123 112l-15-7" }),
        s("path", { class: "figure-smile", d: "M91 143q9 8 18 0" }),
        s("ellipse", { class: "figure-mouth", cx: 100, cy: 147, rx: 9, ry: 7 }),
      ),
      s("g", { class: "figure-thoughts" }, ...[[156, 62, 5], [168, 46, 7], [184, 26, 9]].map(([cx, cy, r]) => s("circle", { cx, cy, r }))),
      s("g", { class: "figure-sparks" }, ...[[66, 46], [132, 30], [148, 66]].map(([cx, cy]) => s("circle", { cx, cy, r: 3 }))),
    )
    this.replaceChildren(this.picture)
    this.state = "off"
  }

  set state(state) {
    this.dataset.state = state
    this.picture.setAttribute("aria-label", `The agent is ${WORDS[state]}`)
  }

  /** How loud it is, 0 to 1. */
  set level(level) {
    this.style.setProperty("--level", Math.min(1, level * 2).toFixed(2))
  }
}

const eye = (x) => s("ellipse", { class: "figure-eye", cx: x, cy: 126, rx: 5.5, ry: 8 })

customElements.define("talk-figure", TalkFigure)
