import "../components/state-badge.js"
import "../components/time-since.js"
import { get } from "../api.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { h } from "../dom.js"
import { every } from "../events.js"
import { ENDED, STATE_WORDS, count } from "../format.js"
import { icon } from "../icons.js"
import { runAddress } from "../router.js"

const PAGE = 40

/** Past and running runs, newest first; the running ones keep changing. */
class RunsPage extends HTMLElement {
  #runs = new Map()
  #rows = new Map()
  #oldest = null
  #stop = () => {}

  connectedCallback() {
    this.status = h("select", { "aria-label": "Status", testid: "filter-status", onchange: this.#show }, h("option", { value: "" }, "Any status"), ["running", "waiting", "done", "failed", "cancelled"].map((state) => h("option", { value: state }, STATE_WORDS[state])))
    this.workflow = h("select", { "aria-label": "Workflow", testid: "filter-workflow", onchange: this.#show }, h("option", { value: "" }, "Any workflow"))
    this.search = h("input", { type: "search", "aria-label": "Search in runs", "placeholder": "Search", testid: "filter-text", oninput: this.#show })
    this.body = h("tbody", {})
    this.table = h("table", { class: "table runs-table", testid: "runs", hidden: true }, h("thead", {}, h("tr", {}, ["Status", "Request", "Workflow", "Started", "Took", "Tokens"].map((name) => h("th", { scope: "col" }, name)))), this.body)
    this.older = h("button", { type: "button", class: "button older", hidden: true, testid: "older", onclick: this.#loadOlder }, "Show older runs")
    this.note = h("div", { class: "note-slot" }, loading(6))
    this.replaceChildren(h("header", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Runs"), h("div", { class: "filters" }, h("div", { class: "search" }, icon("search"), this.search), this.status, this.workflow)), this.table, this.note, this.older)
    this.#stop = every(2, this.#load)
  }

  disconnectedCallback() {
    this.#stop()
  }

  #load = async () => {
    try {
      const page = await get(`/api/runs?limit=${PAGE}`)
      this.#oldest ??= page.next
      this.#take(page.runs)
    } catch (error) {
      if (!this.#runs.size) this.note.replaceChildren(problem("The runs cannot be read", error.message))
    }
  }

  #loadOlder = async () => {
    this.older.disabled = true
    try {
      const page = await get(`/api/runs?limit=${PAGE}&before=${encodeURIComponent(this.#oldest)}`)
      this.#oldest = page.next ?? ""
      this.#take(page.runs)
    } catch (error) {
      this.note.replaceChildren(problem("The older runs cannot be read", error.message))
    }
    this.older.disabled = false
  }

  #take(runs) {
    for (const run of runs) this.#runs.set(run.id, run)
    const names = [...new Set([...this.#runs.values()].map((run) => run.workflow))].sort()
    if (names.length + 1 !== this.workflow.options.length) {
      const chosen = this.workflow.value
      this.workflow.replaceChildren(h("option", { value: "" }, "Any workflow"), ...names.map((name) => h("option", { value: name }, name)))
      this.workflow.value = chosen
    }
    this.older.hidden = !this.#oldest
    this.#show()
  }

  #fits(run) {
    const text = this.search.value.trim().toLowerCase()
    const found = !text || `${run.title} ${run.workflow} ${run.id}`.toLowerCase().includes(text)
    return found && (!this.status.value || run.status === this.status.value) && (!this.workflow.value || run.workflow === this.workflow.value)
  }

  /** Rows are kept by run, so that focus and selection survive each refresh. */
  #show = () => {
    const shown = [...this.#runs.values()].sort((a, b) => (a.id < b.id ? 1 : -1)).filter((run) => this.#fits(run))
    const rows = shown.map((run) => this.#row(run))
    if (rows.some((row, i) => this.body.children[i] !== row) || rows.length !== this.body.children.length) this.body.replaceChildren(...rows)
    this.table.hidden = !rows.length
    this.note.replaceChildren(...(rows.length ? [] : [this.#nothing()]))
  }

  #nothing() {
    if (this.#runs.size) return emptyState("search", "Nothing fits", "No run shown here has these words and this status.")
    return emptyState("runs", "No runs yet", "Each question you ask and each workflow you start is kept here.", h("a", { class: "button primary", href: "#/chat" }, "Ask something"))
  }

  #row(run) {
    const key = JSON.stringify(run)
    const known = this.#rows.get(run.id)
    if (known?.key === key) return known.row
    const row = known?.row ?? h("tr", { testid: "run", dataset: { run: run.id } })
    const focused = row.contains(document.activeElement)
    row.replaceChildren(...cells(run))
    row.dataset.state = run.status
    if (focused) row.querySelector("a").focus()
    this.#rows.set(run.id, { key, row })
    return row
  }
}

/** The server cuts a title at 80 characters; say that there is more. */
const short = (title) => (title.length < 80 ? title : `${title}…`)

function cells(run) {
  const took = h("time-taken", { started: run.started, seconds: ENDED.has(run.status) ? (run.seconds ?? 0) : null })
  const used = (run.tokens?.prompt ?? 0) + (run.tokens?.completion ?? 0)
  const cell = (name, ...content) => h("td", { dataset: { name } }, ...content)
  return [
    cell("status", h("state-badge", { state: run.status })),
    cell("title", h("a", { class: "row-link", href: runAddress(run.id) }, short(run.title || run.workflow))),
    cell("workflow", run.workflow),
    cell("started", h("time-since", { at: run.started })),
    cell("took", took),
    cell("tokens", used ? count(used) : h("span", { class: "fine" }, "none")),
  ]
}

customElements.define("runs-page", RunsPage)
