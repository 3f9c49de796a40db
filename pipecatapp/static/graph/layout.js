// Where the boxes of a graph lie. Each scope is laid out by dagre on its own, innermost first; then it is one box to its parent.
import { Graph, layout as arrange } from "../vendor/dagre/dagre.esm.js"

const NODE = { width: 200, height: 56 }
const SCOPE = { pad: 16, head: 34 }

/**
 * `graph` as the server tells it ({nodes: [{path, parent, …}], edges: [{from, to, kind}]}) →
 * {width, height, boxes: Map(path → {x, y, width, height, scope}), lines: [{from, to, kind, points}]}, top left at 0, 0. Time runs downward.
 */
export function layout(graph) {
  const children = Map.groupBy ? Map.groupBy(graph.nodes, parentOf) : grouped(graph.nodes)
  const parents = new Map(graph.nodes.map((node) => [node.path, parentOf(node)]))
  const edges = graph.edges.map((edge) => lifted(edge, parents)).filter(Boolean)
  const placed = { boxes: new Map(), lines: [] }
  const size = placeScope("", { children, edges, placed })
  return { ...placed, ...size }
}

const parentOf = (node) => node.parent || ""

function grouped(nodes) {
  const found = new Map()
  for (const node of nodes) found.set(parentOf(node), [...(found.get(parentOf(node)) ?? []), node])
  return found
}

/** An edge between different scopes joins the two boxes that are neighbours in the scope around both. */
function lifted(edge, parents) {
  const up = (path) => {
    const chain = []
    for (let at = path; at !== undefined; at = at === "" ? undefined : (parents.get(at) ?? "")) chain.unshift(at)
    return chain
  }
  const [from, to] = [up(edge.from), up(edge.to)]
  let depth = 0
  while (from[depth] === to[depth] && depth < from.length && depth < to.length) depth += 1
  const [a, b] = [from[depth], to[depth]]
  return a && b ? { from: a, to: b, kind: edge.kind, scope: from[depth - 1] } : null
}

function placeScope(scope, plan) {
  const inner = new Map()
  const dagre = new Graph({ multigraph: false })
  const members = plan.children.get(scope) ?? []
  dagre.setGraph({ rankdir: "TB", nodesep: 24, ranksep: 48, marginx: 8, marginy: 8, ranker: members.length > 150 ? "tight-tree" : "network-simplex" })
  dagre.setDefaultEdgeLabel(() => ({}))
  for (const node of members) dagre.setNode(node.path, sized(node, inner, plan))
  const kinds = new Map()
  for (const edge of plan.edges.filter((each) => each.scope === scope)) {
    const key = `${edge.from}\n${edge.to}`
    if (kinds.get(key) !== "data") kinds.set(key, edge.kind)
    dagre.setEdge(edge.from, edge.to)
  }
  arrange(dagre)
  keep(dagre, inner, kinds, plan.placed)
  const { width, height } = dagre.graph()
  return { width: members.length ? width : 0, height: members.length ? height : 0 }
}

function sized(node, inner, plan) {
  if (!plan.children.has(node.path)) return { ...NODE }
  const placed = { boxes: new Map(), lines: [] }
  const size = placeScope(node.path, { ...plan, placed })
  inner.set(node.path, placed)
  return { width: Math.max(size.width + 2 * SCOPE.pad, NODE.width), height: size.height + SCOPE.pad + SCOPE.head, scope: true }
}

function keep(dagre, inner, kinds, placed) {
  for (const path of dagre.nodes()) {
    const { x, y, width, height, scope = false } = dagre.node(path)
    const box = { x: x - width / 2, y: y - height / 2, width, height, scope }
    placed.boxes.set(path, box)
    if (scope) moveInto(placed, inner.get(path), box.x + SCOPE.pad, box.y + SCOPE.head)
  }
  for (const { v, w } of dagre.edges()) placed.lines.push({ from: v, to: w, kind: kinds.get(`${v}\n${w}`), points: between(dagre.node(v), dagre.node(w), dagre.edge(v, w).points) })
}

/** From the middle of the lower side to the middle of the upper side; what dagre has in between is the way around other boxes. */
function between(from, to, points) {
  return [{ x: from.x, y: from.y + from.height / 2 }, ...points.slice(1, -1), { x: to.x, y: to.y - to.height / 2 }]
}

function moveInto(placed, content, dx, dy) {
  for (const [path, box] of content.boxes) placed.boxes.set(path, { ...box, x: box.x + dx, y: box.y + dy })
  for (const line of content.lines) placed.lines.push({ ...line, points: line.points.map(({ x, y }) => ({ x: x + dx, y: y + dy })) })
}

/** A line through the points that leaves and meets each of them straight down, as the `d` of an SVG path. */
export function curve(points) {
  const [first, ...rest] = points
  let [d, from] = [`M${first.x} ${first.y}`, first]
  for (const to of rest) {
    const middle = (from.y + to.y) / 2
    d += from.x === to.x ? `L${to.x} ${to.y}` : `C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`
    from = to
  }
  return d
}
