import { h } from "../dom.js"
import { icon } from "../icons.js"
import { WRONG, schemaForm, withValues } from "./schema-form.js"

const TEXT = { type: "string" }
const LIST = { type: "array", items: TEXT }
/** The modifiers of nodes that have a field here; the text has all of them. */
const MODIFIERS = {
  about: { ...TEXT, description: "What the node is for." },
  if: { ...TEXT, description: "Condition, such as {{ inputs.keep }}: if it is false, the node and its readers are skipped." },
  model: { ...TEXT, description: "Model role or id that answers." },
  prompt: { ...LIST, description: "Tags: prompts whose tags are all among them are the system text. One on each line." },
  needs: { ...LIST, description: "Nodes that end before this one. One on each line." },
  for: { ...TEXT, description: "A list, such as {{ split.parts }}: the node runs once for each item." },
  until: { ...TEXT, description: "Run until this is true; needs max." },
  while: { ...TEXT, description: "Run as long as this is true; needs max." },
  max: { type: "integer", minimum: 1, maximum: 1000, description: "Maximum number of visits." },
  check: { ...TEXT, description: "Condition on the output; if it is false, the node fails." },
  retry: { type: "integer", minimum: 1, maximum: 100, description: "Retries after a failure." },
  timeout: { ...TEXT, description: "Maximum duration, such as 30s or 5m." },
  on_error: { enum: ["stop", "continue"], description: "What happens after a failure." },
  cache: { enum: ["auto", "never"], description: "Whether a cached output may be used." },
}
const WITH_TOOL = ["model", "prompt", "cache"]
const TYPES = ["text", "integer", "number", "boolean", "list", "object", "any"]

/**
 * <node-editor>: the fields of one node of a draft. `show(node, draft, tool)` fills it; a field is sent when it is left.
 * Tells "operations" {operations}, and "ask" {what, path} for "wire",
 * "rename", "remove", and "earlier" and "later" for the order of steps.
 */
class NodeEditor extends HTMLElement {
  #node = null
  #forms = []
  #shown = ""

  show(node, draft, tool) {
    const same = this.#node?.path === node?.path && JSON.stringify([node?.value, tool?.name]) === this.#shown
    this.#node = node
    if (!same) this.#build(node, tool)
    this.#shown = JSON.stringify([node?.value, tool?.name])
    if (node) this.#update(node, draft)
  }

  #build(node, tool) {
    const focus = this.contains(document.activeElement) ? document.activeElement.id : ""
    this.#forms = []
    if (!node) return this.replaceChildren(h("p", { class: "quiet" }, "Choose a node to see its fields, or drag a tool onto the graph."))
    this.faults = h("ul", { class: "node-faults" })
    this.wires = h("ul", { class: "wire-list", testid: "wires" })
    this.lines = h("div", {})
    const content = node.kind === "end" ? this.#end(node) : this.#fields(node, tool)
    this.replaceChildren(this.#head(node, tool), this.faults, ...content, h("section", { class: "inspector-section" }, h("h3", {}, "Wires"), this.wires), this.lines)
    if (focus) document.getElementById(focus)?.focus()
    return undefined
  }

  #head(node, tool) {
    const ask = (what) => () => this.dispatchEvent(new CustomEvent("ask", { detail: { what, path: node.path }, bubbles: true }))
    const button = (what, name, label) => h("button", { type: "button", class: "button small", onclick: ask(what), testid: `node-${what}` }, icon(name), label)
    const buttons = node.kind === "end" ? node.path === ":inputs" && button("wire", "wire", "Wire") : [button("wire", "wire", "Wire"), button("rename", "edit", "Rename"), button("remove", "trash", "Delete")]
    const moves = [button("earlier", "back", "Earlier"), button("later", "forward", "Later")]
    this.moves = moves
    return h("header", { class: "inspector-head" }, h("h2", { class: "inspector-title", testid: "node-title" }, node.id), h("p", { class: "quiet" }, node.use ? `${node.use}: ${(tool?.about ?? "There is no such tool.").split("\n")[0]}` : node.about), h("div", { class: "row" }, buttons, node.kind !== "end" && moves))
  }

  #fields(node, tool) {
    const sections = []
    if (tool && Object.keys(tool.inputs.properties ?? {}).length) {
      const form = schemaForm(withValues(tool.inputs, node.value.with ?? {}))
      sections.push(this.#section("Inputs", form, (name) => `${node.path}.with.${name}`, "with."))
    }
    const fields = Object.fromEntries(Object.entries(MODIFIERS).filter(([name]) => node.use || !WITH_TOOL.includes(name)))
    const form = schemaForm(withValues({ type: "object", properties: fields }, node.value))
    sections.push(h("details", { class: "field group", open: Object.keys(fields).some((name) => name in node.value) }, h("summary", { testid: "node-settings" }, "Conditions, model and failures"), this.#section("", form, (name) => `${node.path}.${name}`, "")))
    return sections
  }

  #section(title, form, address, prefix) {
    const known = new Map()
    for (const field of form.fields) {
      known.set(field.name, JSON.stringify(field.read()))
      form.mark(field.name, null) // nobody has typed yet
    }
    const changed = ({ target }) => {
      const field = form.fields.find((each) => each.element.contains(target))
      const value = field?.read()
      if (!field || value === WRONG || JSON.stringify(value) === known.get(field.name)) return
      known.set(field.name, JSON.stringify(value))
      const path = address(field.name)
      this.#expect(prefix, field.name, value)
      this.#send(value === undefined ? [{ op: "remove", path }] : [{ op: "set", path, value }])
    }
    this.#forms.push({ form, prefix })
    return h("form", { class: "inspector-section", onsubmit: (event) => event.preventDefault(), onchange: changed }, title && h("h3", {}, title), form.element)
  }

  /** The node as it is once the change is made: then the form need not be built again under a person's hands. */
  #expect(prefix, name, value) {
    const [node, tool] = JSON.parse(this.#shown)
    const holder = prefix ? (node.with ??= {}) : node
    if (value === undefined) delete holder[name]
    else holder[name] = value
    this.#shown = JSON.stringify([node, tool])
  }

  #send(operations) {
    this.dispatchEvent(new CustomEvent("operations", { detail: { operations }, bubbles: true }))
  }

  #end(node) {
    const inputs = node.path === ":inputs"
    const key = node.path.slice(1)
    const remove = (name) => h("button", { type: "button", class: "icon-button small", "aria-label": `Remove ${name}`, title: `Remove ${name}`, onclick: () => this.#send([{ op: "remove", path: `.${key}.${name}` }]) }, icon("cross"))
    const rows = Object.entries(node.value).map(([name, value]) => h("li", {}, h("code", {}, name), h("span", { class: "quiet" }, said(value, inputs)), remove(name)))
    const list = h("ul", { class: "wire-list", testid: `${key}-list` }, rows)
    if (!inputs) return [list, h("p", { class: "hint" }, "Drag a wire from a node to Outputs to add an output.")]
    const name = h("input", { id: "new-input", required: true, pattern: "[a-z][a-z0-9_]*", title: "Lower case letters, digits and _", testid: "new-input" })
    const type = h("select", { id: "new-input-type", testid: "new-input-type" }, TYPES.map((each) => h("option", { value: each }, each)))
    const add = (event) => {
      event.preventDefault()
      this.#send([{ op: "set", path: `.inputs.${name.value}`, value: { type: type.value } }])
    }
    const form = h("form", { class: "new-input", onsubmit: add }, h("label", { for: "new-input" }, "New input"), name, h("label", { class: "off-screen", for: "new-input-type" }, "Type"), type, h("button", { class: "button small", testid: "add-input" }, icon("plus"), "Add"))
    return [list, form]
  }

  #update(node, draft) {
    const [earlier, later] = this.moves
    const siblings = siblingsOf(node, draft.graph)
    const at = siblings.indexOf(node)
    for (const [button, usable] of [[earlier, at > 0], [later, at >= 0 && at < siblings.length - 1]]) button.hidden = !usable
    const faults = [...draft.diagnostics, ...draft.warnings].filter((each) => each.node === node.path)
    this.faults.replaceChildren(...faults.map((each) => h("li", { class: "fault", testid: "node-fault" }, each.mend ? `${each.message}. ${each.mend}` : each.message)))
    for (const { form, prefix } of this.#forms) {
      for (const field of form.fields) form.mark(field.name, messageFor(`${prefix}${field.name}`, faults, draft))
    }
    const joined = draft.graph.edges.filter((edge) => edge.from === node.path || edge.to === node.path)
    const drop = ({ from, to }) => h("button", { type: "button", class: "icon-button small", "aria-label": `Remove the wire from ${from} to ${to}`, title: "Remove this wire", testid: "remove-wire", onclick: () => this.#send([{ op: "unwire", from, to }]) }, icon("cross"))
    this.wires.replaceChildren(...joined.map((edge) => h("li", {}, h("span", {}, edge.to === node.path ? `from ${plain(edge.from)}` : `to ${plain(edge.to)}`), h("span", { class: "quiet" }, edge.kind), drop(edge))))
    if (!joined.length) this.wires.replaceChildren(h("li", { class: "quiet" }, "None yet."))
    const text = draft.document.split("\n").slice(node.line - 1, node.end).join("\n")
    this.lines.replaceChildren(...(node.line ? [h("h3", {}, node.end > node.line ? `Lines ${node.line} to ${node.end}` : `Line ${node.line}`), h("pre", { class: "node-yaml", tabindex: "0", "aria-label": "YAML of this node", testid: "node-yaml" }, text)] : []))
  }
}

/** The nodes of the same scope in the order in which they are written; none where it is no list of `steps`. */
export function siblingsOf(node, graph) {
  const holder = graph.nodes.find((each) => each.path === node.parent)
  const inOrder = holder ? holder.kind === "steps" : graph.steps
  return inOrder ? graph.nodes.filter((each) => each.parent === node.parent && each.kind !== "end") : []
}

const plain = (path) => path.replace(/^:/, "")
const said = (value, inputs) => (inputs ? (typeof value === "string" ? value : (value?.type ?? "text")) : typeof value === "string" ? value : (value?.value ?? ""))
const messageFor = (name, faults, draft) => faults.filter((each) => draft.diagnostics.includes(each) && (each.field === name || each.field.startsWith(`${name}.`))).map((each) => each.message).join("; ") || null

customElements.define("node-editor", NodeEditor)
