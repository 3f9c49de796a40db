import { h } from "../dom.js"
import { icon } from "../icons.js"

const SCOPES = [
  { name: "steps", about: "A scope whose nodes run in sequence.", scope: "steps" },
  { name: "graph", about: "A scope whose nodes run as soon as their inputs are there.", scope: "graph" },
]
const FAR = 5 // pixels that a pointer moves before it drags

/**
 * <tool-palette>: all tools and workflows with a search. Enter or a click adds one ("add" {tool}); dragged and dropped it
 * tells "drop" {tool, x, y}. `show(tools)` fills it.
 */
class ToolPalette extends HTMLElement {
  connectedCallback() {
    if (this.list) return
    this.field = h("input", { type: "search", placeholder: "Search tools", "aria-label": "Search tools and workflows", testid: "palette-search", oninput: () => this.#filter(), onkeydown: this.#key })
    this.list = h("ul", { class: "palette-list", testid: "palette" })
    this.none = h("p", { class: "quiet", hidden: true }, "No tool has these words.")
    this.replaceChildren(h("h2", { class: "off-screen" }, "Tools"), h("div", { class: "search" }, icon("search"), this.field), this.list, this.none)
  }

  show(tools) {
    this.entries = [...tools, ...SCOPES].map((tool) => ({ tool, words: `${tool.name} ${tool.about}`.toLowerCase(), element: this.#entry(tool) }))
    this.list.replaceChildren(...this.entries.map((entry) => entry.element))
    this.#filter()
  }

  focusSearch() {
    this.field.focus()
    this.field.select()
  }

  #entry(tool) {
    const about = tool.about.split("\n")[0]
    const button = h("button", { type: "button", class: "palette-tool", title: about, testid: "palette-tool", dataset: { tool: tool.name }, onclick: () => this.#add(tool), onpointerdown: (event) => this.#grab(event, tool) }, h("span", { class: "palette-name" }, tool.name), h("span", { class: "palette-about" }, about))
    return h("li", {}, button)
  }

  #filter() {
    const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean)
    for (const entry of this.entries ?? []) entry.element.hidden = !words.every((word) => entry.words.includes(word))
    this.none.hidden = (this.entries ?? []).some((entry) => !entry.element.hidden)
  }

  #key = (event) => {
    const shown = (this.entries ?? []).filter((entry) => !entry.element.hidden)
    if (event.key === "ArrowDown") shown[0]?.element.firstElementChild.focus()
    else if (event.key === "Enter" && shown.length) this.#add((shown.find((entry) => entry.tool.name === this.field.value.trim()) ?? shown[0]).tool)
    else return
    event.preventDefault()
  }

  #add(tool) {
    if (this.dragged) return (this.dragged = false)
    this.dispatchEvent(new CustomEvent("add", { detail: { tool }, bubbles: true }))
    return true
  }

  #grab(event, tool) {
    if (event.button !== 0) return
    const from = { x: event.clientX, y: event.clientY }
    let ghost = null
    this.dragged = false
    const move = ({ clientX, clientY }) => {
      if (!ghost && Math.hypot(clientX - from.x, clientY - from.y) < FAR) return
      ghost ??= document.body.appendChild(h("div", { class: "palette-ghost" }, tool.name))
      ghost.style.transform = `translate(${clientX + 8}px, ${clientY + 8}px)`
    }
    const drop = ({ type, clientX, clientY }) => {
      document.removeEventListener("pointermove", move)
      for (const end of ["pointerup", "pointercancel"]) document.removeEventListener(end, drop)
      if (!ghost) return
      ghost.remove()
      this.dragged = true
      setTimeout(() => (this.dragged = false)) // after the click that may follow
      if (type === "pointerup") this.dispatchEvent(new CustomEvent("drop-tool", { detail: { tool, x: clientX, y: clientY }, bubbles: true }))
    }
    document.addEventListener("pointermove", move)
    for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, drop)
  }
}

customElements.define("tool-palette", ToolPalette)
