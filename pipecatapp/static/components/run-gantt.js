import { h, s } from "../dom.js"
import { STATE_WORDS, duration, pathWords } from "../format.js"

const TALLEST = 132 // pixels of all lanes together
const LANE = 18

/**
 * <run-gantt>: when each step ran, as bars over the time of the run; steps at the same time lie in lanes. `show(view)`.
 * A picture with words for those who do not see it: the list of steps below holds the same. Tells "choose" with detail.path.
 */
class RunGantt extends HTMLElement {
  connectedCallback() {
    this.dataset.testid = "gantt"
    this.addEventListener("click", this.#click)
  }

  disconnectedCallback() {
    this.removeEventListener("click", this.#click)
  }

  /** With `at`, a moment in ISO 8601, a line stands there. */
  show(view, chosen = null, at = null) {
    const key = JSON.stringify([view.status, view.steps.map((step) => [step.path, step.status, step.ended]), chosen, at])
    const live = view.steps.some((step) => step.status === "running")
    if (this.key === key && !live) return
    this.key = key
    const bars = placed(view)
    this.hidden = !bars.length
    if (bars.length) this.#draw(bars, view, chosen, at)
  }

  #draw(bars, view, chosen, moment) {
    const lanes = Math.max(...bars.map((bar) => bar.lane)) + 1
    const lane = Math.min(LANE, TALLEST / lanes)
    const svg = s("svg", { class: "gantt-bars", height: Math.ceil(lanes * lane), width: "100%", role: "img", "aria-label": words(bars, view) })
    for (const { step, from, share, lane: at } of bars) {
      const bar = s("rect", { x: `${from * 100}%`, width: `${share * 100}%`, y: at * lane, height: Math.max(2, lane - 3), rx: 3, class: "gantt-bar", "data-state": step.status, "data-path": step.path, "data-chosen": step.path === chosen })
      bar.append(s("title", {}, [pathWords(step.path), STATE_WORDS[step.status], duration(step.seconds)].filter(Boolean).join(", ")))
      svg.append(bar)
    }
    if (moment) {
      const { start, seconds } = span(view)
      const x = `${Math.min(100, Math.max(0, (Date.parse(moment) - start) / 10 / seconds))}%`
      svg.append(s("line", { x1: x, x2: x, y1: 0, y2: "100%", class: "gantt-now" }))
    }
    this.replaceChildren(svg, h("div", { class: "gantt-scale", "aria-hidden": "true" }, h("span", {}, "0 s"), h("span", {}, duration(span(view).seconds))))
  }

  #click = (event) => {
    const path = event.target.closest("[data-path]")?.dataset.path
    if (path) this.dispatchEvent(new CustomEvent("choose", { detail: { path }, bubbles: true }))
  }
}

function span(view) {
  const start = Date.parse(view.started)
  const ends = view.steps.map((step) => Date.parse(step.ended ?? step.started)).filter((at) => !Number.isNaN(at))
  const end = view.ended ? Date.parse(view.ended) : Math.max(Date.now(), ...ends)
  return { start, seconds: Math.max(0.001, (Math.max(end, ...ends) - start) / 1000) }
}

/** The calls, each in the first lane that is free: {step, from, share, lane}, of the whole as 1. */
function placed(view) {
  const outer = new Set(view.steps.flatMap(({ path }) => path.split("/").slice(0, -1).map((_, i, parts) => parts.slice(0, i + 1).join("/"))))
  const { start, seconds } = span(view)
  const free = []
  const ran = view.steps.filter((step) => step.started && step.status !== "skipped" && (step.tool || !outer.has(step.path)))
  return ran.map((step) => {
    const [begin, end] = [step.started, step.ended].map((at) => (at ? (Date.parse(at) - start) / 1000 / seconds : 1))
    const share = Math.max(0.002, end - begin)
    const found = free.findIndex((until) => until <= begin + 1e-9)
    const lane = found < 0 ? free.length : found
    free[lane] = begin + share
    return { step, from: Math.min(begin, 0.998), share, lane }
  })
}

function words(bars, view) {
  const longest = bars.reduce((best, bar) => ((bar.step.seconds ?? 0) > (best.step.seconds ?? 0) ? bar : best)).step
  return `Timeline of ${bars.length} ${bars.length === 1 ? "step" : "steps"} in ${duration(span(view).seconds)}. The longest is ${pathWords(longest.path)} with ${duration(longest.seconds) || "no end yet"}.`
}

customElements.define("run-gantt", RunGantt)
