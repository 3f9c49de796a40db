import { announce, h, s } from "../dom.js"
import { icon } from "../icons.js"
import { curve, layout } from "./layout.js"
import { MANY, layoutAside } from "./run-graph.js"
import { Viewport } from "./viewport.js"
import { neighbour } from "./walk.js"

const LEGIBLE = 0.62
const KEYS = "Arrow keys follow the wires, A adds a node, E edits, W starts a wire, Delete removes, F2 renames."

/**
 * <edit-graph>: the graph of a draft, as an ARIA tree. `show(graph, problems)` draws it; `problems` are paths with errors.
 * Tells "choose" {path}, "edit" {path}, "rename" {path}, "remove" {path}, "add" {path}, "wire" {from, to},
 * "wire-open" {from} for a wire that ends on the empty canvas, and "unwire" {from, to}.
 */
class EditGraph extends HTMLElement {
  #nodes = new Map()
  #graph = null
  #shape = "" // what is drawn of the graph
  #placed = null
  #view = null
  #chosen = null
  #wiring = null // the path that a wire by keyboard begins at
  #watch = new ResizeObserver(() => this.#view.touched || this.#view.fit(LEGIBLE))

  connectedCallback() {
    if (!this.#view) this.#build()
    this.#watch.observe(this)
  }

  disconnectedCallback() {
    this.#watch.disconnect()
  }

  #build() {
    this.layer = h("div", { class: "graph-layer" })
    this.frame = h("div", { class: "graph-frame", role: "tree", "aria-label": `Graph of the workflow. ${KEYS}`, testid: "canvas", onkeydown: this.#key, onclick: this.#click, onfocusin: this.#focused, onpointerdown: this.#grab }, this.layer)
    const tools = h("div", { class: "graph-tools" }, this.#tool("minus", "Zoom out", () => this.#view.zoom(0.8)), this.#tool("plus", "Zoom in", () => this.#view.zoom(1.25)), this.#tool("fit", "Show all", () => this.#view.fit()))
    this.frame.addEventListener("pointerdown", (event) => event.target.closest(".port") && event.stopImmediatePropagation())
    this.#view = new Viewport(this.frame, this.layer)
    this.replaceChildren(this.frame, tools)
  }

  #tool(name, label, onclick) {
    return h("button", { type: "button", class: "icon-button small", "aria-label": label, title: label, onclick, dataset: { graphTool: name } }, icon(name))
  }

  async show(graph, problems) {
    const shape = shapeOf(graph)
    this.#graph = graph
    if (this.#shape !== shape) {
      this.#shape = shape
      const planned = { nodes: graph.nodes, edges: [...graph.edges, ...toTheEnds(graph)] }
      const placed = graph.nodes.length > MANY ? await layoutAside(planned) : layout(planned)
      if (this.#shape !== shape) return
      this.#draw(graph, placed)
    }
    for (const [path, element] of this.#nodes) this.#mark(element, problems.has(path))
  }

  #draw(graph, placed) {
    const focused = this.contains(document.activeElement) && document.activeElement.dataset.path
    this.#placed = placed
    this.#nodes.clear()
    const shallow = (node) => node.path.split("/").length
    const nodes = [...graph.nodes].sort((a, b) => shallow(a) - shallow(b))
    this.layer.replaceChildren(this.#drawLines(graph), ...nodes.map((node) => this.#drawNode(node)))
    Object.assign(this.layer.style, { width: `${placed.width}px`, height: `${placed.height}px` })
    this.#view.size = placed
    if (!this.#view.touched) this.#view.fit(LEGIBLE)
    this.choose(this.#nodes.has(this.#chosen) ? this.#chosen : null)
    if (focused) (this.#nodes.get(focused) ?? this.#nodes.get(this.#chosen) ?? this.#nodes.values().next().value)?.focus()
  }

  #drawLines(graph) {
    this.loose = s("path", { class: "graph-line loose" })
    const svg = s("svg", { class: "graph-lines", width: this.#placed.width, height: this.#placed.height, "aria-hidden": "true" })
    const written = new Set(graph.edges.map(({ from, to }) => `${from}\n${to}`))
    for (const line of this.#placed.lines.filter(({ kind }) => kind !== "hidden")) {
      const d = curve(line.points)
      const end = line.points.at(-1)
      const hit = s("path", { d, class: "wire-hit", "data-from": line.from, "data-to": line.to, "data-testid": "wire" })
      svg.append(s("path", { d, class: "graph-line", "data-kind": line.kind }), s("path", { d: "M-4 -7L0 -1L4 -7", class: "graph-head", transform: `translate(${end.x} ${end.y})` }))
      if (written.has(`${line.from}\n${line.to}`)) svg.append(hit)
    }
    svg.append(this.loose)
    return svg
  }

  #drawNode(node) {
    const box = this.#placed.boxes.get(node.path)
    const words = h("span", { class: "graph-words" }, h("span", { class: "graph-label" }, node.id), h("span", { class: "graph-note" }, h("span", { class: "graph-what" }, caption(node))))
    const ports = [node.path !== ":inputs" && h("span", { class: "port port-in", "aria-hidden": "true" }), node.path !== ":outputs" && h("span", { class: "port port-out", title: "Drag to the node that reads this one", "aria-hidden": "true", testid: "port-out" })]
    const element = h("div", { class: "graph-node edit-node", role: "treeitem", tabindex: "-1", "aria-selected": "false", "aria-level": node.path.split("/").length, "aria-expanded": box.scope ? "true" : null, title: node.about || null, testid: "edit-node", dataset: { path: node.path, kind: node.kind, state: "idle", scope: box.scope } }, ports, words, h("span", { class: "node-fault" }, icon("warning")))
    Object.assign(element.style, { left: `${box.x}px`, top: `${box.y}px`, width: `${box.width}px`, height: `${box.height}px` })
    this.#nodes.set(node.path, element)
    return element
  }

  #mark(element, faulty) {
    const node = this.#graph.nodes.find((each) => each.path === element.dataset.path)
    if (!node) return // a bigger graph is being laid out
    element.dataset.faulty = faulty
    element.setAttribute("aria-label", [node.id, caption(node), faulty && "has an error"].filter(Boolean).join(", "))
  }

  /** Marks the chosen node; null marks none. */
  choose(path, { reveal = false } = {}) {
    this.#chosen = path
    for (const [each, element] of this.#nodes) element.setAttribute("aria-selected", String(each === path))
    this.#rove(path && this.#nodes.has(path) ? path : this.#nodes.keys().next().value)
    if (reveal && this.#placed.boxes.has(path)) this.#view.reveal(this.#placed.boxes.get(path))
  }

  focusNode(path) {
    ;(this.#nodes.get(path) ?? this.#nodes.values().next().value)?.focus()
  }

  /** The scope whose box lies at a point of the window: a path, "" for the workflow, null outside of the canvas. */
  scopeAt(x, y) {
    const under = document.elementFromPoint(x, y)
    if (!under || !this.contains(under)) return null
    const path = under.closest(".edit-node")?.dataset.path ?? ""
    const node = this.#graph.nodes.find((each) => each.path === path)
    return node && !["steps", "graph"].includes(node.kind) ? node.parent : path
  }

  #rove(path) {
    for (const [each, element] of this.#nodes) element.tabIndex = each === path ? 0 : -1
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }))
  }

  #click = (event) => {
    const wire = event.target.closest(".wire-hit")
    if (wire) return this.#chooseWire(wire)
    const path = event.target.closest(".edit-node")?.dataset.path
    if (path) this.#tell("choose", { path })
  }

  #chooseWire(wire) {
    for (const each of this.layer.querySelectorAll(".wire-hit[data-chosen]")) delete each.dataset.chosen
    wire.dataset.chosen = "true"
    this.#nodes.get(wire.dataset.to)?.focus()
    announce(`Wire from ${wire.dataset.from} to ${wire.dataset.to}. Delete removes it.`)
  }

  #focused = (event) => {
    const path = event.target.dataset.path
    if (!path) return
    this.#rove(path)
    if (event.target.matches(":focus-visible")) this.#view.reveal(this.#placed.boxes.get(path))
  }

  #key = (event) => {
    const path = event.target.dataset.path
    if (!path || event.ctrlKey || event.metaKey || event.altKey) return
    const act = { "+": () => this.#view.zoom(1.25), "-": () => this.#view.zoom(0.8), 0: () => this.#view.fit(), a: () => this.#tell("add", { path }), e: () => this.#tell("edit", { path }), w: () => this.#begin(path), F2: () => this.#tell("rename", { path }), Enter: () => this.#enter(path), Delete: () => this.#delete(path), Backspace: () => this.#delete(path), Escape: () => this.#cancel() }[event.key]
    const next = act ? null : this.#next(path, event.key)
    if (!act && !next) return
    event.preventDefault()
    if (act) act()
    else this.#nodes.get(next).focus()
  }

  /** Down and up follow the wires of a node, in the order in which they lie; elsewhere the nearest node is next. */
  #next(path, key) {
    const ends = { ArrowDown: ["from", "to"], ArrowUp: ["to", "from"] }[key]
    const lines = ends ? this.#placed.lines.filter((line) => line[ends[0]] === path) : []
    const drawn = lines.filter((line) => line.kind !== "hidden")
    const along = (drawn.length ? drawn : lines).map((line) => line[ends[1]])
    along.sort((a, b) => this.#placed.boxes.get(a).x - this.#placed.boxes.get(b).x)
    return along[0] ?? neighbour(this.#placed.boxes, path, key)
  }

  #begin(path) {
    if (path === ":outputs") return announce("Nothing reads the outputs of the workflow here.")
    this.#wiring = path
    this.dataset.wiring = "true"
    this.#nodes.get(path).dataset.wiring = "from"
    announce(`Wire from ${path}: go to the node that reads it, and press Enter. Escape cancels.`)
  }

  #enter(path) {
    const from = this.#wiring
    if (!from) return this.#tell("edit", { path })
    this.#cancel()
    if (from !== path) this.#tell("wire", { from, to: path })
  }

  #cancel() {
    if (!this.#wiring) return
    delete this.#nodes.get(this.#wiring)?.dataset.wiring
    this.#wiring = null
    this.dataset.wiring = "false"
  }

  #delete(path) {
    const wire = this.layer.querySelector(".wire-hit[data-chosen]")
    if (wire) this.#tell("unwire", { from: wire.dataset.from, to: wire.dataset.to })
    else if (!path.startsWith(":")) this.#tell("remove", { path })
  }

  /** A wire that is drawn with the mouse or a finger, from the port of a node. */
  #grab = (event) => {
    const port = event.target.closest(".port-out")
    if (!port || event.button !== 0) return
    event.preventDefault()
    const from = port.closest(".edit-node").dataset.path
    const box = this.#placed.boxes.get(from)
    const start = { x: box.x + box.width / 2, y: box.y + box.height }
    const move = ({ clientX, clientY }) => {
      const { left, top } = this.frame.getBoundingClientRect()
      const end = { x: (clientX - left - this.#view.x) / this.#view.scale, y: (clientY - top - this.#view.y) / this.#view.scale }
      this.loose.setAttribute("d", curve([start, end]))
      this.#aim(document.elementFromPoint(clientX, clientY)?.closest(".edit-node"), from)
    }
    const drop = ({ type, clientX, clientY }) => {
      document.removeEventListener("pointermove", move)
      for (const end of ["pointerup", "pointercancel"]) document.removeEventListener(end, drop)
      this.loose.removeAttribute("d")
      this.#aim(null)
      if (type === "pointercancel") return
      const under = document.elementFromPoint(clientX, clientY)
      const to = under?.closest(".edit-node")?.dataset.path
      if (to && to !== from && !from.startsWith(`${to}/`)) this.#tell("wire", { from, to })
      else if (!to && this.contains(under)) this.#tell("wire-open", { from })
    }
    document.addEventListener("pointermove", move)
    for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, drop)
  }

  #aim(target, from) {
    for (const element of this.#nodes.values()) element.dataset.target = String(element === target && element.dataset.path !== from)
  }
}

/** What of a graph is drawn: other changes leave the nodes where they are, under a hand that drags them too. */
const shapeOf = (graph) => JSON.stringify([graph.nodes.map((node) => [node.path, node.kind, node.parent, node.about, caption(node)]), graph.edges])

const caption = (node) => node.use || (node.kind === "end" ? Object.keys(node.value).join(", ") || "none yet" : node.kind === "goto" ? `goto ${node.value.goto}` : node.kind)

/** Edges that are not drawn: they keep the inputs above and the outputs below all others. */
function toTheEnds({ nodes, edges }) {
  const top = nodes.filter((node) => !node.parent && node.kind !== "end").map((node) => node.path)
  const lead = (path) => path.split("/")[0]
  const [read, readers] = [new Set(edges.map((edge) => lead(edge.from))), new Set(edges.map((edge) => lead(edge.to)))]
  const hidden = (from, to) => ({ from, to, kind: "hidden" })
  const ends = [...top.filter((path) => !readers.has(path)).map((path) => hidden(":inputs", path)), ...top.filter((path) => !read.has(path)).map((path) => hidden(path, ":outputs"))]
  return top.length ? ends : [hidden(":inputs", ":outputs")]
}

customElements.define("edit-graph", EditGraph)
