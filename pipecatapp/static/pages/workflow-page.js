import "../graph/run-graph.js"
import { get } from "../api.js"
import { loading, problem } from "../components/notice.js"
import { startForm } from "../components/start-form.js"
import { h } from "../dom.js"
import { icon } from "../icons.js"
import { editorAddress, setTitle } from "../router.js"

/** One workflow: what it does, its graph, and a form that starts it. */
class WorkflowPage extends HTMLElement {
  async connectedCallback() {
    this.name = this.params.workflow
    this.content = h("div", {}, loading(3))
    this.replaceChildren(h("header", { class: "page-head" }, h("a", { class: "link-button crumb", href: "#/workflows" }, icon("back"), "Workflows"), h("h1", { tabindex: "-1" }, this.name), h("div", { class: "row" }, h("a", { class: "button", href: editorAddress(this.name), testid: "edit-workflow" }, icon("edit"), "Edit"), this.#export())), this.content)
    setTitle(this.name)
    try {
      this.#show(await get(`/api/workflows/${encodeURIComponent(this.name)}`))
    } catch (error) {
      this.content.replaceChildren(problem("This workflow cannot be shown", error.message, h("a", { class: "button", href: "#/workflows" }, "All workflows")))
    }
  }

  /** A link to a bundle of the workflow, for another home. */
  #export() {
    const address = `/api/bundles?${new URLSearchParams({ document: this.name })}`
    return h("a", { class: "button", href: address, download: `${this.name}.hearth`, title: "A signed file with this workflow and all that it needs, for another home", testid: "bundle-export" }, icon("down"), "Export")
  }

  #show(workflow) {
    const graph = h("run-graph")
    this.content.replaceChildren(workflow.about && h("p", { class: "lead" }, workflow.about), h("div", { class: "workflow-work" }, startForm({ workflow: this.name }, workflow.inputs), h("section", { class: "workflow-graph", "aria-label": "Graph" }, graph)))
    graph.show(workflow.graph)
  }
}

customElements.define("workflow-page", WorkflowPage)
