import { get } from "../api.js"
import { h } from "../dom.js"

const CHOSEN = "hearth.model"

/**
 * <model-picker>: whom one talks to. `value` is a model name of this service: "agent", "workflow/…" or "expert/…". Tells
 * "choose" when a person has chosen, and "known" when it has read what there is.
 */
class ModelPicker extends HTMLElement {
  #models = [{ id: "agent", about: "Agent", settings: ["temperature", "max_tokens", "system"] }]
  #wanted = null

  async connectedCallback() {
    if (this.select) return
    this.select = h("select", { "aria-label": "Who answers", testid: "model", onchange: this.#choose }, h("option", { value: "agent" }, "Agent"))
    this.append(this.select)
    try {
      this.#models = (await get("/api/chat/models")).models
      this.#offer()
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
    const known = this.#models.some(({ id }) => id === wanted)
    if (this.select.value !== (known ? wanted : "agent")) this.select.value = known ? wanted : "agent"
  }

  #offer() {
    const option = ({ id, about }) => h("option", { value: id }, about)
    const group = (label, kind) => {
      const found = this.#models.filter(({ id }) => id.startsWith(kind))
      return found.length > 0 && h("optgroup", { label }, found.map(option))
    }
    this.select.replaceChildren(...[option(this.#models[0]), group("Agent with", "expert/"), group("Workflows", "workflow/")].filter(Boolean))
    this.#select()
  }
}

customElements.define("model-picker", ModelPicker)
