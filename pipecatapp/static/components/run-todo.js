import { get, post } from "../api.js"
import { h } from "../dom.js"
import { problem } from "./notice.js"

const PAUSE = 500 // ms between two looks at the list, however many steps change
const WORDS = { open: "To do", running: "Running", waiting: "Needs you", done: "Done", failed: "Failed", cancelled: "Cancelled", struck: "Struck" }

/** <run-todo>: the to-do list of a run that plans: items can be struck before they begin, and added. `show(run, view, ended)`. */
class RunTodo extends HTMLElement {
  #run = null
  #pending = 0
  #ended = false
  #key = ""

  disconnectedCallback() {
    clearTimeout(this.#pending)
  }

  show(run, view, ended) {
    this.#ended = ended
    if (this.#run !== run) {
      this.#run = run
      this.#key = ""
      this.hidden = true
    }
    const planned = view.steps.some((step) => step.tool === "plan.run")
    const key = planned ? `${ended} ${view.steps.map((step) => step.status).join()}` : ""
    if (key === this.#key) return
    this.#key = key
    this.#pending ||= setTimeout(() => this.#look(), PAUSE)
  }

  async #look() {
    this.#pending = 0
    try {
      this.#list(await get(this.#address()))
    } catch (error) {
      this.#fault(error)
    }
  }

  #address() {
    return `/api/runs/${encodeURIComponent(this.#run)}/todo`
  }

  async #change(change) {
    try {
      this.#list(await post(this.#address(), change))
      return true
    } catch (error) {
      this.#fault(error)
      return false
    }
  }

  #fault(error) {
    this.#build()
    this.fault.replaceChildren(problem("The to-do list cannot be changed", error.message))
  }

  #build() {
    if (this.list) return
    this.list = h("ol", { class: "todo-items" })
    this.fault = h("div", {})
    this.field = h("input", { type: "text", maxlength: 2000, "aria-label": "New item", placeholder: "Add an item", testid: "todo-text" })
    const add = async (event) => {
      event.preventDefault()
      if (this.field.value.trim() && (await this.#change({ add: this.field.value.trim() }))) this.field.value = ""
    }
    this.form = h("form", { class: "row", onsubmit: add }, this.field, h("button", { type: "submit", class: "button", testid: "todo-add" }, "Add"))
    this.replaceChildren(h("section", { class: "pane todo", "aria-labelledby": "todo-title" }, h("h2", { id: "todo-title" }, "To-do list"), this.list, this.form, this.fault))
  }

  #list({ items }) {
    this.#build()
    this.fault.replaceChildren()
    this.hidden = !items.length
    this.form.hidden = this.#ended
    this.list.replaceChildren(...items.map((item) => this.#item(item)))
  }

  #item({ id, path, text, state }) {
    const strike = h("button", { type: "button", class: "button small", testid: "todo-strike", "aria-label": `Strike ${id}`, onclick: () => this.#change({ strike: id }) }, "Strike")
    const can = state === "open" && path && !this.#ended
    const words = h("span", { class: "todo-text" }, state === "struck" ? h("s", {}, text) : text)
    return h("li", { class: "row", testid: "todo-item", dataset: { id, state } }, h("span", { class: "quiet" }, WORDS[state]), words, can && strike)
  }
}

customElements.define("run-todo", RunTodo)
