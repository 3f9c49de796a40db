import { get, put } from "../api.js"
import { bundleImport } from "../components/bundle-import.js"
import { openDialog } from "../components/dialog.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { workflowsHead } from "../components/page-tabs.js"
import { h } from "../dom.js"
import { icon } from "../icons.js"
import { editorAddress, workflowAddress } from "../router.js"

/** The workflows one can start. */
class WorkflowsPage extends HTMLElement {
  async connectedCallback() {
    this.list = h("div", {}, loading(3))
    this.note = h("div", { class: "note-slot" })
    const fresh = h("button", { type: "button", class: "button primary", testid: "new-workflow", onclick: () => this.#begin() }, icon("plus"), "New workflow")
    this.replaceChildren(workflowsHead("workflows", h("div", { class: "row" }, bundleImport(this.note, this.#load), fresh)), this.note, this.list)
    await this.#load()
  }

  #load = async () => {
    try {
      const [{ workflows }, { drafts }] = await Promise.all([get("/api/workflows"), get("/api/drafts")])
      this.list.replaceChildren(drafts.length ? draftList(drafts) : "", workflows.length ? h("ul", { class: "cards", testid: "workflows" }, workflows.map(card)) : emptyState("workflows", "No workflows", "Put one into the state directory, in its folder “workflows”."))
    } catch (error) {
      this.list.replaceChildren(problem("The workflows cannot be read", error.message))
    }
  }

  /** Asks for the name of a new workflow until there is one that can be had. */
  async #begin(typed = "", fault = "") {
    const field = h("input", { id: "workflow-name", value: typed, required: true, pattern: "[a-z][a-z0-9\\-]*", maxlength: 200, "aria-describedby": "workflow-name-hint", title: "Lower case letters, digits and -", testid: "workflow-name" })
    const content = h("div", { class: "field" }, h("label", { for: "workflow-name" }, "Name"), field, h("p", { class: "hint", id: "workflow-name-hint" }, "Lower case letters, digits and -, such as weekly-report."), fault && h("p", { class: "fault", role: "alert" }, fault))
    if ((await openDialog({ title: "New workflow", content, actions: [{ name: "create", label: "Create", kind: "primary" }], close: "Cancel" })) !== "create") return
    try {
      await put(`/api/drafts/${encodeURIComponent(field.value)}`, {})
      location.hash = editorAddress(field.value)
    } catch (error) {
      await this.#begin(field.value, error.message)
    }
  }
}

function draftList(drafts) {
  const links = drafts.map(({ id, stored }) => h("li", {}, h("a", { class: "link-button", href: editorAddress(id), testid: "draft" }, icon("edit"), id), h("span", { class: "fine" }, stored ? "unsaved changes" : "not saved yet")))
  return h("section", { class: "draft-list", "aria-label": "Drafts" }, h("h2", {}, "Drafts"), h("ul", {}, links))
}

function card({ id, about, tags, inputs, model }) {
  const names = Object.keys(inputs.properties ?? {})
  const foot = h("span", { class: "card-foot" }, h("span", { class: "fine" }, names.length ? `Takes ${names.join(", ")}` : "Takes nothing"), model && h("span", { class: "tag" }, icon("chat"), "In chat"), (tags ?? []).map((tag) => h("span", { class: "tag" }, tag)))
  return h("li", {}, h("a", { class: "card", href: workflowAddress(id), testid: "workflow" }, h("span", { class: "card-title" }, id), h("span", { class: "card-words" }, about), foot))
}

customElements.define("workflows-page", WorkflowsPage)
