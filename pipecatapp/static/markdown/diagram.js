// Flowcharts in answers, drawn by the page itself: each text in them becomes a text node of an SVG, and nothing is loaded.
import { h, s } from "../dom.js"
import { parseFlowchart } from "./flowchart.js"

/** Languages of code blocks that may hold a chart. */
export const DIAGRAMS = new Set(["mermaid", "flowchart"])

const WIDEST = 220 // pixels of a line in a node
const LINE = 20 // pixels from one line to the next
const PAD = { x: 14, y: 10 }
const TITLE = 14 // pixels that a group needs above its nodes beside what dagre leaves
const ARROW = 9 // length of an arrowhead
const SMALLEST = 0.75 // scale down to which a drawing shrinks to fit its place; a wider one scrolls

let arranging = null

/** Puts the drawing of a chart before its text, which a button shows again; leaves code that is no chart as it is. */
export async function drawDiagram(code) {
  const chart = parseFlowchart(code.textContent)
  const box = code.closest(".rich-code")
  if (!chart || !box) return
  arranging ??= import("../vendor/dagre/dagre.esm.js")
  const dagre = await arranging
  const drawing = h("div", { class: "rich-diagram", tabindex: "0", role: "group", "aria-label": "Diagram", testid: "diagram" }, drawn(placed(chart, dagre)))
  const source = code.closest("pre")
  const flip = () => {
    source.hidden = !source.hidden
    drawing.hidden = !drawing.hidden
    button.setAttribute("aria-pressed", String(drawing.hidden))
  }
  const button = h("button", { type: "button", class: "link-button", "aria-pressed": "false", testid: "diagram-text", onclick: flip }, "Show text")
  box.dataset.diagram = "true"
  box.firstElementChild.firstElementChild.after(button)
  source.hidden = true
  source.before(drawing)
}

/** Sizes and places of all that is drawn: {width, height, nodes, groups, edges}, as dagre arranges them. */
function placed(chart, { Graph, layout }) {
  const graph = new Graph({ compound: true, multigraph: true })
  graph.setGraph({ rankdir: chart.direction, nodesep: 32, ranksep: 44, edgesep: 16, marginx: 8, marginy: 8 + TITLE })
  graph.setDefaultEdgeLabel(() => ({}))
  const measure = measuring()
  for (const group of chart.groups) graph.setNode(named(group.id), {})
  for (const node of chart.nodes) graph.setNode(named(node.id), sized(node, measure))
  for (const { id, parent } of [...chart.groups, ...chart.nodes]) if (parent) graph.setParent(named(id), named(parent))
  chart.edges.forEach((edge, number) => {
    const words = lines(edge.label, measure)
    graph.setEdge(named(edge.from), named(edge.to), { labelpos: "c", width: edge.label ? widest(words, measure) + 8 : 0, height: edge.label ? words.length * LINE : 0, words }, String(number))
  })
  layout(graph)
  const { width, height } = graph.graph()
  const nodes = chart.nodes.map((node) => ({ ...node, ...graph.node(named(node.id)) }))
  const at = new Map(nodes.map((node) => [node.id, node]))
  const groups = chart.groups.map((group) => ({ ...group, ...graph.node(named(group.id)) }))
  const edges = chart.edges.map((edge, number) => ({ ...edge, ...graph.edge(named(edge.from), named(edge.to), String(number)), start: at.get(edge.from), end: at.get(edge.to) }))
  return { width, height, nodes, groups, edges }
}

/** The name of a node for dagre, whose graphs are objects with the names as keys: none may be that of a property that all objects have. */
const named = (id) => `:${id}`

/** A function that gives the width of a text in a drawing, in pixels. */
function measuring() {
  const context = document.createElement("canvas").getContext("2d")
  context.font = `14px ${getComputedStyle(document.body).fontFamily}`
  return (text) => context.measureText(text).width
}

const widest = (words, measure) => Math.max(0, ...words.map(measure))

function lines(text, measure) {
  return text.split("\n").flatMap((line) => wrapped(line, measure))
}

function wrapped(line, measure) {
  const found = [""]
  for (const word of line.trim().split(/\s+/)) {
    const longer = `${found.at(-1)} ${word}`.trim()
    if (found.at(-1) && measure(longer) > WIDEST) found.push(word)
    else found[found.length - 1] = longer
  }
  return found
}

function sized({ label, shape }, measure) {
  const words = lines(label, measure)
  let width = Math.max(widest(words, measure) + 2 * PAD.x, 44)
  let height = words.length * LINE + 2 * PAD.y
  if (shape === "diamond") [width, height] = [width + height, height + 0.6 * height + 8]
  if (shape === "circle") width = height = Math.max(width, height)
  if (["hexagon", "slanted", "stadium"].includes(shape)) width += 20
  if (shape === "cylinder") height += 14
  return { width, height, words }
}

function drawn({ width, height, nodes, groups, edges }) {
  const svg = s("svg", { width: Math.ceil(width), height: Math.ceil(height), viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`, role: "img", "aria-label": inWords(nodes, edges) })
  svg.style.minWidth = `${SMALLEST * width}px`
  for (const group of groups) {
    const { x, y } = corner(group)
    svg.append(s("rect", { class: "diagram-group", x, y: y - TITLE, width: group.width, height: group.height + TITLE, rx: 8 }), written([group.label], x + 10, y, "diagram-group-label", "start"))
  }
  for (const edge of edges) if (edge.kind !== "hidden") svg.append(...line(edge))
  for (const node of nodes) svg.append(s("path", { class: "diagram-node", d: outline(node) }), written(node.words, node.x, node.y + (node.shape === "cylinder" ? 5 : 0), "diagram-label"))
  for (const edge of edges) if (edge.label && edge.kind !== "hidden") svg.append(s("rect", { class: "diagram-behind", ...corner(edge), width: edge.width, height: edge.height, rx: 4 }), written(edge.words, edge.x, edge.y, "diagram-edge-label"))
  return svg
}

const corner = ({ x, y, width, height }) => ({ x: x - width / 2, y: y - height / 2 })

function written(words, x, y, name, anchor = "middle") {
  const first = y - ((words.length - 1) * LINE) / 2
  return s("text", { class: name, "text-anchor": anchor, "dominant-baseline": "central" }, ...words.map((each, i) => s("tspan", { x, y: first + i * LINE }, each)))
}

/** What a screen reader says instead of the drawing. */
function inWords(nodes, edges) {
  const label = new Map(nodes.map((node) => [node.id, node.label.replaceAll("\n", " ")]))
  const steps = edges.map((edge) => `${label.get(edge.from)} to ${label.get(edge.to)}${edge.label ? ` (${edge.label.replaceAll("\n", " ")})` : ""}`)
  return `Flowchart: ${(steps.length ? steps : [...label.values()]).join("; ")}`
}

/** The outline of a node as the `d` of a path. */
function outline({ x, y, width, height, shape }) {
  const [l, r, t, b] = [x - width / 2, x + width / 2, y - height / 2, y + height / 2]
  if (shape === "diamond") return `M${x} ${t}L${r} ${y}L${x} ${b}L${l} ${y}Z`
  if (shape === "hexagon") return `M${l + 12} ${t}H${r - 12}L${r} ${y}L${r - 12} ${b}H${l + 12}L${l} ${y}Z`
  if (shape === "slanted") return `M${l + 12} ${t}H${r}L${r - 12} ${b}H${l}Z`
  if (shape === "circle") return `M${l} ${y}A${width / 2} ${height / 2} 0 1 1 ${r} ${y}A${width / 2} ${height / 2} 0 1 1 ${l} ${y}Z`
  if (shape === "cylinder") return `M${l} ${t + 6}A${width / 2} 6 0 0 1 ${r} ${t + 6}V${b - 6}A${width / 2} 6 0 0 1 ${l} ${b - 6}ZM${l} ${t + 6}A${width / 2} 6 0 0 0 ${r} ${t + 6}`
  const c = { stadium: height / 2, round: 12 }[shape] ?? 4
  return `M${l + c} ${t}H${r - c}A${c} ${c} 0 0 1 ${r} ${t + c}V${b - c}A${c} ${c} 0 0 1 ${r - c} ${b}H${l + c}A${c} ${c} 0 0 1 ${l} ${b - c}V${t + c}A${c} ${c} 0 0 1 ${l + c} ${t}Z`
}

function line({ points, start, end, kind, head, tail }) {
  const inner = points.slice(1, -1)
  const path = [border(start, inner[0] ?? end), ...inner, border(end, inner.at(-1) ?? start)]
  const arrows = [head && arrow(path.at(-2), path.at(-1)), tail && arrow(path[1], path[0])].filter(Boolean)
  return [s("path", { class: "diagram-edge", "data-kind": kind, d: smooth(path) }), ...arrows]
}

/** Where the line from the middle of a node to a point leaves its outline. */
function border({ x, y, width, height, shape }, point) {
  const [dx, dy] = [(point.x - x) / (width / 2), (point.y - y) / (height / 2)]
  const reach = { diamond: Math.abs(dx) + Math.abs(dy), circle: Math.hypot(dx, dy) }[shape] ?? Math.max(Math.abs(dx), Math.abs(dy))
  return reach ? { x: x + (point.x - x) / reach, y: y + (point.y - y) / reach } : { x, y }
}

/** A line through the middles between points, with the points as the corners that it rounds. */
function smooth([first, ...rest]) {
  let d = `M${first.x} ${first.y}`
  rest.slice(0, -1).forEach((point, i) => (d += `Q${point.x} ${point.y} ${(point.x + rest[i + 1].x) / 2} ${(point.y + rest[i + 1].y) / 2}`))
  return `${d}L${rest.at(-1).x} ${rest.at(-1).y}`
}

function arrow(from, to) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1
  const [ux, uy] = [(to.x - from.x) / length, (to.y - from.y) / length]
  const corners = [to, ...[1, -1].map((side) => ({ x: to.x - ux * ARROW - uy * side * 4, y: to.y - uy * ARROW + ux * side * 4 }))]
  return s("polygon", { class: "diagram-arrow", points: corners.map(({ x, y }) => `${x},${y}`).join(" ") })
}
