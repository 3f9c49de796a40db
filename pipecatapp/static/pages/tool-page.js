import { get } from "../api.js"
import { loading, problem } from "../components/notice.js"
import { startForm } from "../components/start-form.js"
import { h } from "../dom.js"
import { EFFECTS } from "../format.js"
import { icon } from "../icons.js"
import { setTitle } from "../router.js"

/** One tool: what it does, its effect, what it returns, and a form that calls it once, as a run. */
class ToolPage extends HTMLElement {
  async connectedCallback() {
    this.name = this.params.tool
    this.content = h("div", {}, loading(3))
    this.replaceChildren(h("header", { class: "page-head" }, h("a", { class: "link-button crumb", href: "#/tools" }, icon("back"), "Tools"), h("h1", { tabindex: "-1" }, this.name)), this.content)
    setTitle(this.name)
    try {
      this.#show(await get(`/api/tools/${encodeURIComponent(this.name)}`))
    } catch (error) {
      this.content.replaceChildren(problem("This tool cannot be shown", error.message, h("a", { class: "button", href: "#/tools" }, "All tools")))
    }
  }

  #show(tool) {
    const options = { title: "Call it once", label: "Call tool", empty: "This tool needs no inputs." }
    const lacking = tool.unavailable && problem("Not available on this machine", tool.unavailable)
    const about = h("section", { class: "pane tool-facts", "aria-label": "About this tool" }, h("h2", {}, "What it returns"), returned(tool.outputs), h("p", { class: "fine" }, `${EFFECTS[tool.effect] ?? tool.effect} · version ${tool.version}`))
    this.content.replaceChildren(...[...tool.about.split("\n\n").map((words) => h("p", { class: "lead" }, words)), lacking, h("div", { class: "workflow-work" }, startForm({ tool: this.name }, tool.inputs, options), about)].filter(Boolean))
  }
}

function returned(schema) {
  const fields = Object.entries(schema.properties ?? {})
  if (!fields.length) return h("p", { class: "quiet" }, "Nothing with a fixed form.")
  return h("dl", { class: "tool-outputs" }, fields.flatMap(([name, each]) => [h("dt", {}, h("code", {}, name)), h("dd", {}, each.description ?? each.type ?? "")]))
}

customElements.define("tool-page", ToolPage)
