import { get, post } from "../api.js"
import { copyButton } from "../components/copy-button.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { workflowsHead } from "../components/page-tabs.js"
import { tokenLegend, tokenText } from "../components/token-text.js"
import { announce, h } from "../dom.js"
import { draftOf, keepDraft, keepField } from "../drafts.js"
import { followRun } from "../events.js"
import { icon } from "../icons.js"
import { runAddress } from "../router.js"

const WORKFLOW = "explore"

/**
 * Answers of a model in branches, with the probability of each token. Each set of branches is a run of the workflow
 * "explore"; their ids are in the address, so a reload shows them again.
 */
class ExplorePage extends HTMLElement {
  #stops = new Set()

  connectedCallback() {
    this.text = h("textarea", { id: "explore-text", rows: 2, required: true, testid: "explore-text" })
    this.model = h("select", { id: "explore-model", testid: "explore-model" }, h("option", { value: "auto" }, "auto"))
    this.count = number("explore-count", { min: 1, max: 8, value: 3 })
    this.heat = number("explore-temperature", { min: 0, max: 2, step: 0.1, value: 0.8 })
    this.length = number("explore-length", { min: 1, max: 4096, value: 80 })
    keepField(this.text, "explore")
    this.note = h("div", { class: "note-slot" })
    this.sets = h("div", { class: "explore-sets", testid: "explore-sets" })
    const form = h("form", { class: "explore-form pane", onsubmit: this.#submit }, field("Question", this.text), h("div", { class: "explore-numbers" }, field("Model", this.model), field("Branches", this.count), field("Temperature", this.heat), field("Tokens", this.length)), h("div", { class: "row" }, h("button", { type: "submit", class: "button primary", testid: "explore-start" }, icon("branch"), "Answer in branches")))
    this.replaceChildren(workflowsHead("explore"), h("p", { class: "fine" }, "The same question is answered several times at once. Each token shows how sure the model was; choose another one to continue from there."), form, this.note, tokenLegend(), this.sets)
    this.#fillModels()
    const ids = (this.params.runs ?? "").split(",").filter(Boolean)
    if (ids.length) for (const id of ids) this.#add(id)
    else this.sets.replaceChildren(emptyState("branch", "No branches yet", "Ask a question above."))
  }

  disconnectedCallback() {
    for (const stop of this.#stops) stop()
  }

  async #fillModels() {
    try {
      const { models } = await get("/api/chat/models")
      const experts = models.map(({ id }) => id).filter((id) => id.startsWith("expert/")).map((id) => id.slice("expert/".length))
      this.model.append(...experts.map((id) => h("option", { value: id }, id)))
    } catch (error) {
      this.model.title = error.message // "auto" goes on, and says itself what is wrong
    }
  }

  #submit = (event) => {
    event.preventDefault()
    this.#start({ text: this.text.value })
  }

  /** Starts branches of a question, or of the beginning of an answer. */
  async #start({ text, prefix = "", model = this.model.value }) {
    const first = Math.floor(Math.random() * 1_000_000)
    const seeds = Array.from({ length: Number(this.count.value) || 1 }, (_, i) => first + i)
    const inputs = { text, prefix, model, seeds, temperature: Number(this.heat.value), max_tokens: Number(this.length.value) }
    this.note.replaceChildren()
    try {
      const { run } = await post("/api/runs", { workflow: WORKFLOW, inputs })
      const runs = [...(this.params.runs ?? "").split(",").filter(Boolean), run]
      this.params.runs = runs.join(",")
      history.replaceState(null, "", `#/explore?${new URLSearchParams({ runs: this.params.runs })}`)
      if (runs.length === 1) this.sets.replaceChildren()
      this.#add(run).scrollIntoView({ block: "nearest" })
    } catch (error) {
      this.note.replaceChildren(problem("The branches were not started", error.message))
    }
  }

  /** Shows a run as soon as it has ended; the newest is the first. */
  #add(id) {
    const content = h("div", {}, loading(2))
    const section = h("section", { class: "explore-set pane", testid: "explore-set", "aria-label": `Branches, set ${this.sets.querySelectorAll(".explore-set").length + 1}` }, content)
    this.sets.prepend(section)
    const stop = followRun(id, { onEvent: () => {}, onWords: () => {}, onEnd: () => this.#show(id, content) })
    this.#stops.add(stop)
    return section
  }

  async #show(id, content) {
    try {
      const { status, error, inputs, outputs } = await get(`/api/runs/${encodeURIComponent(id)}`)
      const head = h("div", { class: "explore-head" }, h("h2", {}, inputs.text), inputs.prefix && h("p", { class: "fine" }, "Continues “", inputs.prefix, "”"), h("a", { class: "fine", href: runAddress(id) }, "Run"))
      if (status !== "done") return content.replaceChildren(head, problem("There are no branches", error ?? `The run is ${status}.`))
      content.replaceChildren(head, h("ol", { class: "explore-branches" }, outputs.branches.map((branch) => this.#branch(`explore-${id}-${branch.rank}`, inputs, branch))))
      announce(`${outputs.branches.length} branches are there.`)
    } catch (error) {
      content.replaceChildren(problem("The branches cannot be shown", error.message))
    }
  }

  /** One branch; `choice` is the name of the draft with what a person decided about it. */
  #branch(choice, inputs, branch) {
    const whole = branch.prefix + branch.text
    const from = (prefix) => this.#start({ text: inputs.text, prefix, model: inputs.model })
    const go = (position, token) => from(branch.prefix + branch.tokens.slice(0, position).map((each) => each.token).join("") + token)
    const state = h("span", { class: "tag", testid: "branch-state" })
    const cull = h("button", { type: "button", class: "link-button", testid: "branch-cull", onclick: () => decide(element.dataset.kept !== "true") })
    const element = h("li", { class: "explore-branch", testid: "branch" }, h("div", { class: "explore-facts" }, state, h("span", { class: "fine" }, `Mean probability ${Math.round(Math.exp(branch.mean_logprob) * 100)} % · perplexity ${branch.perplexity} · ${branch.tokens.length} tokens · ${branch.model}`), cull, h("button", { type: "button", class: "link-button", testid: "branch-continue", onclick: () => from(whole) }, "Branch from its end"), copyButton(() => whole, "Copy the answer")), tokenText(branch, go))
    const mark = (kept) => {
      element.dataset.kept = kept
      state.textContent = kept ? `Rank ${branch.rank}` : "Culled"
      cull.textContent = kept ? "Cull" : "Keep"
    }
    const decide = (kept) => {
      keepDraft(choice, String(kept))
      mark(kept)
    }
    mark((draftOf(choice) || String(branch.kept)) === "true")
    return element
  }
}

const number = (id, more) => h("input", { type: "number", id, inputmode: "numeric", testid: id, ...more })
const field = (label, control) => h("div", { class: "field" }, h("label", { for: control.id }, label), control)

customElements.define("explore-page", ExplorePage)
