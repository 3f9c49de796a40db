import { h, s } from "../dom.js"
import { icon } from "../icons.js"
import { Viewport } from "./viewport.js"
import { neighbour } from "./walk.js"

const COLUMN = 96 // pixels between two generations
const ROW = 34 // pixels between two candidates of one generation
const SIZE = 22 // diameter of a candidate
const KEYS = "Arrow keys go from candidate to candidate, Enter opens one, plus and minus zoom, 0 shows all."

/**
 * <evolution-graph>: the candidates of a campaign. x is the generation, the colour the posterior mean of the pass rate, the
 * width of the halo its 95 % interval. `show(candidates, pinned, { keepView })` draws them; `pinned` are the ids on the way to
 * the live or proposed prompt, `keepView` leaves a part that a person has moved to in view. Tells "choose" with detail.id.
 * Panning and zooming move one layer, so the number of candidates does not
 * matter for it.
 */
class EvolutionGraph extends HTMLElement {
  #nodes = new Map()
  #boxes = new Map()
  #view = null
  #watch = new ResizeObserver(() => this.#view.touched || this.#view.fit())

  connectedCallback() {
    if (!this.#view) this.#build()
    this.#watch.observe(this)
  }

  disconnectedCallback() {
    this.#watch.disconnect()
  }

  #build() {
    this.layer = h("div", { class: "graph-layer" })
    this.frame = h("div", { class: "graph-frame", role: "application", "aria-roledescription": "graph", "aria-label": "Candidates", onkeydown: this.#key, onclick: this.#click, onfocusin: this.#focused }, this.layer)
    const tools = h("div", { class: "graph-tools" }, this.#tool("minus", "Zoom out", () => this.#view.zoom(0.8)), this.#tool("plus", "Zoom in", () => this.#view.zoom(1.25)), this.#tool("fit", "Show all", () => this.#view.fit()))
    this.#view = new Viewport(this.frame, this.layer)
    this.replaceChildren(this.frame, tools)
  }

  #tool(name, label, onclick) {
    return h("button", { type: "button", class: "icon-button small", "aria-label": label, title: label, onclick, dataset: { graphTool: name } }, icon(name))
  }

  show(candidates, pinned, { keepView = false } = {}) {
    this.#boxes = placed(candidates)
    this.#nodes.clear()
    const columns = Math.max(0, ...[...this.#boxes.values()].map((box) => box.x))
    const rows = Math.max(0, ...[...this.#boxes.values()].map((box) => box.y))
    const size = { width: columns + COLUMN, height: rows + ROW + SIZE }
    this.layer.replaceChildren(this.#lines(candidates, pinned, size), ...candidates.map((each) => this.#node(each, pinned)))
    Object.assign(this.layer.style, { width: `${size.width}px`, height: `${size.height}px` })
    this.frame.setAttribute("aria-label", `${candidates.length} candidates. ${KEYS}`)
    this.#view.size = size
    if (!(keepView && this.#view.touched)) this.#view.fit()
    this.#rove(candidates[0]?.id)
  }

  #lines(candidates, pinned, size) {
    const svg = s("svg", { class: "graph-lines", width: size.width, height: size.height, "aria-hidden": "true" })
    for (const each of candidates) {
      const to = this.#boxes.get(each.id)
      for (const parent of each.parents) {
        const from = this.#boxes.get(parent)
        if (!from) continue
        const [x, y, ex, ey] = [from.x + SIZE, from.y + SIZE / 2, to.x, to.y + SIZE / 2]
        const middle = (x + ex) / 2
        svg.append(s("path", { class: "graph-line", d: `M${x} ${y}C${middle} ${y} ${middle} ${ey} ${ex} ${ey}`, "data-lit": String(pinned.has(each.id) && pinned.has(parent)) }))
      }
    }
    return svg
  }

  #node(candidate, pinned) {
    const box = this.#boxes.get(candidate.id)
    const { mean, low, high, runs } = rates(candidate)
    const label = `${candidate.id}, ${candidate.origin}, ${runs ? `${Math.round(mean * 100)} percent, from ${Math.round(low * 100)} to ${Math.round(high * 100)}` : candidate.status}`
    const element = h("button", { type: "button", class: "candidate", tabindex: "-1", "aria-pressed": "false", "aria-label": label, title: label, testid: "candidate", dataset: { id: candidate.id, status: candidate.status, pinned: String(pinned.has(candidate.id)) } })
    Object.assign(element.style, { left: `${box.x}px`, top: `${box.y}px`, width: `${SIZE}px`, height: `${SIZE}px` })
    element.style.setProperty("--mean", `${Math.round(mean * 100)}%`)
    element.style.setProperty("--halo", `${Math.round((high - low) * 8)}px`)
    this.#nodes.set(candidate.id, element)
    return element
  }

  /** Marks the chosen candidate; null marks none. */
  choose(id) {
    for (const [each, element] of this.#nodes) element.setAttribute("aria-pressed", String(each === id))
    if (this.#nodes.has(id)) this.#rove(id)
  }

  #rove(id) {
    for (const [each, element] of this.#nodes) element.tabIndex = each === id ? 0 : -1
  }

  #click = (event) => {
    const id = event.target.closest(".candidate")?.dataset.id
    if (id) this.dispatchEvent(new CustomEvent("choose", { detail: { id }, bubbles: true }))
  }

  #focused = (event) => {
    const id = event.target.dataset.id
    if (!id) return
    this.#rove(id)
    if (event.target.matches(":focus-visible")) this.#view.reveal(this.#boxes.get(id))
  }

  #key = (event) => {
    const tool = { "+": () => this.#view.zoom(1.25), "-": () => this.#view.zoom(0.8), 0: () => this.#view.fit() }[event.key]
    const next = neighbour(this.#boxes, event.target.dataset.id, event.key)
    if (!tool && !next) return
    event.preventDefault()
    if (tool) tool()
    else this.#nodes.get(next).focus()
  }
}

/** Passes and runs on the search cases, the posterior mean, and Wilson's 95 % interval. */
export function rates(candidate) {
  const scores = Object.values(candidate.select)
  const passes = scores.reduce((sum, score) => sum + score.passes, 0)
  const runs = scores.reduce((sum, score) => sum + score.runs, 0)
  const mean = (passes + 1) / (runs + 2)
  if (!runs) return { passes, runs, mean, low: 0, high: 1 }
  const [rate, square] = [passes / runs, 1.959964 ** 2]
  const middle = (rate + square / (2 * runs)) / (1 + square / runs)
  const half = (1.959964 * Math.sqrt((rate * (1 - rate)) / runs + square / (4 * runs ** 2))) / (1 + square / runs)
  return { passes, runs, mean, low: Math.max(0, middle - half), high: Math.min(1, middle + half) }
}

/** A box for each candidate: columns by generation, rows in the order of the parents' rows. */
function placed(candidates) {
  const boxes = new Map()
  const generations = Map.groupBy(candidates, (each) => each.generation)
  for (const [generation, members] of [...generations].sort(([a], [b]) => a - b)) {
    const above = (each) => boxes.get(each.parents[0])?.y ?? 0
    for (const [row, each] of members.toSorted((a, b) => above(a) - above(b)).entries()) {
      boxes.set(each.id, { x: SIZE + generation * COLUMN, y: SIZE + row * ROW, width: SIZE, height: SIZE })
    }
  }
  return boxes
}

customElements.define("evolution-graph", EvolutionGraph)
