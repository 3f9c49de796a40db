import "../components/time-since.js"
import { get, post, remove } from "../api.js"
import { confirmed, openDialog } from "../components/dialog.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { systemHead } from "../components/page-tabs.js"
import { sourceForm } from "../components/source-form.js"
import { announce, h } from "../dom.js"
import { every } from "../events.js"
import { count } from "../format.js"
import { icon } from "../icons.js"
import { knowledgeAddress, rewrite } from "../router.js"

const LOOK_SECONDS = 2
const address = (name = "", verb = "") => `/api/knowledge${name && `/${encodeURIComponent(name)}`}${verb && `/${verb}`}`

/** The documents of this home: sources with the state of their index, and a search with links to the passages. */
class KnowledgePage extends HTMLElement {
  #shown = ""
  #stop = () => {}

  connectedCallback() {
    const { query = "", passage } = this.params ?? {}
    const add = h("button", { type: "button", class: "button primary", testid: "source-add", onclick: () => this.#add() }, icon("plus"), "Add documents")
    this.query = h("input", { type: "search", value: query, maxlength: 2000, "aria-label": "Search in the documents", placeholder: "A question or words", testid: "knowledge-query" })
    const form = h("form", { class: "knowledge-search", role: "search", onsubmit: this.#submit }, h("div", { class: "search" }, icon("search"), this.query), h("button", { type: "submit", class: "button", testid: "knowledge-search" }, "Search"))
    this.note = h("div", { class: "note-slot" }, loading(3))
    this.results = h("section", { class: "passages", "aria-label": "Passages", "aria-live": "polite", testid: "passages" })
    this.sources = h("ul", { class: "model-list", testid: "sources" })
    this.replaceChildren(systemHead("knowledge", add), h("p", { class: "fine" }, "Hearth answers questions from these documents and names the passages. Changed files are indexed by themselves."), form, this.results, this.note, h("section", {}, h("h2", { class: "off-screen" }, "Documents"), this.sources))
    this.#stop = every(LOOK_SECONDS, this.#load)
    if (passage) this.#open(passage)
    else if (query) this.#search(query)
  }

  disconnectedCallback() {
    this.#stop()
  }

  #load = async () => {
    try {
      const { sources } = await get(address())
      const shown = JSON.stringify(sources)
      if (shown === this.#shown || document.querySelector("dialog[open]")) return
      this.#shown = shown
      const focused = this.sources.contains(document.activeElement) ? document.activeElement.dataset : null
      this.sources.replaceChildren(...sources.map((source) => this.#row(source)))
      this.sources.hidden = !sources.length
      this.note.replaceChildren(...(sources.length ? [] : [emptyState("file", "No documents yet", "Add a folder with manuals, letters or notes. They stay where they are.")]))
      if (focused) this.querySelector(`[data-testid="${focused.testid}"][data-name="${CSS.escape(focused.name)}"]`)?.focus()
    } catch (error) {
      this.note.replaceChildren(problem("The documents cannot be listed", error.message))
    }
  }

  #row(source) {
    const { name, paths, counts, error, waiting_for: waitingFor, checked } = source
    const failed = counts.failed === 1 ? "1 file is not indexed" : `${count(counts.failed)} files are not indexed`
    const words = [counts.files === 1 ? "1 file" : `${count(counts.files)} files`, counts.passages === 1 ? "1 passage" : `${count(counts.passages)} passages`, `readers: ${readers(source)}`]
    const act = (label, testid, work, kind = "") => h("button", { type: "button", class: `button ${kind}`, dataset: { name }, testid, "aria-label": `${label} ${name}`, onclick: work }, label)
    return h(
      "li",
      { class: "model-row", testid: "source", dataset: { name } },
      h("div", { class: "model-words" }, h("div", { class: "model-title" }, h("h3", {}, name), state(source)), h("p", {}, words.join(" · ")), h("p", { class: "fine" }, paths.join(", "), checked && [" · indexed ", h("time-since", { at: checked })]), error && h("p", { class: "fault", testid: "source-error" }, error), waitingFor && h("p", { class: "fine", testid: "source-waiting" }, `Found only by words for now: ${waitingFor}`), counts.failed > 0 && h("p", {}, h("button", { type: "button", class: "link-button", dataset: { name }, testid: "source-failures", onclick: () => this.#failures(name) }, failed)), progress(source)),
      h("div", { class: "model-actions" }, act("Update", "source-update", () => this.#update(name)), act("Remove", "source-remove", () => this.#remove(name), "danger")),
    )
  }

  #submit = (event) => {
    event.preventDefault()
    const query = this.query.value.trim()
    rewrite(knowledgeAddress(query ? { query } : {}))
    if (query) this.#search(query)
    else this.results.replaceChildren()
  }

  async #search(query) {
    this.results.replaceChildren(loading(2))
    try {
      const { passages, others, by_words: byWords } = await get(`/api/knowledge/search?query=${encodeURIComponent(query)}`)
      const nothing = !passages.length && emptyState("search", "No document fits", others.length ? "The passages below are the nearest ones." : "No document has these words.")
      this.results.replaceChildren(...[h("h2", { class: "off-screen" }, "Passages"), byWords && h("p", { class: "fine", testid: "by-words" }, `Only the words were compared: ${byWords}`), nothing, list("fitting", passages, query), others.length > 0 && h("details", { class: "revoked" }, h("summary", {}, `Passages that hardly fit (${others.length})`), list("others", others, query))].filter(Boolean))
    } catch (error) {
      this.results.replaceChildren(problem("The documents cannot be searched", error.message))
    }
  }

  /** Shows a passage with the text before and behind it. */
  async #open(id) {
    this.results.replaceChildren(loading(2))
    try {
      const found = await get(`/api/knowledge/passages/${encodeURIComponent(id)}`)
      const { query } = this.params
      const back = query && h("a", { class: "button", href: knowledgeAddress({ query }) }, icon("back"), "All passages")
      this.results.replaceChildren(h("article", { class: "passage whole", testid: "passage-whole" }, h("h2", {}, found.citation), h("p", { class: "fine" }, place(found)), found.before && h("p", { class: "passage-text fine" }, found.before), h("p", { class: "passage-text" }, found.text), found.after && h("p", { class: "passage-text fine" }, found.after), back))
    } catch (error) {
      this.results.replaceChildren(problem("The passage cannot be shown", error.message))
    }
  }

  async #add() {
    const form = sourceForm()
    while (await openDialog({ title: "Add documents", content: form.element, actions: [{ name: "save", label: "Add", kind: "primary" }], close: "Cancel" })) {
      try {
        const { name } = await post(address(), form.values())
        announce(`${name} is being indexed.`)
        break
      } catch (error) {
        form.refuse(error.message)
      }
    }
    await this.#load()
  }

  async #update(name) {
    try {
      await post(address(name, "update"), {})
      announce(`${name} is being compared.`)
      await this.#load()
    } catch (error) {
      await this.#refused(error)
    }
  }

  async #remove(name) {
    if (!(await confirmed(`Remove ${name}?`, "Its passages are removed from the index. The documents stay.", "Remove"))) return
    try {
      await remove(address(name))
      announce(`${name} is removed.`)
      await this.#load()
    } catch (error) {
      await this.#refused(error)
    }
  }

  async #failures(name) {
    try {
      const { failures, counts } = await get(address(name))
      const rows = failures.map(({ path, error }) => h("li", {}, h("strong", {}, path), h("p", { class: "fine" }, error)))
      await openDialog({ title: `Files of ${name} that are not indexed`, content: h("div", { class: "dialog-content" }, h("ul", { class: "people-talks", testid: "failures" }, rows), rows.length < counts.failed && h("p", { class: "fine" }, `${count(rows.length)} of ${count(counts.failed)} are shown.`)) })
    } catch (error) {
      await this.#refused(error)
    }
  }

  #refused(error) {
    return openDialog({ title: "This did not work", content: h("p", { role: "alert", testid: "knowledge-refusal" }, error.message) })
  }
}

const STATES = { waiting: "Waiting", reading: "Reading", embedding: "Embedding", ready: "Ready" }

function state({ state, error }) {
  const kind = error ? "bad" : state === "ready" && "good"
  return h("span", { class: "tag", dataset: kind ? { kind } : {}, testid: "source-state" }, error ? "Error" : STATES[state])
}

/** How far the indexing is; nothing if it is done. */
function progress({ name, state, done, total, counts }) {
  if (state === "reading" && total > 0) return bar(`Files of ${name} that are read`, done, total)
  return state === "embedding" && counts.embedded < counts.passages && bar(`Passages of ${name} that are embedded`, counts.embedded, counts.passages)
}

const bar = (label, value, max) => h("div", { class: "source-progress" }, h("progress", { "aria-label": label, value, max, testid: "source-progress" }), h("span", { class: "fine" }, `${count(value)} of ${count(max)}`))

const readers = ({ readers }) => (readers.includes("*") ? "all keys" : readers.join(", ") || "built-in key")

function place({ page, line, last_line: last }) {
  const lines = line === last ? `line ${line}` : `lines ${line} to ${last}`
  return page ? `Page ${page}, ${lines}` : `${lines[0].toUpperCase()}${lines.slice(1)}`
}

function list(testid, passages, query) {
  return h("ul", { class: "passage-list", testid: `passages-${testid}` }, passages.map((one) => h("li", { class: "passage", testid: "passage" }, h("h3", {}, h("a", { href: knowledgeAddress({ query, passage: one.id }) }, one.citation)), h("p", { class: "fine" }, place(one)), h("p", { class: "passage-text clipped" }, one.text))))
}

customElements.define("knowledge-page", KnowledgePage)
