import { get } from "../api.js"
import { h } from "../dom.js"
import { STATE_WORDS } from "../format.js"
import { icon } from "../icons.js"

const STATES = ["running", "waiting", "done", "failed", "cancelled"]
const TYPING = 250 // milliseconds without a key until a search begins
const NAMES = ["text", "status", "workflow", "caller", "person", "since", "until"]

/**
 * <run-filters>: the fields that the list of runs is searched and filtered by. `show(filters)` fills them, `filters` holds
 * the fields that say something, by their names in the address. Tells "filter" when a person has changed them.
 */
class RunFilters extends HTMLElement {
  #timer = 0

  connectedCallback() {
    const tell = () => this.#tell()
    const choice = (name, label) => h("select", { "aria-label": label, testid: `filter-${name}`, onchange: tell, name })
    const day = (name, label) => h("label", { class: "filter-day" }, h("span", {}, label), h("input", { type: "date", testid: `filter-${name}`, onchange: tell, name }))
    this.text = h("input", { type: "search", "aria-label": "Search in runs", placeholder: "Search", testid: "filter-text", name: "text", maxlength: 1000, oninput: this.#typed })
    this.status = choice("status", "Status")
    this.workflow = choice("workflow", "Workflow")
    this.caller = choice("caller", "Started by")
    this.person = choice("person", "Person")
    this.clear = h("button", { type: "button", class: "link-button", hidden: true, testid: "filter-clear", onclick: () => this.#clear() }, "Clear filters")
    this.classList.add("filters")
    this.replaceChildren(h("div", { class: "search" }, icon("search"), this.text), this.status, this.workflow, this.caller, this.person, h("div", { class: "filter-days" }, day("since", "From"), day("until", "To")), this.clear)
    fill(this.status, "Any status", STATES.map((state) => [state, STATE_WORDS[state]]))
    fill(this.workflow, "Any workflow", [])
    fill(this.caller, "Started anywhere", [])
    fill(this.person, "Any person", [])
    this.person.hidden = true
  }

  disconnectedCallback() {
    clearTimeout(this.#timer)
  }

  get filters() {
    const values = NAMES.map((name) => [name, this.#field(name).value.trim()])
    return Object.fromEntries(values.filter(([, value]) => value))
  }

  /** What to ask the server for: days become moments in the reader's zone, the last day included. */
  get query() {
    const { since, until, ...rest } = this.filters
    const moment = (day, days) => new Date(...day.split("-").map((part, i) => Number(part) - (i === 1) + (i === 2 ? days : 0))).toISOString()
    return { ...rest, ...(since && { since: moment(since, 0) }), ...(until && { until: moment(until, 1) }) }
  }

  show(filters) {
    for (const name of NAMES) {
      const [field, value] = [this.#field(name), filters[name] ?? ""]
      if (field.localName === "select" && ![...field.options].some((option) => option.value === value)) field.append(h("option", { value }, value))
      field.value = value
    }
    this.#marked()
  }

  /** Offers the workflows, callers and people that there are. */
  async offer() {
    const { workflows, callers, people } = await get("/api/runs/choices")
    const { workflow, caller, person } = this.filters
    fill(this.workflow, "Any workflow", named(workflows), workflow)
    fill(this.caller, "Started anywhere", named(callers), caller)
    fill(this.person, "Any person", named(people), person)
    this.person.hidden = this.person.options.length < 2
  }

  #field(name) {
    return this.querySelector(`[name=${name}]`)
  }

  #typed = () => {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#tell(), TYPING)
  }

  #clear() {
    this.show({})
    this.text.focus()
    this.#tell()
  }

  #tell() {
    clearTimeout(this.#timer)
    this.#marked()
    this.dispatchEvent(new Event("filter"))
  }

  #marked() {
    this.clear.hidden = !Object.keys(this.filters).length
  }
}

const named = (names) => names.map((name) => [name, name])

/** The options of a choice; one that the address names stays, though no run has it. */
function fill(select, any, options, chosen = "") {
  const all = options.some(([value]) => value === chosen) || !chosen ? options : [...options, [chosen, chosen]]
  select.replaceChildren(h("option", { value: "" }, any), ...all.map(([value, words]) => h("option", { value }, words)))
  select.value = chosen
}

customElements.define("run-filters", RunFilters)
