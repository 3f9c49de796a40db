import { h, s } from "../dom.js"
import { ticking } from "../events.js"
import { STATE_WORDS, duration } from "../format.js"
import { icon, stateIcon } from "../icons.js"
import { curve, layout } from "./layout.js"
import { Viewport } from "./viewport.js"
import { neighbour } from "./walk.js"

const LEGIBLE = 0.62 // by itself a graph gets no smaller than this; "Show all" does what it says
export const MANY = 80 // nodes; laying out more takes too long for the page to wait
const KEYS = "Arrow keys go from node to node, Enter opens one, plus and minus zoom, 0 shows all."

/**
 * <run-graph>: a workflow's graph, and with it the states of a run.
 * `show(graph)` lays it out once; `states(path → {state, started, seconds, inner})` colours it, as often as one likes.
 * Tells "choose" with detail.path when a node is opened. Style nodes by [data-state], [data-kind], [aria-pressed].
 */
class RunGraph extends HTMLElement {
  #nodes = new Map()
  #lines = []
  #placed = null
  #graph = null
  #view = null
  #of = () => ({ state: "idle", inner: [] })
  #chosen = null
  #watch = new ResizeObserver(() => this.#view.touched || this.#view.fit(LEGIBLE))
  #stopTicking = () => {}

  connectedCallback() {
    if (!this.#view) this.#build()
    this.#watch.observe(this)
    this.#stopTicking = ticking(() => this.#tick())
  }

  disconnectedCallback() {
    this.#watch.disconnect()
    this.#stopTicking()
  }

  #build() {
    this.layer = h("div", { class: "graph-layer" })
    this.frame = h("div", { class: "graph-frame", role: "application", "aria-roledescription": "graph", "aria-label": "Graph", onkeydown: this.#key, onclick: this.#click, onfocusin: this.#focused }, this.layer)
    const tools = h("div", { class: "graph-tools" }, this.#tool("minus", "Zoom out", () => this.#view.zoom(0.8)), this.#tool("plus", "Zoom in", () => this.#view.zoom(1.25)), this.#tool("fit", "Show all", () => this.#view.fit()))
    this.#view = new Viewport(this.frame, this.layer)
    this.replaceChildren(this.frame, tools)
  }

  #tool(name, label, onclick) {
    return h("button", { type: "button", class: "icon-button small", "aria-label": label, title: label, onclick, dataset: { graphTool: name } }, icon(name))
  }

  async show(graph) {
    if (this.#graph === graph || JSON.stringify(this.#graph) === JSON.stringify(graph)) return
    this.#graph = graph
    this.dataset.busy = graph.nodes.length > MANY
    const placed = graph.nodes.length > MANY ? await layoutAside(graph) : layout(graph)
    if (this.#graph === graph) this.#draw(graph, placed)
  }

  #draw(graph, placed) {
    this.#placed = placed
    this.dataset.busy = false
    this.#nodes.clear()
    this.layer.replaceChildren(this.#drawLines(), ...inLayers(graph.nodes).map((node) => this.#drawNode(node)))
    this.layer.style.width = `${this.#placed.width}px`
    this.layer.style.height = `${this.#placed.height}px`
    this.frame.setAttribute("aria-label", `Graph of ${graph.nodes.length} ${graph.nodes.length === 1 ? "node" : "nodes"}. ${KEYS}`)
    this.#view.size = this.#placed
    this.#view.fit(LEGIBLE)
    this.#rove(graph.nodes[0]?.path)
    this.states(this.#of)
    this.choose(this.#chosen)
  }

  #drawLines() {
    const svg = s("svg", { class: "graph-lines", width: this.#placed.width, height: this.#placed.height, "aria-hidden": "true" })
    this.#lines = this.#placed.lines.map((line) => {
      const path = s("path", { d: curve(line.points), class: "graph-line", "data-kind": line.kind ?? "data" })
      const head = s("path", { d: "M-4 -7L0 -1L4 -7", class: "graph-head", transform: `translate(${line.points.at(-1).x} ${line.points.at(-1).y})` })
      svg.append(path, head)
      return { ...line, elements: [path, head] }
    })
    return svg
  }

  #drawNode(node) {
    const box = this.#placed.boxes.get(node.path)
    const mark = h("span", { class: "graph-mark" }, stateIcon("idle"))
    const [what, time] = [h("span", { class: "graph-what" }), h("span", {})]
    const note = h("span", { class: "graph-note" }, what, time)
    const words = h("span", { class: "graph-words" }, h("span", { class: "graph-label" }, node.label || node.id), note)
    const element = h("button", { type: "button", class: "graph-node", tabindex: "-1", "aria-pressed": "false", title: node.about || null, testid: "graph-node", dataset: { path: node.path, kind: node.kind, state: "idle", scope: box.scope } }, mark, words)
    Object.assign(element.style, { left: `${box.x}px`, top: `${box.y}px`, width: `${box.width}px`, height: `${box.height}px` })
    const known = { element, mark, what, time, node, told: {} }
    this.#nodes.set(node.path, known)
    this.#paint(known, { state: "idle", inner: [] })
    return element
  }

  states(of) {
    this.#of = of
    for (const [path, known] of this.#nodes) this.#paint(known, of(path))
    for (const line of this.#lines) {
      const lit = this.#nodes.get(line.from)?.told.state === "done" && this.#nodes.get(line.to)?.told.state !== "idle"
      for (const element of line.elements) element.dataset.lit = lit
    }
  }

  #paint(known, told) {
    if (known.told.state !== told.state) {
      known.element.dataset.state = told.state
      known.mark.replaceChildren(stateIcon(told.state))
    }
    known.told = told
    this.#caption(known)
  }

  #caption({ element, what, time, node, told }) {
    const running = told.state === "running"
    const taken = running && told.started ? duration(Math.max(0, (Date.now() - Date.parse(told.started)) / 1000)) : told.state === "skipped" ? "" : duration(told.seconds)
    write(what, (running && node.kind === "agent" && told.inner?.at(-1)?.tool) || node.use || node.kind)
    write(time, taken)
    const label = [node.label || node.id, STATE_WORDS[told.state].toLowerCase(), taken].filter(Boolean).join(", ")
    if (element.getAttribute("aria-label") !== label) element.setAttribute("aria-label", label)
  }

  #tick() {
    for (const known of this.#nodes.values()) if (known.told.state === "running") this.#caption(known)
  }

  /** Marks the chosen node; null marks none. */
  choose(path) {
    this.#chosen = path
    for (const [each, { element }] of this.#nodes) element.setAttribute("aria-pressed", String(each === path))
    if (this.#nodes.has(path)) this.#rove(path)
  }

  #rove(path) {
    for (const [each, { element }] of this.#nodes) element.tabIndex = each === path ? 0 : -1
  }

  #click = (event) => {
    const path = event.target.closest(".graph-node")?.dataset.path
    if (path) this.dispatchEvent(new CustomEvent("choose", { detail: { path }, bubbles: true }))
  }

  #focused = (event) => {
    const path = event.target.dataset.path
    if (!path) return
    this.#rove(path)
    if (event.target.matches(":focus-visible")) this.#view.reveal(this.#placed.boxes.get(path))
  }

  #key = (event) => {
    const tool = { "+": () => this.#view.zoom(1.25), "-": () => this.#view.zoom(0.8), 0: () => this.#view.fit() }[event.key]
    const next = neighbour(this.#placed.boxes, event.target.dataset.path, event.key)
    if (!tool && !next) return
    event.preventDefault()
    if (tool) tool()
    else this.#nodes.get(next).element.focus()
  }
}

/** Lays out a big graph in a worker. */
export function layoutAside(graph) {
  const worker = new Worker(new URL("./layout-worker.js", import.meta.url), { type: "module" })
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data)
    worker.onerror = ({ message }) => reject(new Error(`The graph cannot be laid out: ${message}`))
    worker.postMessage(graph)
  }).finally(() => worker.terminate())
}

/** Scopes before what they hold, so that they lie behind it. */
function inLayers(nodes) {
  return [...nodes].sort((a, b) => a.path.split("/").length - b.path.split("/").length)
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text
}

customElements.define("run-graph", RunGraph)
