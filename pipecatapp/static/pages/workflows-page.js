import { get } from "../api.js"
import { bundleImport } from "../components/bundle-import.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { workflowsHead } from "../components/page-tabs.js"
import { h } from "../dom.js"
import { icon } from "../icons.js"
import { workflowAddress } from "../router.js"

/** The workflows one can start. */
class WorkflowsPage extends HTMLElement {
  async connectedCallback() {
    this.list = h("div", {}, loading(3))
    this.note = h("div", { class: "note-slot" })
    this.replaceChildren(workflowsHead("workflows", h("div", {}, bundleImport(this.note, this.#load))), this.note, this.list)
    await this.#load()
  }

  #load = async () => {
    try {
      const { workflows } = await get("/api/workflows")
      this.list.replaceChildren(workflows.length ? h("ul", { class: "cards", testid: "workflows" }, workflows.map(card)) : emptyState("workflows", "No workflows", "Put one into the state directory, in its folder “workflows”."))
    } catch (error) {
      this.list.replaceChildren(problem("The workflows cannot be read", error.message))
    }
  }
}

function card({ id, about, tags, inputs, model }) {
  const names = Object.keys(inputs.properties ?? {})
  const foot = h("span", { class: "card-foot" }, h("span", { class: "fine" }, names.length ? `Takes ${names.join(", ")}` : "Takes nothing"), model && h("span", { class: "tag" }, icon("chat"), "In chat"), (tags ?? []).map((tag) => h("span", { class: "tag" }, tag)))
  return h("li", {}, h("a", { class: "card", href: workflowAddress(id), testid: "workflow" }, h("span", { class: "card-title" }, id), h("span", { class: "card-words" }, about), foot))
}

customElements.define("workflows-page", WorkflowsPage)
