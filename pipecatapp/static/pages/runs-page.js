import "../components/run-filters.js"
import "../components/state-badge.js"
import "../components/time-since.js"
import { get } from "../api.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { announce, h } from "../dom.js"
import { every } from "../events.js"
import { ENDED, count } from "../format.js"
import { compareAddress, rewrite, runAddress, runsAddress } from "../router.js"
import { deleteRuns, exportRuns } from "../run-actions.js"

const PAGE = 40
const MOST = 500 // runs that one answer of the server holds
const AHEAD = "800px" // how far before the end of the list the next page is fetched
const REMEMBER = 300 // milliseconds between two notes of the position

/** Past and running runs, newest first; the running ones keep changing. The address holds the filters. */
class RunsPage extends HTMLElement {
  #runs = new Map()
  #rows = new Map()
  #picked = new Set()
  #older = null // the cursor of the next page; "" at the end of the list
  #turn = 0 // grows with each change of the filters, so that late answers to earlier ones are dropped
  #fetching = false
  #remembering = 0
  #stop = () => {}

  connectedCallback() {
    this.filters = h("run-filters", { onfilter: () => this.#search() })
    this.body = h("tbody", { onchange: this.#pick })
    this.all = h("input", { type: "checkbox", "aria-label": "Choose all runs shown", testid: "pick-all", onchange: () => this.#pickAll() })
    this.number = h("span", { role: "status", testid: "picked" })
    this.compare = h("a", { class: "button", testid: "bulk-compare" }, "Compare")
    this.bulk = h("div", { class: "bulk", role: "group", "aria-label": "Chosen runs", hidden: true, testid: "bulk" }, this.number, this.compare, this.#action("bulk-export", "Export", () => exportRuns(this.#chosen())), this.#action("bulk-delete", "Delete", () => this.#delete()), h("button", { type: "button", class: "link-button", testid: "bulk-none", onclick: () => this.#unpick() }, "Choose none"))
    this.fault = h("div", { class: "note-slot" })
    this.table = h("table", { class: "table runs-table", testid: "runs", hidden: true }, h("thead", {}, h("tr", {}, h("th", { class: "pick" }, this.all), ["Status", "Request", "Workflow", "Started", "Took", "Tokens"].map((name) => h("th", { scope: "col" }, name)))), this.body)
    this.more = h("button", { type: "button", class: "button older", hidden: true, testid: "older", onclick: () => this.#loadOlder() }, "Show older runs")
    this.note = h("div", { class: "note-slot" }, loading(6))
    this.replaceChildren(h("header", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Runs"), this.filters), this.bulk, this.fault, this.table, this.note, this.more)
    this.scroller = this.closest("main")
    this.scroller.addEventListener("scroll", this.#remember, { passive: true })
    this.watch = new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && this.#loadOlder(), { root: this.scroller, rootMargin: AHEAD })
    this.filters.show(this.params)
    this.#begin(history.state?.runs)
  }

  disconnectedCallback() {
    this.#stop()
    this.watch.disconnect()
    this.scroller.removeEventListener("scroll", this.#remember)
    clearTimeout(this.#remembering)
  }

  /** The same page at another address: a link to the list, or Back from one filter to the one before. */
  enter(params) {
    this.filters.show(params)
    this.#begin(history.state?.runs)
  }

  #search() {
    rewrite(runsAddress(this.filters.filters))
    this.#begin()
  }

  /** Reads the list from its newest run on, or up to the place where the reader left it. */
  async #begin(place = null) {
    this.#turn += 1
    this.address = location.hash
    this.#stop()
    this.watch.disconnect()
    const turn = this.#turn
    const first = await this.#fetch(place ? Math.min(MOST, Math.max(PAGE, place.rows)) : PAGE)
    if (turn !== this.#turn || !this.isConnected) return
    this.#runs.clear()
    this.#older = null
    if (first) this.#take(first)
    while (place && this.#older && this.#runs.size < place.rows && (await this.#next())) continue
    if (turn !== this.#turn || !this.isConnected) return
    if (place) this.#scrollTo(place)
    else this.scroller.scrollTo(0, 0)
    if (first && !place) announce(this.#runs.size ? `${this.#older ? "More than " : ""}${this.#runs.size} runs` : "No matching runs")
    this.watch.observe(this.more)
    this.filters.offer().catch(() => {}) // the list says what is wrong
    this.#stop = every(2, () => this.#refresh())
  }

  /** A page of the list; null when it cannot be read, or when the filters have changed meanwhile. */
  async #fetch(limit, before) {
    const turn = this.#turn
    try {
      const page = await get(`/api/runs?${new URLSearchParams({ ...this.filters.query, limit, ...(before && { before }) })}`)
      return turn === this.#turn ? page : null
    } catch (error) {
      if (turn === this.#turn && !this.#runs.size) this.note.replaceChildren(problem("The runs cannot be read", error.message))
      return null
    }
  }

  /** Reads the newest runs again, as far down as one has not ended. */
  async #refresh() {
    const unfinished = this.#sorted().findLastIndex((run) => !ENDED.has(run.status))
    const page = await this.#fetch(Math.min(MOST, Math.max(PAGE, unfinished + 1)))
    if (page) this.#take(page)
  }

  async #loadOlder() {
    if (this.#fetching || !this.#older) return
    this.#fetching = true
    this.more.disabled = true
    const taken = await this.#next()
    this.more.disabled = false
    this.#fetching = false
    this.watch.unobserve(this.more)
    if (taken) this.watch.observe(this.more) // tells at once when the end of the list is still near
  }

  async #next() {
    const page = await this.#fetch(PAGE, this.#older)
    if (!page) return false
    for (const run of page.runs) this.#runs.set(run.id, run)
    this.#older = page.next ?? ""
    this.#show()
    return true
  }

  /** Takes the newest page: what it does not hold of the part that it covers is gone, or fits the filters no more. */
  #take(page) {
    const last = page.next ? page.runs.at(-1).id : ""
    const apart = page.next && this.#runs.size && !page.runs.some((run) => this.#runs.has(run.id))
    if (apart) this.#runs.clear() // so many new runs that there would be a gap
    if (this.#older === null || apart) this.#older = page.next ?? ""
    for (const id of [...this.#runs.keys()]) if (id >= last) this.#runs.delete(id)
    for (const run of page.runs) this.#runs.set(run.id, run)
    this.#show()
  }

  #sorted() {
    return [...this.#runs.values()].sort((a, b) => (a.id < b.id ? 1 : -1))
  }

  /** Rows are kept by run, so that focus and selection survive each refresh. */
  #show() {
    for (const [id, { row }] of this.#rows) {
      if (this.#runs.has(id)) continue
      row.remove()
      this.#rows.delete(id)
    }
    this.#sorted().forEach((run, i) => {
      const row = this.#row(run)
      if (this.body.children[i] !== row) this.body.insertBefore(row, this.body.children[i] ?? null)
    })
    for (const id of [...this.#picked]) if (!this.#runs.has(id)) this.#picked.delete(id)
    this.#showPicked()
    this.table.hidden = !this.#runs.size
    this.more.hidden = !this.#older
    this.note.replaceChildren(...(this.#runs.size ? [] : [this.#nothing()]))
    this.#remember()
  }

  #nothing() {
    if (Object.keys(this.filters.filters).length) return emptyState("search", "No matching runs", "No run has these words and fits these filters.")
    return emptyState("runs", "No runs yet", "Each question you ask and each workflow you start is kept here.", h("a", { class: "button primary", href: "#/chat" }, "Ask something"))
  }

  #row(run) {
    const key = JSON.stringify(run)
    const known = this.#rows.get(run.id)
    if (known?.key === key) return known.row
    const row = known?.row ?? h("tr", { testid: "run", dataset: { run: run.id } })
    const focused = row.contains(document.activeElement) && document.activeElement.localName
    row.replaceChildren(...cells(run, this.#picked.has(run.id)))
    row.dataset.state = run.status
    if (focused) row.querySelector(focused).focus()
    this.#rows.set(run.id, { key, row })
    return row
  }

  /** Chosen runs, in the order of their beginning. */
  #chosen() {
    return [...this.#picked].sort()
  }

  #pick = ({ target }) => {
    const { run } = target.closest("tr").dataset
    if (target.checked) this.#picked.add(run)
    else this.#picked.delete(run)
    this.#showPicked()
  }

  #pickAll() {
    this.#picked = new Set(this.all.checked ? this.#runs.keys() : [])
    this.#check()
  }

  #unpick() {
    this.#picked.clear()
    this.#check()
    this.all.focus()
  }

  #check() {
    for (const [id, { row }] of this.#rows) row.querySelector("input").checked = this.#picked.has(id)
    this.#showPicked()
  }

  #showPicked() {
    const many = this.#picked.size
    this.bulk.hidden = !many
    this.number.textContent = `${many} chosen`
    this.all.checked = many > 0 && many === this.#runs.size
    this.all.indeterminate = many > 0 && many < this.#runs.size
    this.compare.hidden = many !== 2
    if (many === 2) this.compare.href = compareAddress(...this.#chosen())
  }

  #action(name, label, work) {
    const button = h("button", { type: "button", class: "button", testid: name }, label)
    button.addEventListener("click", async () => {
      if (button.ariaBusy === "true") return // not disabled meanwhile: a dialog gives the focus back to it
      button.ariaBusy = "true"
      this.fault.replaceChildren()
      try {
        await work()
      } catch (error) {
        this.fault.replaceChildren(problem(`${label}: this did not work`, error.message))
      }
      button.ariaBusy = "false"
    })
    return button
  }

  async #delete() {
    const runs = this.#chosen()
    if (!(await deleteRuns(runs))) return
    for (const run of runs) this.#runs.delete(run)
    this.#show()
  }

  /** Notes with the address how long the list is and which run is at its upper edge, for Back and for a reload. */
  #remember = () => {
    this.#remembering ||= setTimeout(() => {
      this.#remembering = 0
      const edge = this.scroller.getBoundingClientRect().top
      const row = [...this.body.children].find((each) => each.getBoundingClientRect().bottom > edge)
      const place = row && this.scroller.scrollTop > 0 ? { rows: this.#runs.size, run: row.dataset.run, offset: row.getBoundingClientRect().top - edge } : null
      if (location.hash === this.address) rewrite(this.address, place && { runs: place })
    }, REMEMBER)
  }

  #scrollTo({ run, offset }) {
    const row = this.#rows.get(run)?.row
    if (row) this.scroller.scrollTop += row.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top - offset
  }
}

/** The server cuts a title at 80 characters; say that there is more. */
const short = (title) => (title.length < 80 ? title : `${title}…`)

function cells(run, picked) {
  const took = h("time-taken", { started: run.started, seconds: ENDED.has(run.status) ? (run.seconds ?? 0) : null })
  const used = (run.tokens?.prompt ?? 0) + (run.tokens?.completion ?? 0)
  const cell = (name, ...content) => h("td", { dataset: { name } }, ...content)
  return [
    cell("pick", h("input", { type: "checkbox", checked: picked, "aria-label": `Choose ${short(run.title || run.workflow)}`, testid: "pick" })),
    cell("status", h("state-badge", { state: run.status })),
    cell("title", h("a", { class: "row-link", href: runAddress(run.id) }, short(run.title || run.workflow))),
    cell("workflow", run.workflow),
    cell("started", h("time-since", { at: run.started })),
    cell("took", took),
    cell("tokens", used ? count(used) : h("span", { class: "fine" }, "none")),
  ]
}

customElements.define("runs-page", RunsPage)
