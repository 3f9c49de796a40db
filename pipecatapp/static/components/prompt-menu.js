import { get } from "../api.js"
import { announce, h } from "../dom.js"

const MOST = 8
let count = 0

/**
 * The prompt library in a text field: while the field holds "/" and letters, a list of the prompts that fit them. Arrow keys
 * choose, Enter or Tab puts the text of the prompt into the field, Escape closes. `key(event)` is true when it used the key.
 */
export class PromptMenu {
  #prompts = null
  #shown = []
  #at = 0
  #closed = ""

  constructor(field, chosen) {
    count += 1
    this.field = field
    this.chosen = chosen
    this.list = h("ul", { id: `prompts-${count}`, class: "prompt-menu", role: "listbox", "aria-label": "Prompt library", tabindex: "0", hidden: true, testid: "prompts", onmousedown: (event) => event.preventDefault() })
    for (const [name, value] of Object.entries({ "aria-haspopup": "listbox", "aria-controls": this.list.id, "aria-autocomplete": "list" })) field.setAttribute(name, value)
    field.addEventListener("input", () => this.look())
    field.addEventListener("blur", () => this.#close())
  }

  get open() {
    return !this.list.hidden
  }

  /** Shows what fits the field now; the library is read once, with the first "/". */
  async look() {
    const asked = /^\/([\w-]*)$/.exec(this.field.value)
    if (!asked || this.#closed === this.field.value) return this.#close()
    try {
      this.#prompts ??= (await get("/api/prompts")).prompts
    } catch (error) {
      return this.#draw([h("li", { class: "fine", role: "option", "aria-disabled": "true" }, error.message)])
    }
    if (!this.field.value.startsWith("/")) return this.#close()
    const name = asked[1].toLowerCase()
    const begin = this.#prompts.filter(({ id }) => id.startsWith(name))
    const inside = this.#prompts.filter(({ id }) => id.includes(name) && !id.startsWith(name))
    this.#shown = [...begin, ...inside].slice(0, MOST)
    this.#at = 0
    this.#draw(this.#shown.length ? this.#shown.map((each, i) => this.#option(each, i)) : [h("li", { class: "fine", role: "option", "aria-disabled": "true" }, "No prompt has this name.")])
    this.#mark()
    announce(`${this.#shown.length} prompts`)
  }

  #draw(options) {
    this.list.replaceChildren(...options)
    this.list.hidden = false
  }

  #option(prompt, i) {
    return h("li", { id: `${this.list.id}-${i}`, role: "option", class: "prompt-option", testid: "prompt", onclick: () => this.#choose(i) }, h("strong", {}, `/${prompt.id}`), h("span", { class: "fine" }, prompt.text.trim().split("\n")[0]))
  }

  #mark() {
    for (const [i, option] of [...this.list.children].entries()) option.setAttribute("aria-selected", String(i === this.#at && this.#shown.length > 0))
    const active = this.#shown.length ? this.list.children[this.#at] : null
    active?.scrollIntoView({ block: "nearest" })
    if (active) this.field.setAttribute("aria-activedescendant", active.id)
  }

  key(event) {
    if (!this.open) return false
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (event.key === "Escape") this.#close({ for: this.field.value })
    else if (by && this.#shown.length) this.#move(by)
    else if ((event.key === "Enter" || event.key === "Tab") && this.#shown.length) this.#choose(this.#at)
    else return false
    event.preventDefault()
    event.stopPropagation()
    return true
  }

  #move(by) {
    this.#at = (this.#at + by + this.#shown.length) % this.#shown.length
    this.#mark()
  }

  #choose(i) {
    const prompt = this.#shown[i]
    this.#close()
    this.chosen(prompt.text.trim())
  }

  #close({ for: value = "" } = {}) {
    this.#closed = value
    this.#shown = []
    this.list.hidden = true
    this.field.removeAttribute("aria-activedescendant")
  }
}
