import "../components/time-since.js"
import { get, remove } from "../api.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { announce, h } from "../dom.js"
import { count } from "../format.js"
import { icon } from "../icons.js"
import { runAddress } from "../router.js"

const MOST = 500

/** What the agent remembers across conversations: each note with its source, and a button to delete it. */
class NotesPage extends HTMLElement {
  connectedCallback() {
    this.search = h("input", { type: "search", "aria-label": "Search in notes", placeholder: "Search", testid: "notes-filter", oninput: this.#load })
    this.list = h("ul", { class: "notes", testid: "notes" })
    this.rest = h("p", { class: "fine", testid: "notes-rest" })
    this.note = h("div", { class: "note-slot" }, loading(3))
    this.replaceChildren(h("header", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Notes"), h("div", { class: "filters" }, h("div", { class: "search" }, icon("search"), this.search))), h("p", { class: "fine" }, "The agent finds these notes in every conversation. A note that a model saved after it had read a page or a file may repeat what that text told it to remember."), this.note, this.list, this.rest)
    this.#load()
  }

  #load = async () => {
    const query = this.search.value.trim()
    try {
      const { notes, total } = await get(`/api/notes?limit=${MOST}&query=${encodeURIComponent(query)}`)
      if (query !== this.search.value.trim()) return
      this.list.replaceChildren(...notes.map((note) => this.#row(note)))
      this.rest.textContent = notes.length < total ? `${count(notes.length)} of ${count(total)} notes are shown. Search to find the others.` : ""
      const nothing = query ? emptyState("search", "No matching notes", "No note has these words.") : emptyState("list", "No notes yet", "Ask the agent to remember something.")
      this.note.replaceChildren(...(notes.length ? [] : [nothing]))
    } catch (error) {
      this.note.replaceChildren(problem("The notes cannot be read", error.message))
    }
  }

  #row(note) {
    const button = h("button", { type: "button", class: "button", testid: "delete-note", "aria-label": `Delete the note “${note.text.slice(0, 60)}”`, onclick: () => this.#delete(note, button) }, "Delete")
    return h("li", { class: "note-row", testid: "note" }, h("div", {}, h("p", {}, note.text), h("p", { class: "fine" }, h("time-since", { at: note.at }), ...source(note))), button)
  }

  async #delete(note, button) {
    button.disabled = true
    try {
      await remove(`/api/notes/${encodeURIComponent(note.id)}`)
      announce("The note is deleted.")
      await this.#load()
    } catch (error) {
      button.disabled = false
      this.note.replaceChildren(problem("The note was not deleted", error.message))
    }
  }
}

/** Who saved a note, in which run, and what was read before. */
function source({ owner, source_exists: exists, source: { by, run, read } }) {
  const parts = []
  if (by) parts.push(` · saved by a ${by} in `, exists ? h("a", { href: runAddress(run) }, "this run") : "a run that was deleted")
  if (read?.length) parts.push(` after reading ${read.join(", ")}`)
  if (owner) parts.push(` · key ${owner}`)
  return parts
}

customElements.define("notes-page", NotesPage)
