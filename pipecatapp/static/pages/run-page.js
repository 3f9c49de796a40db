import "../components/node-inspector.js"
import "../components/state-badge.js"
import "../components/step-list.js"
import "../components/time-since.js"
import "../components/turn-times.js"
import "../graph/run-graph.js"
import { post } from "../api.js"
import { jsonView } from "../components/json-view.js"
import { loading, problem } from "../components/notice.js"
import { questionForm } from "../components/question-form.js"
import { announce, h } from "../dom.js"
import { STATE_WORDS, tokens } from "../format.js"
import { icon } from "../icons.js"
import { chatAddress, rewrite, runAddress, setTitle, workflowAddress } from "../router.js"
import { RunState } from "../run-state.js"

/** One run: its graph coloured by state, its steps, and all about the step that one chooses. */
class RunPage extends HTMLElement {
  #state = null
  #chosen = null
  #said = ""

  connectedCallback() {
    this.addEventListener("choose", (event) => this.#choose(event.detail.path))
    this.addEventListener("keydown", (event) => event.key === "Escape" && this.#chosen && this.#choose(null))
    this.enter(this.params)
  }

  disconnectedCallback() {
    this.#state?.close()
  }

  enter({ run, step }) {
    this.#state?.close()
    this.#chosen = step ?? null
    this.#said = ""
    this.#build()
    this.#state = new RunState(run)
    this.#state.addEventListener("change", this.#show)
    this.#state.open()
  }

  #build() {
    this.heading = h("h1", { tabindex: "-1" }, "Run")
    this.badge = h("state-badge", { state: "queued", hidden: true, testid: "run-status" })
    this.facts = h("p", { class: "run-facts" })
    this.cancel = h("button", { type: "button", class: "button", hidden: true, testid: "cancel", onclick: this.#cancel }, h("span", { class: "stop-square" }), "Stop run")
    this.note = h("div", { class: "note-slot" }, loading(3))
    this.questions = h("div", { class: "note-slot", onanswered: () => this.#state.refresh() })
    this.graph = h("run-graph")
    this.steps = h("step-list", {})
    this.inspector = h("node-inspector", { hidden: true })
    this.whole = h("div", { class: "run-whole" })
    this.close = h("button", { type: "button", class: "icon-button small close", "aria-label": "Close step", title: "Close step", hidden: true, onclick: () => this.#choose(null) }, icon("cross"))
    const work = h("div", { class: "run-work" }, h("section", { class: "run-graph-pane", "aria-label": "Graph" }, this.graph), h("section", { class: "run-inspect-pane", "aria-label": "Details", tabindex: "0" }, this.close, this.whole, this.inspector))
    const list = h("section", { class: "run-steps", "aria-labelledby": "steps-title" }, h("h2", { id: "steps-title" }, "Steps"), this.steps)
    this.content = h("div", { class: "run-content", hidden: true }, work, list)
    this.replaceChildren(h("header", { class: "page-head run-head" }, h("a", { class: "link-button crumb", href: "#/runs" }, icon("back"), "Runs"), h("div", { class: "run-title" }, this.heading, this.badge, this.cancel), this.facts), this.note, this.questions, this.content)
  }

  #show = () => {
    const { view, error } = this.#state
    if (!view) return this.note.replaceChildren(problem("This run cannot be shown", error, h("a", { class: "button", href: "#/runs" }, "All runs")))
    this.note.replaceChildren()
    this.content.hidden = false
    this.#head(view)
    this.#ask(view)
    this.graph.show(view.graph)
    this.graph.states((path) => this.#state.node(path))
    this.graph.choose(this.#state.step(this.#chosen)?.node ?? this.#chosen)
    this.steps.show(view.steps, "", this.#chosen)
    this.#details(view)
  }

  #head(view) {
    const name = view.request || view.workflow
    if (this.heading.textContent !== name) this.heading.textContent = name
    setTitle(`${name.slice(0, 60)} (${STATE_WORDS[view.status].toLowerCase()})`)
    this.badge.hidden = false
    this.badge.setAttribute("state", view.status)
    this.cancel.hidden = this.#state.ended
    if (this.#said && this.#said !== view.status) announce(`Run ${STATE_WORDS[view.status].toLowerCase()}`)
    this.#said = view.status
    const key = JSON.stringify([view.status, view.tokens, view.seconds])
    if (this.facts.dataset.key === key) return
    this.facts.dataset.key = key
    const seconds = this.#state.ended ? (view.seconds ?? (Date.parse(view.ended) - Date.parse(view.started)) / 1000) : null
    const parts = [h("a", { href: workflowAddress(view.workflow) }, view.workflow), h("time-since", { at: view.started }), h("time-taken", { started: view.started, seconds }), tokens(view.tokens) && `${tokens(view.tokens)} tokens`, view.conversation && h("a", { href: chatAddress(view.conversation) }, "Conversation")]
    this.facts.replaceChildren(...parts.filter(Boolean).map((part) => h("span", {}, part)))
  }

  /** Forms are kept by step, so that a half-written answer survives live changes. */
  #ask(view) {
    const open = view.steps.filter((step) => step.status === "waiting" && step.facts?.question)
    const kept = new Map([...this.questions.children].map((form) => [form.dataset.path, form]))
    const forms = open.map(({ path, facts }) => kept.get(path) ?? questionForm(view.id, path, facts.question))
    for (const form of kept.values()) if (!forms.includes(form)) form.remove()
    for (const form of forms) if (!form.isConnected) this.questions.append(form)
  }

  #details(view) {
    const step = this.#chosen && (this.#state.step(this.#chosen) || view.graph.nodes.some((node) => node.path === this.#chosen))
    this.inspector.hidden = !step
    this.whole.hidden = Boolean(step)
    this.close.hidden = !step
    if (step) return this.inspector.show(this.#state, this.#chosen)
    const key = JSON.stringify([view.outputs, view.inputs, view.error, view.spoken])
    if (this.whole.dataset.key === key) return
    this.whole.dataset.key = key
    const section = (title, value) => value && Object.keys(value).length && h("section", { class: "inspector-section" }, h("h3", {}, title), jsonView(value))
    this.whole.replaceChildren(...[h("p", { class: "quiet" }, "Choose a step to see what went in and what came out."), view.error && problem("The run failed", view.error), view.spoken && spoken(view.spoken), section("Outputs of the run", view.outputs), section("Inputs of the run", view.inputs)].filter(Boolean))
  }

  #choose(path) {
    const before = this.#chosen
    this.#chosen = path
    rewrite(runAddress(this.#state.id, path))
    this.#show()
    this.querySelector(".run-inspect-pane").scrollTop = 0
    if (path) announce(`Showing ${path}`)
    if (path) this.querySelector(".run-work").scrollIntoView({ block: "nearest" })
    else this.querySelector(`[data-path="${CSS.escape(before)}"]`)?.focus()
    if (path && matchMedia("(max-width: 899px)").matches) this.inspector.scrollIntoView({ block: "start", behavior: "smooth" })
  }

  #cancel = async () => {
    this.cancel.disabled = true
    try {
      await post(`/api/runs/${encodeURIComponent(this.#state.id)}/cancel`)
      await this.#state.refresh()
    } catch (error) {
      this.note.replaceChildren(problem("The run could not be stopped", error.message))
    }
    this.cancel.disabled = false
  }
}

/** A turn by voice: what the person waited for. */
function spoken(stages) {
  const times = h("turn-times")
  times.show(stages)
  return h("section", { class: "inspector-section", testid: "spoken" }, h("h3", {}, "From the end of speech to the first sound"), times)
}

customElements.define("run-page", RunPage)
