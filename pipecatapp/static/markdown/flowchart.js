// Reads flowcharts in Mermaid's syntax (https://mermaid.js.org/syntax/flowchart.html): nodes, edges and subgraphs. Colours, classes
// and actions are ignored, so a chart that a model wrote can neither style the page nor open a link.

/** Characters, nodes, edges and subgraphs of a chart; a larger one stays text, because it would hold up the page. */
const LONGEST = 20_000
const MOST_NODES = 200
const MOST_EDGES = 400
const MOST_GROUPS = 50

const HEADER = /^(?:flowchart(?:-elk)?|graph)(?:\s+(TB|TD|BT|LR|RL))?\s*$/
const LEFT_OUT = /^(?:style|classDef|class|click|linkStyle|direction|accTitle|accDescr)\b/
const ID = /^[\p{L}\p{N}_]+(?:[-.][\p{L}\p{N}_]+)*/u
const CLASS = /^:::[\w-]+/

/** The brackets of a node and its shape; longer brackets come before their own prefixes. */
const SHAPES = [
  ["(((", ")))", "circle"],
  ["((", "))", "circle"],
  ["([", "])", "stadium"],
  ["[(", ")]", "cylinder"],
  ["[[", "]]", "box"],
  ["[/", "/]", "slanted"],
  ["[\\", "\\]", "slanted"],
  ["[/", "\\]", "slanted"],
  ["[\\", "/]", "slanted"],
  ["{{", "}}", "hexagon"],
  ["[", "]", "box"],
  ["(", ")", "round"],
  ["{", "}", "diamond"],
  [">", "]", "box"],
]

/** Edges without words in them, and with: [kind, pattern]. The groups are what it begins with, its words if it can have some, and its end. */
const PLAIN = [
  ["line", /^(<?)-{2,}(>|[ox](?=\s))/],
  ["line", /^(<?)-{3,}()/],
  ["thick", /^(<?)={2,}(>)/],
  ["thick", /^(<?)={3,}()/],
  ["dotted", /^(<?)-\.+-(>?)/],
  ["hidden", /^()~{3,}()/],
]
const WITH_WORDS = [
  ["line", /^(<?)--\s*(.+?)\s*-{2,}(>|[ox](?=\s)|)/],
  ["thick", /^(<?)==\s*(.+?)\s*={2,}(>?)/],
  ["dotted", /^(<?)-\.\s*(.+?)\s*\.+-(>?)/],
]

/**
 * The chart of a text: {direction, nodes: [{id, label, shape, parent}], groups: [{id, label, parent}], edges: [{from, to, label, kind,
 * head, tail}]}, where `parent` is the id of a group or null; null for a text that is not a flowchart or cannot be read completely.
 */
export function parseFlowchart(text) {
  if (text.length > LONGEST) return null
  const [header, ...statements] = statementsOf(text)
  const direction = HEADER.exec(header ?? "")
  if (!direction) return null
  const chart = new Chart()
  if (!statements.every((statement) => chart.read(statement))) return null
  return chart.finished((direction[1] ?? "TB").replace("TD", "TB"))
}

function statementsOf(text) {
  const body = text.replace(/^\s*---\n.*?\n---\n/s, "")
  const lines = body.split("\n").map((line) => line.replace(/^\s*%%.*$/, ""))
  return lines.flatMap(parted).map((each) => each.trim()).filter(Boolean)
}

/** Splits a line at semicolons outside of quotation marks. The semicolon of an entity, such as `#quot;`, does not separate statements. */
function parted(line) {
  return line.match(/(?:"[^"]*"|[#&]\w+;|[^;])+/g) ?? []
}

class Chart {
  #nodes = new Map()
  #groups = []
  #open = []
  #edges = []

  /** Reads one statement; returns false if it is not valid. */
  read(statement) {
    if (LEFT_OUT.test(statement)) return true
    if (/^subgraph\b/.test(statement)) return this.#begin(statement.slice(8).trim())
    if (statement === "end") return this.#open.pop() !== undefined
    let rest = statement
    let before = null
    for (;;) {
      const group = this.#group(rest)
      if (!group) return false
      if (before) this.#join(before.ids, group.ids, before.edge)
      if (!group.rest) return true
      const edge = edgeOf(group.rest)
      if (!edge) return false
      before = { ids: group.ids, edge }
      rest = edge.rest
    }
  }

  finished(direction) {
    const parents = new Map(this.#groups.map(({ id, parent }) => [id, parent]))
    const nodes = [...this.#nodes.values()].filter(({ id }) => !parents.has(id))
    if (this.#open.length || !nodes.length || nodes.length > MOST_NODES || parents.size > MOST_GROUPS || this.#edges.length > MOST_EDGES) return null
    const first = new Map() // group → the first node in it
    for (const { id, parent } of nodes) for (let at = parent; at; at = parents.get(at)) if (!first.has(at)) first.set(at, id)
    // An edge may lead to a group: it is drawn to the first node in it.
    const node = (id) => (parents.has(id) ? first.get(id) : id)
    const edges = this.#edges.map((edge) => ({ ...edge, from: node(edge.from), to: node(edge.to) }))
    if (!edges.every(({ from, to }) => from && to)) return null
    return { direction, nodes, groups: this.#groups.filter(({ id }) => first.has(id)), edges }
  }

  #begin(title) {
    const id = ID.exec(title)?.[0] ?? ""
    const label = id && /^\s*\[(.*)\]$/.exec(title.slice(id.length))?.[1]
    const name = label ? id : title || `subgraph ${this.#groups.length + 1}`
    if (this.#groups.some((group) => group.id === name)) return false
    this.#groups.push({ id: name, label: worded(label || title), parent: this.#open.at(-1) ?? null })
    this.#open.push(name)
    return true
  }

  /** Nodes that `&` joins: {ids, rest}. */
  #group(text) {
    const ids = []
    let rest = text
    do {
      const node = nodeOf(rest.replace(/^&?\s*/, ""))
      if (!node) return null
      ids.push(node.id)
      this.#take(node)
      rest = node.rest
    } while (rest.startsWith("&"))
    return { ids, rest }
  }

  #take({ id, label, shape }) {
    const parent = this.#open.at(-1) ?? null
    const known = this.#nodes.get(id)
    if (!known) this.#nodes.set(id, { id, label: label ?? id, shape: shape ?? "box", parent })
    else if (shape) Object.assign(known, { label, shape })
    if (known && known.parent === null) known.parent = parent
  }

  #join(from, to, { label, kind, head, tail }) {
    for (const a of from) for (const b of to) this.#edges.push({ from: a, to: b, label, kind, head, tail })
  }
}

function nodeOf(text) {
  const id = ID.exec(text)?.[0]
  if (!id) return null
  let rest = text.slice(id.length)
  const found = shapeOf(rest)
  if (found) rest = found.rest
  else if (/^[[({]/.test(rest)) return null
  return { id, label: found?.label, shape: found?.shape, rest: rest.replace(CLASS, "").trim() }
}

function shapeOf(text) {
  for (const [open, close, shape] of SHAPES) {
    if (!text.startsWith(open)) continue
    const inside = text.slice(open.length)
    const quoted = /^\s*"([^"]*)"\s*/.exec(inside)
    const end = quoted ? (inside.startsWith(close, quoted[0].length) ? quoted[0].length : -1) : inside.indexOf(close)
    if (end >= 0) return { label: worded(quoted ? quoted[1] : inside.slice(0, end)), shape, rest: inside.slice(end + close.length) }
  }
  return null
}

function edgeOf(text) {
  for (const [kind, pattern] of PLAIN) {
    const found = pattern.exec(text)
    if (!found) continue
    const rest = text.slice(found[0].length).trim()
    const label = /^\|([^|]*)\|\s*/.exec(rest)
    return { kind, tail: found[1] !== "", head: found[2] !== "", label: worded(label?.[1] ?? ""), rest: label ? rest.slice(label[0].length) : rest }
  }
  for (const [kind, pattern] of WITH_WORDS) {
    const found = pattern.exec(text)
    if (found) return { kind, tail: found[1] !== "", head: found[3] !== "", label: worded(found[2]), rest: text.slice(found[0].length).trim() }
  }
  return null
}

const ENTITIES = new Map([["quot", '"'], ["amp", "&"], ["lt", "<"], ["gt", ">"], ["nbsp", " "]])

/** A label as it is shown: without quotation marks, with its line breaks and the characters that its entities mean. */
function worded(text) {
  const bare = text.trim().replace(/^"(.*)"$/s, "$1").replace(/^`(.*)`$/s, "$1")
  const broken = bare.replace(/<br\s*\/?>|\\n/gi, "\n")
  return broken.replace(/[#&](\w+);/g, (all, name) => ENTITIES.get(name) ?? (/^\d{2,5}$/.test(name) ? String.fromCharCode(Number(name)) : all)).trim()
}
