import { get } from "../api.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { workflowsHead } from "../components/page-tabs.js"
import { h } from "../dom.js"
import { EFFECTS } from "../format.js"
import { icon } from "../icons.js"
import { toolAddress } from "../router.js"

/** The tools of workflows and agents; each can be called by hand. */
class ToolsPage extends HTMLElement {
  async connectedCallback() {
    this.list = h("div", {}, loading(3))
    this.words = h("input", { type: "search", "aria-label": "Search tools", placeholder: "Search tools", testid: "tool-search", oninput: () => this.#show() })
    this.replaceChildren(workflowsHead("tools", h("div", { class: "search" }, icon("search"), this.words)), this.list)
    try {
      const { tools } = await get("/api/tools")
      this.tools = tools.filter(({ name }) => !name.startsWith("workflow/")) // those are on the page of workflows
      this.#show()
    } catch (error) {
      this.list.replaceChildren(problem("The tools cannot be read", error.message))
    }
  }

  #show() {
    if (!this.tools) return
    const words = this.words.value.toLowerCase().split(/\s+/).filter(Boolean)
    const fitting = this.tools.filter(({ name, about }) => words.every((word) => `${name} ${about}`.toLowerCase().includes(word)))
    this.list.replaceChildren(fitting.length ? h("ul", { class: "cards", testid: "tools" }, fitting.map(card)) : emptyState("search", "No tool fits", "Try a shorter word."))
  }
}

function card({ name, about, effect, unavailable }) {
  const foot = h("span", { class: "card-foot" }, h("span", { class: "fine" }, EFFECTS[effect] ?? effect), unavailable && h("span", { class: "tag" }, icon("warning"), "Not available here"))
  return h("li", {}, h("a", { class: "card", href: toolAddress(name), testid: "tool" }, h("span", { class: "card-title" }, name), h("span", { class: "card-words" }, about.split("\n\n")[0]), foot))
}

customElements.define("tools-page", ToolsPage)
