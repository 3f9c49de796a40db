import { get } from "../api.js"
import { h } from "../dom.js"

const CHOSEN = "hearth.model"

/** <model-picker>: whom one talks to. `value` is a model name of this service: "agent" or "workflow/…". */
class ModelPicker extends HTMLElement {
  connectedCallback() {
    if (!this.select) this.#build()
    document.addEventListener("visibilitychange", this.#refresh)
    this.#refresh()
  }

  disconnectedCallback() {
    document.removeEventListener("visibilitychange", this.#refresh)
  }

  #build() {
    this.select = h("select", { "aria-label": "Who answers", testid: "model", onchange: () => localStorage.setItem(CHOSEN, this.select.value) }, h("option", { value: "agent" }, "Agent"))
    this.append(this.select)
  }

  /** Reads the models again: one may have been added since the page was opened or hidden. */
  #refresh = async () => {
    if (document.hidden) return
    try {
      const [models, served] = await Promise.all([get("/v1/models"), servedModels()])
      this.#offer(models.data.map((model) => model.id), served)
    } catch (error) {
      this.select.title = error.message // asking with the agent goes on, and says itself what is wrong
    }
  }

  get value() {
    return this.select.value || "agent"
  }

  #offer(names, served) {
    const key = JSON.stringify([names, served])
    if (key === this.dataset.key) return
    this.dataset.key = key
    const workflows = names.filter((name) => name.startsWith("workflow/") && name !== "workflow/agent-turn")
    const choices = [h("option", { value: "agent" }, served.length ? `Agent (${served.join(", ")})` : "Agent"), workflows.length && h("optgroup", { label: "Workflows" }, workflows.map((name) => h("option", { value: name }, name.slice("workflow/".length))))]
    this.select.replaceChildren(...choices.filter(Boolean))
    const chosen = localStorage.getItem(CHOSEN)
    this.select.value = names.includes(chosen) ? chosen : "agent"
  }
}

/** The models that experts run now; none for a key that may not see them. */
async function servedModels() {
  const { models } = await get("/api/models").catch(() => ({ models: [] }))
  return models.filter(({ served_by: servedBy }) => servedBy.length).map(({ name }) => name)
}

customElements.define("model-picker", ModelPicker)
