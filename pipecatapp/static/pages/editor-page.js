import "../components/text-pane.js"
import "../components/tool-palette.js"
import "../graph/edit-graph.js"
import { get, post } from "../api.js"
import { confirmed, diffBox, openDialog, textBox } from "../components/dialog.js"
import { loading, problem } from "../components/notice.js"
import { siblingsOf } from "../components/node-editor.js"
import { startForm } from "../components/start-form.js"
import { wireOperations } from "../components/wire-dialog.js"
import { DraftSession } from "../draft-session.js"
import { announce, h } from "../dom.js"
import { icon } from "../icons.js"
import { setTitle, workflowAddress } from "../router.js"

const PANES = [
  ["node", "Node"],
  ["text", "Text"],
  ["run", "Run"],
]
const STATES = { fresh: "cached", dirty: "is called", maybe: "depends on earlier steps", skipped: "skipped" }

/** The editor of one workflow: palette, graph, and beside it the fields of a node, the text, and runs of the draft. */
class EditorPage extends HTMLElement {
  #chosen = null
  #inputs = ""
  #open = "node"
  #graph = null

  async connectedCallback() {
    this.name = this.params.workflow
    setTitle(`Edit ${this.name}`)
    this.session = new DraftSession(this.name)
    this.#build()
    try {
      this.tools = new Map((await get("/api/tools")).tools.map((tool) => [tool.name, tool]))
      this.palette.show([...this.tools.values()])
      this.session.addEventListener("change", () => this.#show())
      this.session.addEventListener("conflict", ({ detail }) => this.#conflict(detail))
      await this.session.open()
      if (this.isConnected) this.session.follow()
    } catch (error) {
      this.work.replaceChildren(problem("This workflow cannot be edited", error.message, h("a", { class: "button", href: "#/workflows" }, "All workflows")))
    }
  }

  disconnectedCallback() {
    this.text.flush()
    this.session.unfollow()
  }

  #build() {
    const button = (name, symbol, label, act, kind = "") => h("button", { type: "button", class: `button small ${kind}`, onclick: act, testid: `editor-${name}`, title: label }, icon(symbol), h("span", { class: "button-words" }, label))
    this.state = h("span", { class: "editor-state", role: "status", testid: "editor-state" })
    this.buttons = { undo: button("undo", "undo", "Undo", () => this.#do(this.session.undo)), redo: button("redo", "redo", "Redo", () => this.#do(this.session.redo)), discard: button("discard", "trash", "Discard draft", () => this.#discard()), save: button("save", "save", "Save…", () => this.#save(), "primary") }
    this.crumb = h("a", { class: "link-button crumb", href: "#/workflows" }, icon("back"), "Workflows")
    const head = h("header", { class: "page-head editor-head" }, this.crumb, h("h1", { tabindex: "-1" }, this.name), this.state, h("div", { class: "row editor-buttons" }, Object.values(this.buttons)))
    this.notices = h("div", { class: "editor-notices" })
    this.palette = h("tool-palette")
    this.graph = h("edit-graph")
    this.node = h("node-editor", { class: "editor-pane" })
    this.text = h("text-pane", { class: "editor-pane" })
    this.run = h("div", { class: "editor-pane", testid: "run-pane" })
    this.tabs = PANES.map(([name, label]) => h("button", { type: "button", class: "tab", "aria-pressed": "false", testid: `pane-${name}`, dataset: { pane: name }, onclick: () => this.#pane(name) }, label))
    const side = h("section", { class: "editor-side", "aria-label": "Node, text and run" }, h("div", { class: "editor-tabs", role: "group", "aria-label": "Pane" }, this.tabs), this.node, this.text, this.run)
    this.work = h("div", { class: "editor-work" }, h("section", { class: "editor-palette", "aria-label": "Palette" }, this.palette), h("section", { class: "editor-canvas", "aria-label": "Graph" }, this.graph), side)
    this.replaceChildren(head, this.notices, this.work)
    this.node.replaceChildren(loading(3))
    this.#pane("node")
    this.#listen()
  }

  #listen() {
    const on = (name, act) => this.addEventListener(name, ({ detail }) => act(detail))
    on("choose", ({ path }) => this.#choose(path, { open: true }))
    on("edit", ({ path }) => this.#edit(path))
    on("rename", ({ path }) => this.#rename(path))
    on("remove", ({ path }) => this.#remove(path))
    on("add", ({ tool, path }) => (tool ? this.#add(tool, this.#chosen) : this.#seek(path)))
    on("drop-tool", ({ tool, x, y }) => this.#drop(tool, x, y))
    on("wire", ({ from, to }) => this.#wire(from, to))
    on("wire-open", ({ from }) => this.#seek(from, from))
    on("unwire", ({ from, to }) => this.#make([{ op: "unwire", from, to }]))
    on("operations", ({ operations, typed }) => this.#make(operations, typed))
    on("ask", ({ what, path }) => ({ rename: () => this.#rename(path), remove: () => this.#remove(path), wire: () => this.#wireTo(path), earlier: () => this.#move(path, -2), later: () => this.#move(path, 1) })[what]())
    on("line", ({ line }) => this.#choose(this.#at(line), { reveal: true }))
    on("leave", () => this.graph.focusNode(this.#chosen))
    on("text-conflict", ({ text }) => this.#notice(problem("Another window changed the same lines", "Your text was not sent. It is kept here until you close this message.", h("div", { class: "notice-content" }, textBox(text, "Your text"), h("button", { type: "button", class: "button", testid: "use-mine", onclick: (event) => (event.target.closest(".notice").remove(), this.#do(() => this.session.replaceText(text))) }, "Use my text instead")))))
    this.addEventListener("keydown", this.#key)
  }

  #key = (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return
    const typing = event.target.matches("input, textarea, select") && event.target !== this.text.field
    const act = { s: () => this.#save(), z: () => this.#do(event.shiftKey ? this.session.redo : this.session.undo), y: () => this.#do(this.session.redo) }[event.key.toLowerCase()]
    if (!act || (typing && event.key.toLowerCase() !== "s")) return
    event.preventDefault()
    this.text.flush()
    act()
  }

  get draft() {
    return this.session.draft
  }

  #show() {
    const { draft } = this
    this.#graph = draft.graph ?? this.#graph
    this.graph.dataset.stale = String(!draft.graph)
    if (this.#graph) this.graph.show(this.#graph, new Set(draft.diagnostics.map((each) => each.node)))
    if (!this.#find(this.#chosen)) this.#chosen = null
    const words = draft.dirty ? (draft.stored ? "Unsaved changes" : "Not saved yet") : "Saved"
    if (draft.stored) this.crumb.href = workflowAddress(this.name)
    const count = draft.diagnostics.length
    this.state.textContent = [words, count ? `${count} ${count === 1 ? "error" : "errors"}` : ""].filter(Boolean).join(" · ")
    this.state.dataset.dirty = String(draft.dirty)
    this.buttons.undo.disabled = !draft.undo
    this.buttons.redo.disabled = !draft.redo
    this.buttons.discard.disabled = !draft.dirty
    this.buttons.save.disabled = !draft.dirty
    this.text.show(draft)
    this.#showNode()
    this.#showRun()
  }

  #showNode() {
    const node = this.#find(this.#chosen)
    if (this.draft.graph || !node) this.node.show(node, this.draft, node && this.tools.get(node.use))
    if (node) this.text.reveal(node.line, node.end)
  }

  /** A form that starts the draft as it is, whether saved or not. */
  #showRun() {
    const { draft } = this
    if (draft.diagnostics.length) {
      this.#inputs = ""
      return this.run.replaceChildren(h("p", { class: "quiet" }, "A draft with errors cannot run. The errors are listed below the text."))
    }
    this.named ??= {}
    Object.assign(this.named, { document: draft.document, file: `${this.name}.yaml` })
    const inputs = JSON.stringify(draft.inputs)
    if (inputs === this.#inputs) return undefined
    this.#inputs = inputs
    this.preview = h("div", { testid: "dry-run" })
    const dry = { label: "Dry run", testid: "dry-run-start", act: (values) => this.#dryRun(values) }
    return this.run.replaceChildren(startForm(this.named, draft.inputs, { title: "Run this draft", others: [dry], draft: `start-draft-${this.name}` }), this.preview)
  }

  async #dryRun(inputs) {
    const { steps } = await post("/api/plan/cache", { ...this.named, inputs })
    const row = ({ path, state, why }) => h("li", {}, h("span", { class: "mono" }, path), h("strong", {}, STATES[state]), h("span", { class: "quiet" }, why))
    this.preview.replaceChildren(h("h3", {}, "What a run would do"), h("ul", { class: "dry-list" }, steps.map(row)))
    announce(`Dry run: ${steps.length} steps.`)
  }

  #pane(name) {
    this.#open = name
    for (const tab of this.tabs) tab.setAttribute("aria-pressed", String(tab.dataset.pane === name))
    for (const [each] of PANES) this[each].hidden = each !== name
  }

  #find(path) {
    return this.#graph?.nodes.find((node) => node.path === path) ?? null
  }

  /** The innermost node at a line of the text. */
  #at(line) {
    const around = (this.draft.graph?.nodes ?? []).filter((node) => node.line && node.line <= line && line <= node.end)
    return around.sort((a, b) => b.line - a.line)[0]?.path ?? null
  }

  #choose(path, { open = false, reveal = false } = {}) {
    this.#chosen = path
    this.graph.choose(path, { reveal })
    if (open && this.#open === "run") this.#pane("node")
    this.#showNode()
  }

  #edit(path) {
    this.#choose(path)
    this.#pane("node")
    ;(this.node.querySelector("form :is(input, textarea, select)") ?? this.node.querySelector("button"))?.focus()
  }

  /** Goes to the palette: by keys, or after a wire that ended nowhere; the next tool is added there, with the wire. */
  #seek(path, from = null) {
    this.#choose(path)
    this.pending = from
    this.palette.focusSearch()
  }

  #drop(tool, x, y) {
    const scope = this.graph.scopeAt(x, y)
    if (scope !== null) this.#add(tool, null, scope)
  }

  async #add(tool, chosen, into = null) {
    const sibling = into === null ? this.#find(chosen) : null
    const inside = sibling && ["steps", "graph"].includes(sibling.kind)
    const scope = into ?? (inside ? sibling.path : (sibling?.parent ?? ""))
    const id = this.#freeId(tool.name)
    const after = sibling && !inside && sibling.kind !== "end" ? { after: sibling.id } : {}
    const node = tool.scope ? { id, [tool.scope]: [] } : { id, use: tool.name }
    const path = scope ? `${scope}/${id}` : id
    this.#chosen = path
    if (!(await this.#make([{ op: "add", in: scope, node, ...after }]))) return
    this.#choose(path, { open: true, reveal: true })
    announce(`Added ${id}.`)
    const { pending } = this
    this.pending = null
    if (pending) await this.#wire(pending, path)
    this.#return(path)
  }

  #freeId(name) {
    const words = name.split(/[./]/).at(-1).toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^[^a-z]+/, "") || "node"
    const taken = new Set([...RESERVED, ...this.#graph.nodes.map((node) => node.id)])
    let id = words
    for (let count = 2; taken.has(id); count += 1) id = `${words}_${count}`
    return id
  }

  async #wire(from, to) {
    const operations = await wireOperations(this.#find(from), this.#find(to), this.tools, this.#graph)
    if (operations && (await this.#make(operations))) announce(`Wired ${from} to ${to}.`)
    this.#return(to)
  }

  /** The wire of the button in the pane: the node that reads is chosen in a list. */
  async #wireTo(from) {
    const others = this.#graph.nodes.filter((node) => node.path !== from && node.path !== ":inputs" && !from.startsWith(`${node.path}/`) && !node.path.startsWith(`${from}/`))
    const select = h("select", { id: "wire-target", testid: "wire-target" }, others.map((node) => h("option", { value: node.path }, node.path.replace(":", ""))))
    if ((await openDialog({ title: `Wire from ${from.replace(":", "")}`, content: h("div", { class: "field" }, h("label", { for: "wire-target" }, "Node that reads it"), select), actions: [{ name: "next", label: "Next", kind: "primary" }], close: "Cancel" })) === "next") await this.#wire(from, select.value)
  }

  async #rename(path) {
    const node = this.#find(path)
    if (!node || node.kind === "end") return
    const field = h("input", { id: "new-name", value: node.id, pattern: "[a-z][a-z0-9_]*", required: true, title: "Lower case letters, digits and _", testid: "new-name" })
    const chosen = await openDialog({ title: `Rename ${node.id}`, content: h("div", { class: "field" }, h("label", { for: "new-name" }, "New name"), field, h("p", { class: "hint" }, "Expressions that read the node follow.")), actions: [{ name: "rename", label: "Rename", kind: "primary" }], close: "Cancel" })
    if (chosen !== "rename" || field.value === node.id) return
    const renamed = node.parent ? `${node.parent}/${field.value}` : field.value
    if (await this.#make([{ op: "rename", path, to: field.value }])) this.#choose(renamed)
    this.#return(this.#chosen)
  }

  /** Moves a step behind the one that is so many places away from it; to the start where there is none. */
  async #move(path, places) {
    const node = this.#find(path)
    const siblings = siblingsOf(node, this.#graph)
    const after = siblings[siblings.indexOf(node) + places]?.id ?? null
    if (await this.#make([{ op: "move", path, after }])) announce(`Moved ${node.id}.`)
  }

  async #remove(path) {
    if (await this.#make([{ op: "remove", path }])) announce(`Removed ${path}. Undo brings it back.`)
    this.#return(this.#chosen)
  }

  /** Gives the focus back to the graph, unless the person has gone on to a field meanwhile. */
  #return(path) {
    const { activeElement } = document
    if (activeElement === document.body || this.graph.contains(activeElement) || this.palette.contains(activeElement)) this.graph.focusNode(path)
  }

  /** Sends operations; says what was refused and keeps what was typed. True if they were made. */
  async #make(operations, typed = false) {
    if (!typed) this.text.flush()
    return this.#do(() => this.session.edit(operations))
  }

  async #do(act) {
    try {
      return (await act()) !== false
    } catch (error) {
      if (error.status !== 401) this.#notice(problem("The change was not made", error.message))
      if (error.status !== 401 && this.draft) this.#showNode()
      return false
    }
  }

  #conflict({ operations, reason }) {
    if (operations.every((each) => each.op === "replace")) return this.text.show(this.draft)
    const again = h("button", { type: "button", class: "button", testid: "apply-anyway", onclick: (event) => (event.target.closest(".notice").remove(), this.#make(operations)) }, "Make my change all the same")
    return this.#notice(problem("Your change was not made", `${reason} The newest version is shown.`, again))
  }

  #notice(element) {
    const close = h("button", { type: "button", class: "icon-button small", "aria-label": "Close", title: "Close", onclick: () => element.remove() }, icon("cross"))
    element.append(close)
    this.notices.replaceChildren(element)
  }

  async #save() {
    this.text.flush()
    this.notices.replaceChildren()
    await this.#do(async () => {
      const seen = await this.session.preview()
      if (seen.diagnostics.length) {
        this.#pane("text")
        return this.#notice(problem("A draft with errors is not saved", `${seen.diagnostics[0].message} (line ${seen.diagnostics[0].line}). The draft is kept.`))
      }
      const { outdated } = this.draft
      const words = outdated && h("p", { class: "fault", testid: "outdated" }, "Another program saved this workflow since the draft began. The lines that differ from its version are shown.")
      const content = h("div", { class: "dialog-content" }, words, seen.diff ? diffBox(seen.diff, "Changes") : h("p", {}, "Nothing is changed."))
      const chosen = await openDialog({ title: `Save ${this.name}?`, content, actions: [{ name: "save", label: outdated ? "Replace that version" : "Save", kind: "primary" }], close: "Cancel", wide: true })
      if (chosen !== "save") return true
      await this.session.save({ force: outdated })
      return announce("Saved.")
    })
  }

  async #discard() {
    const words = this.draft.stored ? "The workflow is as it was saved last. The changes and their history are removed." : "It was never saved. It is removed."
    if (!(await confirmed("Discard this draft?", words, "Discard"))) return
    await this.#do(async () => {
      await this.session.discard()
      location.hash = this.draft.stored ? workflowAddress(this.name) : "#/workflows"
    })
  }
}

/** Names that expressions use for other things. */
const RESERVED = ["inputs", "outputs", "run", "project", "loop", "prev", "first", "item", "steps", "graph", "true", "false", "none", "and", "or", "not", "if", "else", "in", "is"]

customElements.define("editor-page", EditorPage)
