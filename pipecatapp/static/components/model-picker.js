import { get } from "../api.js"
import { h } from "../dom.js"

const CHOSEN = "hearth.model"

/** <model-picker>: whom one talks to. `value` is a model name of this service: "agent" or "workflow/…". */
class ModelPicker extends HTMLElement {
  async connectedCallback() {
    if (this.select) return
    this.select = h("select", { "aria-label": "Who answers", testid: "model", onchange: () => localStorage.setItem(CHOSEN, this.select.value) }, h("option", { value: "agent" }, "Agent"))
    this.append(this.select)
    try {
      this.#offer((await get("/v1/models")).data.map((model) => model.id))
    } catch (error) {
      this.select.title = error.message // asking with the agent goes on, and says itself what is wrong
    }
  }

  get value() {
    return this.select.value || "agent"
  }

  #offer(names) {
    const workflows = names.filter((name) => name.startsWith("workflow/") && name !== "workflow/agent-turn")
    const choices = [h("option", { value: "agent" }, "Agent"), workflows.length && h("optgroup", { label: "Workflows" }, workflows.map((name) => h("option", { value: name }, name.slice("workflow/".length))))]
    this.select.replaceChildren(...choices.filter(Boolean))
    const chosen = localStorage.getItem(CHOSEN)
    this.select.value = names.includes(chosen) ? chosen : "agent"
  }
}

customElements.define("model-picker", ModelPicker)
