import "../graph/run-graph.js"
import { get, post } from "../api.js"
import { loading, problem } from "../components/notice.js"
import { schemaForm } from "../components/schema-form.js"
import { h } from "../dom.js"
import { icon } from "../icons.js"
import { runAddress, setTitle } from "../router.js"

/** One workflow: what it does, its graph, and a form that starts it. */
class WorkflowPage extends HTMLElement {
  async connectedCallback() {
    this.name = this.params.workflow
    this.content = h("div", {}, loading(3))
    this.replaceChildren(h("header", { class: "page-head" }, h("a", { class: "link-button crumb", href: "#/workflows" }, icon("back"), "Workflows"), h("h1", { tabindex: "-1" }, this.name)), this.content)
    setTitle(this.name)
    try {
      this.#show(await get(`/api/workflows/${encodeURIComponent(this.name)}`))
    } catch (error) {
      this.content.replaceChildren(problem("This workflow cannot be shown", error.message, h("a", { class: "button", href: "#/workflows" }, "All workflows")))
    }
  }

  #show(workflow) {
    this.form = schemaForm(workflow.inputs)
    this.fault = h("div", {})
    this.button = h("button", { type: "submit", class: "button primary", testid: "start" }, icon("play"), "Start run")
    const form = h("form", { class: "start-form pane", novalidate: true, onsubmit: this.#start }, h("h2", {}, "Start a run"), this.form.element, this.fault, h("div", { class: "row" }, this.button))
    const graph = h("run-graph")
    this.content.replaceChildren(workflow.about && h("p", { class: "lead" }, workflow.about), h("div", { class: "workflow-work" }, form, h("section", { class: "workflow-graph", "aria-label": "Graph" }, graph)))
    graph.show(workflow.graph)
  }

  #start = async (event) => {
    event.preventDefault()
    this.fault.replaceChildren()
    const inputs = this.form.values()
    if (!inputs) return this.querySelector("[aria-invalid]").focus()
    this.button.disabled = true
    try {
      const { run } = await post("/api/runs", { workflow: this.name, inputs })
      location.hash = runAddress(run)
    } catch (error) {
      this.fault.replaceChildren(problem("The run was not started", error.message))
    }
    this.button.disabled = false
  }
}

customElements.define("workflow-page", WorkflowPage)
