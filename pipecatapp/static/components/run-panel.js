import "../graph/run-graph.js"
import "./node-inspector.js"
import "./question-form.js"
import "./state-badge.js"
import "./step-list.js"
import { h } from "../dom.js"
import { icon } from "../icons.js"
import { runAddress } from "../router.js"
import { openRun } from "../run-state.js"

/** <run-panel>: one run beside a conversation: its graph live, below it the steps, or the one that was chosen. */
class RunPanel extends HTMLElement {
  #state = null
  #chosen = null

  connectedCallback() {
    this.addEventListener("choose", this.#choose)
    if (!this.children.length) this.#empty()
  }

  disconnectedCallback() {
    this.removeEventListener("choose", this.#choose)
    this.follow(null)
  }

  /** Shows the run of this id from now on; null shows none. */
  follow(run) {
    if (this.#state?.id === run) return
    this.#state?.removeEventListener("change", this.#show)
    this.#state?.close()
    this.#state = run && openRun(run)
    this.#chosen = null
    if (!run) return this.#empty()
    this.#build(run)
    this.#state.addEventListener("change", this.#show)
  }

  #empty() {
    this.replaceChildren(h("div", { class: "panel-empty" }, icon("graph"), h("p", {}, "When you ask something, its steps show here while they happen.")))
  }

  #build(run) {
    this.badge = h("state-badge", { state: "queued" })
    this.graph = h("run-graph")
    this.questions = h("run-questions", { hidden: true, onanswered: () => this.#state.refresh() })
    this.steps = h("step-list", {})
    this.inspector = h("node-inspector", { hidden: true })
    this.all = h("button", { type: "button", class: "link-button crumb", hidden: true, onclick: () => this.#pick(null) }, icon("back"), "All steps")
    const head = h("header", { class: "panel-head" }, h("h2", {}, "Run"), this.badge, h("a", { class: "panel-link", href: runAddress(run) }, "Details"))
    this.replaceChildren(head, this.graph, h("div", { class: "panel-body" }, this.questions, this.all, this.steps, this.inspector))
  }

  #show = () => {
    const { view, error } = this.#state
    if (!view) return error && this.replaceChildren(h("div", { class: "panel-empty" }, h("p", {}, error)))
    this.badge.setAttribute("state", view.status)
    this.questions.show(view.id, this.#state.questions)
    this.graph.show(view.graph)
    this.graph.states((path) => this.#state.node(path))
    this.graph.choose(this.#state.step(this.#chosen)?.node ?? this.#chosen)
    this.all.hidden = !this.#chosen
    this.steps.hidden = Boolean(this.#chosen)
    this.inspector.hidden = !this.#chosen
    this.steps.show(view.steps)
    if (this.#chosen) this.inspector.show(this.#state, this.#chosen)
  }

  #choose = (event) => this.#pick(event.detail.path)

  #pick(path) {
    this.#chosen = path
    this.#show()
    if (!path) this.steps.querySelector("button")?.focus()
  }
}

customElements.define("run-panel", RunPanel)
