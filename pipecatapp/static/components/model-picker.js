import { get } from "../api.js"
import { h } from "../dom.js"

const CHOSEN = "hearth.model"

/**
 * <model-picker>: whom one talks to. `value` is a model name of this service: "agent", "workflow/…" or "expert/…". Tells
 * "choose" when a person has chosen.
 */
class ModelPicker extends HTMLElement {
  #models = [{ id: "agent", about: "Agent", settings: ["temperature", "max_tokens", "system"] }]
  #wanted = null

  connectedCallback() {
    if (!this.select) this.#build()
    document.addEventListener("visibilitychange", this.#refresh)
    this.#refresh()
  }

  disconnectedCallback() {
    document.removeEventListener("visibilitychange", this.#refresh)
  }

  #build() {
    this.select = h("select", { "aria-label": "Who answers", testid: "model", onchange: this.#choose }, h("option", { value: "agent" }, "Agent"))
    this.append(this.select)
  }

  /** Reads the models again: one may have been added since the page was opened or hidden. */
  #refresh = async () => {
    if (document.hidden) return
    try {
      const [{ models }, served] = await Promise.all([get("/api/chat/models"), servedModels()])
      this.#offer(models, served)
    } catch (error) {
      this.select.title = error.message // asking with the agent goes on, and says itself what is wrong
    }
  }

  get value() {
    return this.select.value || "agent"
  }

  /** A model; null for the one that was chosen last in this browser. */
  set value(model) {
    this.#wanted = model
    this.#select()
  }

  /** Which settings of a conversation the model takes. */
  get takes() {
    return this.#models.find(({ id }) => id === this.value)?.settings ?? []
  }

  #choose = () => {
    this.#wanted = this.select.value
    localStorage.setItem(CHOSEN, this.select.value)
    this.dispatchEvent(new Event("choose"))
  }

  #select() {
    const wanted = this.#wanted ?? localStorage.getItem(CHOSEN)
    const value = this.#models.some(({ id }) => id === wanted) ? wanted : "agent"
    if (this.select.value !== value) this.select.value = value
  }

  #offer(models, served) {
    const key = JSON.stringify([models, served])
    if (key === this.dataset.key) return
    this.dataset.key = key
    this.#models = models
    const option = ({ id, about }) => h("option", { value: id }, about)
    const group = (label, kind) => {
      const found = models.filter(({ id }) => id.startsWith(kind))
      return found.length > 0 && h("optgroup", { label }, found.map(option))
    }
    const agent = h("option", { value: "agent" }, served.length ? `Agent (${served.join(", ")})` : "Agent")
    this.select.replaceChildren(...[agent, group("Agent with", "expert/"), group("Workflows", "workflow/")].filter(Boolean))
    this.#select()
  }
}

/** The models that experts run now; none for a key that may not see them. */
async function servedModels() {
  const { models } = await get("/api/models").catch(() => ({ models: [] }))
  return models.filter(({ served_by: servedBy }) => servedBy.length).map(({ name }) => name)
}

customElements.define("model-picker", ModelPicker)
